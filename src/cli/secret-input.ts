import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Secret } from '../kernel/secret.ts'
import { askHidden } from './hidden-input.ts'

/** A value from stdin, or at a terminal from a hidden prompt; one newline at its end is not part of it. @throws secret_invalid, input_ended */
export async function readValue(name: string): Promise<Secret> {
  const bytes = process.stdin.isTTY ? await askHidden(`Value of ${name} (hidden): `) : await readStdin(name)
  return toSecret(name, bytes)
}

/** The operator's password from stdin, for scripts; one newline at its end is not part of it. @throws secret_invalid, input_ended */
export async function readPassword(): Promise<Secret> {
  return toSecret('password', await readStdin('password'))
}

/** @throws input_ended */
export async function askPassphrase(question: string): Promise<Secret> {
  return toSecret('passphrase', await askHidden(`${question} (hidden): `))
}

/** A passphrase that is chosen now: a slip of the fingers would lock everybody out. @throws input_ended */
export async function askNewPassphrase(question: string): Promise<Secret> {
  const first = await askPassphrase(question)
  const second = await askPassphrase('The same again')
  if (first.equals(second)) return first
  throw new SallyportError('input_ended', 'the two passphrases are not the same', { hint: 'nothing was changed; try again' })
}

async function readStdin(name: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  const late = setTimeout(
    () => process.stdin.destroy(new SallyportError('input_ended', `no value on stdin within ${LIMITS.operatorInputMs / 60_000} minutes`)),
    LIMITS.operatorInputMs,
  )
  try {
    for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      length += chunk.length
      // With room for the newline at the end.
      if (length > LIMITS.secretBytesMax + 2) {
        throw new SallyportError('secret_invalid', `${name}: more than ${LIMITS.secretBytesMax} bytes came from stdin`, {
          hint: 'store just the value, as the service gave it',
        })
      }
    }
    return Buffer.concat(chunks)
  } finally {
    clearTimeout(late)
    for (const chunk of chunks) chunk.fill(0)
  }
}

function toSecret(name: string, bytes: Buffer): Secret {
  try {
    return new Secret(name, new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes).replace(/\r?\n$/, ''))
  } catch {
    throw new SallyportError('secret_invalid', `${name}: its bytes are not UTF-8 text`, {
      hint: 'encode it, as with base64, and store that',
    })
  } finally {
    bytes.fill(0)
  }
}
