import { vaultChanges } from '../controller/record/vault-changes.ts'
import { SallyportError } from '../kernel/errors.ts'
import { system } from '../kernel/system.ts'
import { checkSecret, KEY, openVault, scopeOfFolder, type SecretRow, type Vault } from '../vault/vault.ts'
import { parseFlags, parseVerb, type Command, type Io } from './command.ts'
import { openConfigRecord } from './config-record.ts'
import { applySecrets, exportVault, importVault, rotateVaultKey } from './secret-vault.ts'
import { readValue } from './secret-input.ts'
import { openOrMakeVault, parseMethod, vaultAccess, type VaultAccess } from './vault-access.ts'

const SET = 'sallyport secret set NAME [--tag TAG]… [--scope SCOPE] [--unlock METHOD]'
const LS = 'sallyport secret ls [--json] [--unlock METHOD]'
const RM = 'sallyport secret rm NAME [--unlock METHOD]'
const TAG = 'sallyport secret tag NAME [+TAG]… [-TAG]… [--unlock METHOD]'

const USAGE = `usage: ${SET}
       ${LS}
       ${RM}
       ${TAG}
       sallyport secret rotate-key [--to METHOD] [--passphrase-file FILE] [--unlock METHOD]
       sallyport secret export [--output FILE] [--passphrase-file FILE] [--unlock METHOD]
       sallyport secret import FILE [--replace] [--passphrase-file FILE] [--unlock METHOD]
       sallyport secret apply

Keeps secrets in an encrypted vault, $SALLYPORT_HOME/vault.db, where a policy finds them as "vault:NAME". The first "set" or "import"
makes it, locked with the keyring of the system, or where none works with a key file.

sallyport secret set: stores a value: what comes from stdin, or at a terminal what is typed at a hidden prompt. One newline at its end
is not part of it. A value is never an argument.
sallyport secret ls: names, tags, scopes, versions and dates; never values.
sallyport secret rm: removes one.
sallyport secret tag: adds and removes tags; without any, prints them.
sallyport secret rotate-key: encrypts all of it anew with a new key; --to also changes what unlocks it.
sallyport secret export: writes all secrets, sealed with a passphrase, to FILE (0600, must not exist) or stdout.
sallyport secret import: stores those of an exported file, all or none.
sallyport secret apply: has the running daemon give the secrets as they are now to its sessions.

  --tag TAG                a tag of the secret, in place of those it had; may be given several times
  --scope SCOPE            whose sessions get it: global, workspace:FOLDER or role:NAME (default: as it was, or global)
  --json                   a JSON array
  --unlock METHOD          keyring, passphrase or key-file: of a new vault, or what the vault must be locked with
  --to METHOD              the same, for the new lock
  --passphrase-file FILE   has the passphrase of the exported file, or of the new lock (0600); else it is asked for
  --output FILE            where the sealed secrets go
  --replace                also what is newer in the vault than in the file

Environment:
  SALLYPORT_HOME                    default ~/.sallyport
  SALLYPORT_VAULT_KEY_FILE          the key file (0600), default $SALLYPORT_HOME/vault.key
  SALLYPORT_VAULT_PASSPHRASE_FILE   has the passphrase of the vault (0600); else it is asked for at the terminal

Exit code: 0 done, 1 failed, 2 usage or a name that the vault does not have.
`

/** `sallyport secret …` */
export const secretCommand: Command = {
  summary: 'keep secrets in the vault',
  usage: USAGE,
  run([name, ...rest], io) {
    switch (parseVerb('secret', name, ['set', 'ls', 'rm', 'tag', 'rotate-key', 'export', 'import', 'apply'])) {
      case 'set':
        return set(rest, io)
      case 'ls':
        return list(rest, io)
      case 'rm':
        return remove(rest, io)
      case 'tag':
        return tag(rest, io)
      case 'rotate-key':
        return rotateVaultKey(rest, io)
      case 'export':
        return exportVault(rest, io)
      case 'import':
        return importVault(rest, io)
      case 'apply':
        return applySecrets(rest, io)
    }
  },
}

async function set(argv: readonly string[], io: Io): Promise<number> {
  const { name, tags, scope, method } = parseSet(argv)
  const access = vaultAccess(io.env, { ...(method !== undefined && { method }) })
  const options = { ...(tags && { tags }), ...(scope !== undefined && { scope }) }
  // Before the vault is opened or made: an answer that is broken off, or not taken, leaves nothing behind.
  const value = await readValue(name)
  checkSecret(name, value, options)
  const changes = vaultChanges()
  await using vault = await openOrMakeVault(access, io, changes)
  await using record = await openConfigRecord(io)
  const row = vault.set(name, value, options)
  await record.add(changes.taken('sallyport secret set'))
  io.out(`${name}: version ${row.version} is stored; "sallyport secret apply" gives it to running sessions\n`)
  return 0
}

