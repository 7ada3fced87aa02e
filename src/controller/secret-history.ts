import { join } from 'node:path'
import { auditFiles, readEntries, type Entry } from '../audit/audit.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { SecretChangeView } from '../wire/secrets.ts'

/**
 * What the controller's chain has of changes and copies of a secret, newest first. As far back as `LIMITS.secretChangesFilesMax` of its
 * files go.
 * @throws audit_open_failed
 */
export async function changesOfSecret(home: string, key: string): Promise<SecretChangeView[]> {
  const files = (await auditFiles(join(home, 'audit'))).filter(({ chain }) => chain === 'controller')
  const found: SecretChangeView[] = []
  for (const file of files.slice(-LIMITS.secretChangesFilesMax).toReversed()) {
    const own: SecretChangeView[] = []
    for await (const entry of readEntries([file], (line) => line.includes(key))) own.push(...changeOf(entry, key))
    found.push(...own.toReversed())
    if (found.length >= LIMITS.secretChangesListedMax) break
  }
  return found.slice(0, LIMITS.secretChangesListedMax)
}

function changeOf({ fields }: Entry, key: string): SecretChangeView[] {
  const { event, of, what, did, version, by, time, details } = fields
  const at = Date.parse(String(time))
  if (event === 'config_changed' && of === 'secret' && what === key)
    return [{ at, did: String(did), by: String(by), ...(typeof version === 'number' && { version }) }]
  if (event === 'config_changed' && of === 'vault' && String(what).split(',').includes(key))
    return [{ at, did: String(did), by: String(by) }]
  if (event === 'operator' && did === 'secret_copied' && String(details).startsWith(`${key} `)) {
    const [, copied, copier = ''] = /^\S+ version (\d+) by (.*)$/.exec(String(details)) ?? []
    return [{ at, did: 'copied', by: copier, ...(copied !== undefined && { version: Number(copied) }) }]
  }
  return []
}
