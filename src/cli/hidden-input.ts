import { closeSync, openSync, writeSync } from 'node:fs'
import { ReadStream } from 'node:tty'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Typed } from './typed.ts'

/** Signals that this process is told to end with: the terminal gets its echo back first. */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const
/** A terminal that knows it marks what is pasted: lines of it are then no answers of their own. */
const MARK_PASTES = { on: '\x1b[?2004h', off: '\x1b[?2004l' } as const

type Terminal = { readonly stream: ReadStream; write(text: string): void; close(): void }

/**
 * Asks at the terminal of this process, also when its stdin is something else, and shows nothing of the answer. The buffer is the
 * caller's to wipe. Whatever ends the wait, echo is on again: an answer, an error, the end of the terminal, a signal. Only SIGKILL
 * leaves it off (`stty sane`).
 *
 * @throws input_ended when there is no terminal, the answer is broken off, or none comes for `LIMITS.operatorInputMs`
 */
export async function askHidden(question: string): Promise<Buffer> {
  const terminal = openTerminal()
  const typed = new Typed()
  let timer: NodeJS.Timeout | undefined
  const restore = (): void => {
    typed.wipe()
    for (const ending of ENDING) process.removeListener(ending, endBy)
    if (terminal.stream.isRaw) terminal.stream.setRawMode(false)
    terminal.write(`${MARK_PASTES.off}\n`)
  }
  const endBy = (signal: NodeJS.Signals): void => {
    restore()
    process.kill(process.pid, signal)
  }
  try {
    return await new Promise<Buffer>((resolve, reject) => {
      const ended = (why: string): void => reject(new SallyportError('input_ended', why, { hint: 'nothing was changed' }))
      timer = setTimeout(() => ended(`no answer within ${LIMITS.operatorInputMs / 60_000} minutes`), LIMITS.operatorInputMs)
      terminal.stream.on('error', () => ended('the terminal is gone'))
      terminal.stream.on('end', () => ended('the terminal is gone'))
      terminal.stream.on('data', (chunk: Buffer) => {
        const state = typed.take(chunk)
        chunk.fill(0)
        if (state.kind === 'done') resolve(typed.bytes())
        else if (state.kind === 'signal') endBy(state.signal)
        else if (state.kind === 'refused') ended(state.why)
      })
      for (const ending of ENDING) process.on(ending, endBy)
      // Raw before the question: nothing that is typed after it is echoed.
      terminal.stream.setRawMode(true)
      terminal.write(`${MARK_PASTES.on}${question}`)
    })
  } finally {
    clearTimeout(timer)
    restore()
    terminal.close()
  }
}

function openTerminal(): Terminal {
  let descriptor: number
  try {
    descriptor = openSync('/dev/tty', 'r+')
  } catch (cause) {
    throw new SallyportError('input_ended', 'there is no terminal to ask at', {
      hint: 'give a value by stdin, the passphrase of the vault by SALLYPORT_VAULT_PASSPHRASE_FILE',
      cause,
    })
  }
  try {
    const stream = new ReadStream(descriptor)
    return {
      stream,
      write(text) {
        // A terminal that is gone has no use for it.
        try {
          writeSync(descriptor, text)
        } catch {}
      },
      close: () => void stream.destroy(),
    }
  } catch (cause) {
    closeSync(descriptor)
    throw new SallyportError('input_ended', 'the terminal cannot be used', { cause })
  }
}
