import { readFile, stat, writeFile } from 'node:fs/promises'
import * as z from 'zod'
import { vaultChanges } from '../controller/record/vault-changes.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Secret } from '../kernel/secret.ts'
import { shown } from '../kernel/shown.ts'
import { system } from '../kernel/system.ts'
import { nameOf, openExport, openVault, placeFile, readPassphraseFile } from '../vault/vault.ts'
import { homeOf, parseFlags, type Io } from './command.ts'
import { openConfigRecord } from './config-record.ts'
import { daemonClient } from './daemon-client.ts'
import { askNewPassphrase, askPassphrase } from './secret-input.ts'
import { openOrMakeVault, parseMethod, vaultAccess } from './vault-access.ts'

const FLAGS = {
  'passphrase-file': { type: 'string' },
  unlock: { type: 'string' },
} as const
const ROTATE = 'sallyport secret rotate-key [--to METHOD] [--passphrase-file FILE] [--unlock METHOD]'
const EXPORT = 'sallyport secret export [--output FILE] [--passphrase-file FILE] [--unlock METHOD]'
const IMPORT = 'sallyport secret import FILE [--replace] [--passphrase-file FILE] [--unlock METHOD]'

/** What the daemon answers when the sessions have the secrets of now. */
const Applied = z.object({
  sessions: z.number(),
  failed: z.array(z.object({ name: z.string(), code: z.string(), detail: z.string() })),
})

export async function rotateVaultKey(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parseFlags(
    argv,
    {
      ...FLAGS,
      to: { type: 'string' },
    },
    { min: 0, max: 0, usage: ROTATE },
  )
  const to = parseMethod('--to', values.to)
  if (values['passphrase-file'] !== undefined && to !== 'passphrase')
    throw new SallyportError('usage', '--passphrase-file is for --to passphrase', { hint: `usage: ${ROTATE}` })
  const method = parseMethod('--unlock', values.unlock)
  const newPassphraseFile = values['passphrase-file']
  const access = vaultAccess(io.env, { ...(method && { method }), ...(newPassphraseFile !== undefined && { newPassphraseFile }) })
  const changes = vaultChanges()
  await using vault = await openVault(access.file, access.unlock, system, changes)
  await using record = await openConfigRecord(io)
  const before = vault.method
  await vault.rotateKey(to)
  await record.add(changes.taken('sallyport secret rotate-key'))
  io.out(`${access.file}: ${secrets(vault.list().length)} encrypted anew, locked with ${nameOf(vault.method)}\n`)
  if (before === 'key-file' && vault.method !== 'key-file')
    io.err(`The key file ${access.unlock.keyFile} opens nothing but older copies of the vault now: delete it when you need none.\n`)
  return 0
}

export async function exportVault(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parseFlags(
    argv,
    {
      ...FLAGS,
      output: { type: 'string' },
    },
    { min: 0, max: 0, usage: EXPORT },
  )
  const method = parseMethod('--unlock', values.unlock)
  const access = vaultAccess(io.env, { ...(method && { method }) })
  const changes = vaultChanges()
  await using vault = await openVault(access.file, access.unlock, system, changes)
  const passphrase = await sealPassphrase(values['passphrase-file'], () => askNewPassphrase('Passphrase of the exported file'))
  await using record = await openConfigRecord(io)
  const text = await vault.exportSealed(passphrase)
  await record.add(changes.taken('sallyport secret export'))
  if (values.output === undefined) {
    io.out(text)
    return 0
  }
  await writeOutput(values.output, text)
  io.out(`${values.output}: ${secrets(vault.list().length)}, sealed\n`)
  return 0
}

export async function importVault(argv: readonly string[], io: Io): Promise<number> {
  const flags = {
    ...FLAGS,
    replace: { type: 'boolean' },
  } as const
  const { values, positionals } = parseFlags(argv, flags, { min: 1, max: 1, names: ['FILE'], usage: IMPORT })
  const [file = ''] = positionals
  const text = await readInput(file)
  const method = parseMethod('--unlock', values.unlock)
  const access = vaultAccess(io.env, { ...(method && { method }) })
  const passphrase = await sealPassphrase(values['passphrase-file'], () => askPassphrase('Passphrase of the exported file'))
  // Before there is a vault: nothing is left of a file that cannot be opened.
  const opened = await openExport(text, passphrase)
  const changes = vaultChanges()
  await using vault = await openOrMakeVault(access, io, changes)
  await using record = await openConfigRecord(io)
  const count = vault.importOpened(opened, { replace: values.replace === true })
  await record.add(changes.taken('sallyport secret import'))
  io.out(
    count === 0
      ? `${file}: the vault has all of it already\n`
      : `${file}: ${secrets(count)} stored; "sallyport secret apply" tells running sessions\n`,
  )
  return 0
}

export async function applySecrets(argv: readonly string[], io: Io): Promise<number> {
  parseFlags(argv, {}, { min: 0, max: 0, usage: 'sallyport secret apply' })
  const answer = Applied.safeParse(await daemonClient(homeOf(io.env)).request('POST', '/v1/secrets/apply'))
  if (!answer.success) throw new SallyportError('internal', 'the daemon answered in a form that this version does not know')
  const { sessions, failed } = answer.data
  io.out(`${sessions} ${sessions === 1 ? 'session has' : 'sessions have'} the secrets as they are now\n`)
  for (const { name, code, detail } of failed) io.err(`${shown(name)}: ${code}: ${shown(detail)}; it keeps what it had\n`)
  return failed.length === 0 ? 0 : 1
}

/** Never that of the vault by itself: the file leaves this machine. */
async function sealPassphrase(file: string | undefined, ask: () => Promise<Secret>): Promise<Secret> {
  return file === undefined ? ask() : readPassphraseFile(file)
}

async function writeOutput(file: string, text: string): Promise<void> {
  const isNew = await placeFile(file, system, (temporary) => writeFile(temporary, text)).catch((cause: unknown) => {
    throw new SallyportError('config_invalid', `--output ${file} cannot be written (${codeOf(cause)})`, {
      hint: 'name a file in a folder that is writable',
      cause,
    })
  })
  if (!isNew) throw new SallyportError('config_invalid', `--output ${file} exists already`, { hint: 'name a file that does not exist' })
}

async function readInput(file: string): Promise<string> {
  try {
    const found = await stat(file)
    if (!found.isFile()) throw new SallyportError('config_invalid', `${file} is not a regular file`)
    if (found.size > LIMITS.sealedBytesMax)
      throw new SallyportError('sealed_invalid', `${file} has ${found.size} bytes, ${LIMITS.sealedBytesMax} at most are read`)
    return await readFile(file, 'latin1')
  } catch (cause) {
    if (cause instanceof SallyportError) throw cause
    throw new SallyportError('config_invalid', `${file} cannot be read (${codeOf(cause)})`, {
      hint: 'name a file that "sallyport secret export" wrote',
      cause,
    })
  }
}

function secrets(count: number): string {
  return count === 1 ? '1 secret' : `${count} secrets`
}
