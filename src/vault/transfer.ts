import { SallyportError } from '../kernel/errors.ts'
import { Secret } from '../kernel/secret.ts'
import type { Opened } from './keys.ts'
import { brokenIn, changing, reading, type VaultParts } from './parts.ts'
import { bytesOf, checkFields, readRow, readRows, type SecretRow } from './rows.ts'
import { openSecrets, sealSecrets, type ExportedSecret } from './sealed.ts'
import { checkRoom, entryOf, place } from './secrets.ts'
import { checkChosen } from './unlock.ts'

export async function exportSecrets(parts: VaultParts, passphrase: Secret): Promise<string> {
  checkChosen(passphrase)
  const { secrets, version } = reading(parts, (opened) => {
    const { rows, problems } = readRows(opened)
    const [problem] = problems
    // An export is what is left when the vault is gone: never one with less in it than was asked for.
    if (problem !== undefined) throw brokenIn(parts)(problem)
    return { secrets: rows.map((row) => withValue(parts, opened, row)), version: opened.manifest.version }
  })
  const text = await sealSecrets(secrets, passphrase, parts.system)
  parts.onChange({ kind: 'exported', keys: secrets.map(({ key }) => key), version })
  return text
}

/** What an exported file holds, as a vault would take it. */
export type OpenedExport = readonly ExportedSecret[]

/** Needs no vault: whoever has none yet makes none for a file that cannot be opened. @throws sealed_invalid, config_invalid, secret_invalid */
export async function openExport(text: string, passphrase: Secret): Promise<OpenedExport> {
  const secrets = await openSecrets(text, passphrase)
  for (const secret of secrets) {
    checkFields(secret)
    bytesOf(secret.key, new Secret(secret.key, secret.value)).fill(0)
  }
  return secrets
}

/** How many were stored: those that are in the vault as they are in the file are left alone. */
export function importSecrets(parts: VaultParts, secrets: OpenedExport, replace: boolean): number {
  return changing(parts, (opened) => {
    const { rows } = readRows(opened)
    const before = new Map(rows.map((row) => [row.key, withValue(parts, opened, row)]))
    const fresh = secrets.filter((secret) => !isSame(secret, before.get(secret.key)))
    const newer = fresh.filter(({ key, updatedAt }) => (before.get(key)?.updatedAt ?? -1) >= updatedAt)
    if (newer.length > 0 && !replace) throw conflict(newer)
    let { manifest } = opened
    for (const secret of fresh) {
      if (entryOf(manifest, secret.key) === undefined) checkRoom(parts.database.file, manifest)
      const value = bytesOf(secret.key, new Secret(secret.key, secret.value))
      try {
        manifest = place(parts, opened, manifest, rowOf(parts, opened, secret), value)
      } finally {
        value.fill(0)
      }
    }
    // One change of the vault, however many secrets.
    manifest = { ...manifest, version: opened.manifest.version + 1 }
    const keys = fresh.map(({ key }) => key)
    return { manifest, event: keys.length === 0 ? undefined : { kind: 'imported', keys, version: manifest.version }, result: keys.length }
  })
}

function rowOf(
  { system }: VaultParts,
  { manifest }: Opened,
  { key, name, scope, tags, version, createdAt, updatedAt }: ExportedSecret,
): SecretRow {
  const [id, entry] = entryOf(manifest, key) ?? []
  // A file of a machine whose clock is ahead must not stay the newest for good.
  const latest = system.now()
  return {
    id: id ?? system.random(8).toString('hex'),
    name,
    key,
    scope,
    tags: [...new Set(tags)].toSorted(),
    version: Math.max(version, (entry?.version ?? 0) + 1),
    createdAt: Math.min(createdAt, latest),
    updatedAt: Math.min(updatedAt, latest),
  }
}

function withValue(parts: VaultParts, opened: Opened, { key }: SecretRow): ExportedSecret {
  const found = readRow(opened, key, brokenIn(parts))
  if (found === undefined) throw brokenIn(parts)({ key, problem: 'its row is gone' })
  const { id: _id, ...row } = found.row
  try {
    return { ...row, tags: [...row.tags], value: found.value.toString('utf8') }
  } finally {
    found.value.fill(0)
  }
}

function isSame(secret: ExportedSecret, before: ExportedSecret | undefined): boolean {
  if (before === undefined || secret.value !== before.value || secret.name !== before.name || secret.scope !== before.scope) return false
  return JSON.stringify([...new Set(secret.tags)].toSorted()) === JSON.stringify(before.tags)
}

function conflict(newer: readonly ExportedSecret[]): SallyportError {
  const names = newer.slice(0, 10).map(({ key }) => key)
  const more = newer.length > names.length ? ` and ${newer.length - names.length} more` : ''
  return new SallyportError(
    'import_conflict',
    `the vault has other values, not older than those of the file, for ${names.join(', ')}${more}`,
    {
      hint: 'nothing was imported; --replace puts those of the file in their place',
    },
  )
}
