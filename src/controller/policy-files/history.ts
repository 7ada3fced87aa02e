import { auditFiles, latestEntries, type Entry } from '../../audit/audit.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { ChangeDetail, HistoryEntry } from '../../wire/policies.ts'
import type { Changes } from '../proposals/changes.ts'
import { presentedDiff } from './presented-diff.ts'
import { invalid } from './targets.ts'

/** Of all that is told there, what is about policies. */
const ABOUT: ReadonlySet<unknown> = new Set(['policy', 'trust', 'rule'])
/** In what the audit says of a change whose content is kept: its id. */
const PAGE_CHANGE = /^the page, change ([A-Za-z0-9_-]{8,64})$/
const PROPOSAL = /^([A-Za-z0-9_-]{8,64}) (.+) sha256 ([0-9a-f]{64})$/s

/** What became of policies, the latest first, with the id of those changes whose content is kept. */
export async function policyHistory(auditFolder: string, changes: Pick<Changes, 'list'>): Promise<HistoryEntry[]> {
  const own = (await auditFiles(auditFolder)).filter(({ chain }) => chain === 'controller')
  const found = await latestEntries(own, { event: ['config_changed', 'operator'] }, LIMITS.policyHistoryMax)
  const kept = new Map((await changes.list()).filter(({ of }) => of === 'policy').map((one) => [one.id, one]))
  return found.toReversed().flatMap((entry) => {
    const told = entryOf(entry)
    if (told === undefined) return []
    const change = told.id === undefined ? undefined : kept.get(told.id)
    const { id: _id, ...rest } = told
    if (change === undefined) return _id !== undefined && told.by === 'a proposal' ? [] : [rest]
    const isUndone = change.revertedAt !== undefined
    return [{ ...rest, id: change.id, ...(isUndone && { isReverted: true }) }]
  })
}

function entryOf({ fields }: Entry): HistoryEntry | undefined {
  const at = Date.parse(String(fields['time']))
  if (Number.isNaN(at)) return undefined
  if (fields['event'] === 'config_changed') {
    if (!ABOUT.has(fields['of'])) return undefined
    const [what, did, by] = ['what', 'did', 'by'].map((name) => String(fields[name]))
    const id = PAGE_CHANGE.exec(by ?? '')?.[1]
    const digest = fields['digest']
    return {
      at,
      what: what ?? '',
      did: did ?? '',
      by: id === undefined ? (by ?? '') : 'the page',
      ...(typeof digest === 'string' && { digest }),
      ...(id && { id }),
    }
  }
  const did = /^proposal_(applied|reverted)$/.exec(String(fields['did']))?.[1]
  const [, id, what, digest] = PROPOSAL.exec(String(fields['details'])) ?? []
  if (did === undefined || id === undefined || what === undefined || digest === undefined) return undefined
  return { at, what, did, by: 'a proposal', digest, id }
}

/** A change whose content is kept. @throws policy_change_invalid */
export async function changeDetail(changes: Pick<Changes, 'get'>, id: string): Promise<ChangeDetail> {
  const change = await changes.get(id)
  if (change?.of !== 'policy') throw invalid('there is no change of a policy of this id')
  const { by, target, before, after, appliedAt, revertedAt } = change
  return {
    id,
    target,
    appliedAt,
    ...(revertedAt !== undefined && { revertedAt }),
    ...(by !== 'page' && { isProposed: true as const }),
    diff: presentedDiff(target, before, after),
  }
}
