import { createHash } from 'node:crypto'
import * as z from 'zod'
import type { System } from '../kernel/system.ts'
import { contextOf, seal, unseal } from './seal.ts'

/** What one row must be: its key, its version and a digest over everything in it. */
export type Entry = { readonly key: string; readonly version: number; readonly digest: string }

/** All rows of a vault by id, and how often it was changed. Sealed: what the rows alone can't tell is a row that is gone or old. */
export type Manifest = { readonly version: number; readonly entries: ReadonlyMap<string, Entry> }

/** Which vault and which data key a sealed thing belongs to. */
export type Origin = { readonly vaultId: string; readonly keyId: string }

const Sealed = z.strictObject({
  version: z.int().min(0),
  rows: z.array(z.tuple([z.string(), z.string(), z.int(), z.string()])),
})

export const EMPTY: Manifest = { version: 0, entries: new Map() }

export function sealManifest(
  { version, entries }: Manifest,
  { vaultId, keyId }: Origin,
  dataKey: Buffer,
  system: Pick<System, 'random'>,
): Buffer {
  const rows = [...entries].map(([id, { key, version: rowVersion, digest }]) => [id, key, rowVersion, digest])
  return seal(dataKey, contextOf('manifest', vaultId, keyId), Buffer.from(JSON.stringify({ version, rows })), system)
}

/** @throws SealBroken */
export function openManifest(sealed: Uint8Array, { vaultId, keyId }: Origin, dataKey: Buffer): Manifest {
  const { version, rows } = Sealed.parse(JSON.parse(unseal(dataKey, contextOf('manifest', vaultId, keyId), sealed).toString('utf8')))
  return { version, entries: new Map(rows.map(([id, key, rowVersion, digest]) => [id, { key, version: rowVersion, digest }])) }
}

/** The manifest after one more change. */
export function changed({ version, entries }: Manifest, change: (entries: Map<string, Entry>) => void): Manifest {
  const copy = new Map(entries)
  change(copy)
  return { version: version + 1, entries: copy }
}

export function digestOf(context: string, head: Uint8Array): string {
  return createHash('sha256').update(context).update('\0').update(head).digest('base64url')
}