/** What is not understood may be a value in the wrong place: none of it is repeated (I1). */
function parseSet(argv: readonly string[]) {
  const misplaced = (): SallyportError =>
    new SallyportError('usage', 'secret set takes one name and its flags; what else was given is not shown here, as it may be a secret', {
      hint: `give the value by stdin or at the prompt; one that was typed as an argument is in the history of the shell: change it. usage: ${SET}`,
    })
  let parsed
  try {
    parsed = parseFlags(
      argv,
      {
        tag: { type: 'string', multiple: true },
        scope: { type: 'string' },
        unlock: { type: 'string' },
      },
      { min: 0, max: 1, usage: SET },
    )
  } catch {
    throw misplaced()
  }
  const { values, positionals } = parsed
  const [name] = positionals
  if (name === undefined) throw new SallyportError('usage', 'NAME is missing', { hint: `usage: ${SET}` })
  if (!KEY.test(name)) throw misplaced()
  return {
    name,
    tags: values.tag,
    scope: values.scope === undefined ? undefined : scopeOfFolder(values.scope),
    method: parseMethod('--unlock', values.unlock),
  }
}

async function list(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parseFlags(argv, { json: { type: 'boolean' }, unlock: { type: 'string' } }, { min: 0, max: 0, usage: LS })
  await using vault = await openIfThere(accessOf(values.unlock, io))
  const rows = vault?.list() ?? []
  const problems = vault?.problems() ?? []
  if (values.json === true) io.out(`${JSON.stringify([...rows.map(toJson), ...problems], null, 2)}\n`)
  else io.out(rows.length === 0 && problems.length === 0 ? 'no secrets yet: sallyport secret set NAME\n' : table(rows))
  for (const { key, problem } of problems) io.err(`vault_corrupt: secret ${key}: ${problem}\n`)
  if (problems.length > 0) io.err('hint: set each anew, or remove it; the other secrets are not concerned\n')
  return problems.length === 0 ? 0 : 1
}

async function remove(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseFlags(argv, { unlock: { type: 'string' } }, { min: 1, max: 1, names: ['NAME'], usage: RM })
  const [name = ''] = positionals
  const access = accessOf(values.unlock, io)
  const changes = vaultChanges()
  await using vault = await openVault(access.file, access.unlock, system, changes)
  await using record = await openConfigRecord(io)
  vault.remove(name)
  await record.add(changes.taken('sallyport secret rm'))
  io.out(`${name} is removed; running sessions keep it until "sallyport secret apply"\n`)
  return 0
}

async function tag(argv: readonly string[], io: Io): Promise<number> {
  // "-TAG" is no flag, and "--unlock" is one.
  const changes = argv.filter((arg) => /^(?:\+|-(?!-)).+/.test(arg))
  const others = argv.filter((arg) => !changes.includes(arg))
  const { values, positionals } = parseFlags(others, { unlock: { type: 'string' } }, { min: 1, max: 1, names: ['NAME'], usage: TAG })
  const [name = ''] = positionals
  const access = accessOf(values.unlock, io)
  const noted = vaultChanges()
  await using vault = await openVault(access.file, access.unlock, system, noted)
  const tags = new Set(tagsOf(vault, name))
  for (const change of changes) {
    if (change.startsWith('+')) tags.add(change.slice(1))
    else if (!tags.delete(change.slice(1)))
      throw new SallyportError('usage', `${name} has no tag "${change.slice(1)}"`, { hint: `usage: ${TAG}` })
  }
  await using record = changes.length === 0 ? undefined : await openConfigRecord(io)
  const row = changes.length === 0 ? undefined : vault.tag(name, [...tags])
  await record?.add(noted.taken('sallyport secret tag'))
  io.out(`${name}: ${(row?.tags ?? [...tags]).join(' ') || 'no tags'}\n`)
  return 0
}

function tagsOf(vault: Vault, name: string): readonly string[] {
  const row = vault.list().find(({ key }) => key === name)
  if (row !== undefined) return row.tags
  // Says what is wrong with it.
  vault.get(name)
  return []
}

function accessOf(unlock: string | undefined, io: Io): VaultAccess {
  const method = parseMethod('--unlock', unlock)
  return vaultAccess(io.env, { ...(method !== undefined && { method }) })
}

async function openIfThere({ file, unlock }: VaultAccess): Promise<Vault | undefined> {
  try {
    return await openVault(file, unlock, system)
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'vault_missing') return undefined
    throw error
  }
}

function toJson({ id, name, key, scope, tags, version, createdAt, updatedAt }: SecretRow): Record<string, unknown> {
  return {
    id,
    name,
    key,
    scope,
    tags,
    version,
    created_at: new Date(createdAt).toISOString(),
    updated_at: new Date(updatedAt).toISOString(),
  }
}

function table(rows: readonly SecretRow[]): string {
  const cells = rows.map(({ key, version, scope, updatedAt, tags }) => [
    key,
    String(version),
    scope,
    `${new Date(updatedAt).toISOString().slice(0, 16)}Z`,
    tags.join(' '),
  ])
  const lines = [['NAME', 'VERSION', 'SCOPE', 'CHANGED', 'TAGS'], ...cells]
  const widths = [0, 1, 2, 3].map((column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}
