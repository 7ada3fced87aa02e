import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { createPrivateFile } from '../../kernel/private-file.ts'
import type { System } from '../../kernel/system.ts'
import type { ChangeDone, ChangePreview, ChangeRequest, ChangeWish, LayerRef, ProblemView } from '../../wire/policies.ts'
import type { Changes } from '../proposals/changes.ts'
import { digestOf, textOf } from '../proposals/changes.ts'
import type { SessionRecord, Sessions } from '../sessions/sessions.ts'
import type { StateFile } from '../state.ts'
import { editedText } from './edits.ts'
import { presentedDiff } from './presented-diff.ts'
import { judge, type JudgeParts, type Reached } from './judge.ts'
import { changeTarget, endOf, invalid, refuseEnd, type ChangeTarget } from './targets.ts'

export type PolicyChangesParts = JudgeParts & {
  readonly changes: Changes
  readonly state: Pick<StateFile, 'find' | 'live'>
  readonly sessions: Pick<Sessions, 'list' | 'refreshPolicy'>
  readonly system: Pick<System, 'now' | 'random'>
}

/** I80: Changes of the operator's policies by the operator: looked at first, then made exactly as they were looked at. */
export type PolicyChanges = {
  /** What it would do. Nothing is written. @throws policy_change_invalid, session_not_found */
  preview(wish: ChangeWish): Promise<ChangePreview>
  /** @throws policy_file_changed, policy_invalid, policy_change_invalid, audit_unavailable: nothing is changed */
  apply(request: ChangeRequest): Promise<ChangeDone>
  /** What `policy check` would say of a file with this text, in the policies that it is a part of. */
  check(layer: LayerRef, content: string): Promise<readonly ProblemView[]>
  /** Takes a change of the page back. @throws policy_change_invalid for one that an agent proposed; proposal_invalid, proposal_outdated */
  takeBack(id: string): Promise<ChangeDone>
  /** Has running sessions that have it among their layers read their policy anew, and tells which did not take it. */
  refresh(target: Pick<ChangeTarget, 'role' | 'workspace' | 'session'>): Promise<ChangeDone['notTaken']>
  /** Running sessions that have this file among their layers. */
  reached(target: Pick<ChangeTarget, 'role' | 'workspace' | 'session'>): readonly Reached[]
}

type Planned = {
  readonly target: ChangeTarget
  readonly before: string | undefined
  readonly after: string
  readonly expiresAt?: number | undefined
}

export function createPolicyChanges(parts: PolicyChangesParts): PolicyChanges {
  const { home, changes, state, system } = parts
  const reached: PolicyChanges['reached'] = (target) => reachedBy(state, target)
  return {
    reached,
    refresh: (target) => refresh(parts, target),
    async preview(wish) {
      const { target, before, after, expiresAt } = await plan(parts, wish, endOf(wish.edit, system.now()))
      const reaches = reached(target)
      const { problems, isRefused } = await judge(parts, target, after, before, reaches)
      return {
        target: target.file,
        layer: target.label,
        diff: presentedDiff(target.file, before, after),
        ...(before !== undefined && { before: digestOf(before) }),
        after: digestOf(after),
        problems,
        isRefused,
        reaches: reaches.map(({ id, name }) => ({ id, name })),
        ...(expiresAt !== undefined && { expiresAt }),
      }
    },
    async apply({ target: seenTarget, before: seenBefore, after: seenAfter, expiresAt, ...wish }) {
      refuseEnd(wish.edit, expiresAt, system.now())
      const planned = await plan(parts, wish, expiresAt)
      const { target, before, after } = planned
      // Where a link of the workspace leads now may be another workspace.
      if (target.file !== seenTarget) throw changed(seenTarget)
      if ((before === undefined ? undefined : digestOf(before)) !== seenBefore || digestOf(after) !== seenAfter) throw changed(target.file)
      const { problems, isRefused } = await judge(parts, target, after, before, reached(target))
      if (isRefused)
        throw new SallyportError('policy_invalid', problems.map(({ file, line, message }) => `${file}:${line}: ${message}`).join('\n'))
      const id = `page-${system.random(8).toString('hex')}`
      await nameWorkspace(target, system)
      await makeChange(changes, planned, id, system.now())
      return { id, target: target.file, notTaken: await refresh(parts, target) }
    },
    async check(layer, content) {
      const target = targetOf(parts, { layer, edit: { kind: 'content', content } })
      return (await judge(parts, target, content, await currentText(home, target.file), reached(target))).problems
    },
    async takeBack(id) {
      const known = await changes.get(id)
      if (known?.of !== 'policy') throw invalid('there is no change of a policy of this id')
      // What took a proof to be made takes one to be unmade.
      if (known.by !== 'page') throw invalid('an agent proposed it: it is taken back as a proposal', 'sallyport proposals revert ID')
      const { target } = await changes.takeBack(id, 'page')
      // Whose file it is, its name alone does not always say.
      return { id, target, notTaken: await refresh(parts, {}) }
    },
  }
}

function reachedBy(state: PolicyChangesParts['state'], { role, workspace, session }: Parameters<PolicyChanges['reached']>[0]): Reached[] {
  return state.live().flatMap(({ id, name, state: at, record }) => {
    const own = record as SessionRecord
    if (at !== 'running' || own.project !== undefined) return []
    const isMeant =
      session === undefined ? (workspace ?? own.workspace) === own.workspace && (role ?? own.role) === own.role : id === session
    return isMeant ? [{ id, name, workspace: own.workspace, role: own.role, policy: own.policy }] : []
  })
}

function targetOf({ home, state }: PolicyChangesParts, { layer, edit }: ChangeWish): ChangeTarget {
  return changeTarget(home, layer, edit, (session) => {
    const row = state.find(session)
    if (row === undefined) throw new SallyportError('session_not_found', `there is no session "${session}"`)
    return { id: row.id, workspace: (row.record as SessionRecord).workspace }
  })
}

async function plan(parts: PolicyChangesParts, wish: ChangeWish, expiresAt: number | undefined): Promise<Planned> {
  const target = targetOf(parts, wish)
  const before = await currentText(parts.home, target.file)
  const pruned = target.isTimed ? { prunedAt: parts.system.now() } : {}
  const after = editedText(before, wish.edit, { file: target.file, expiresAt, ...pruned })
  if (before === after) throw invalid('it changes nothing')
  // Nobody would judge it as a part of a whole policy, and nobody would have it.
  if (target.session !== undefined && wish.edit.kind !== 'remove_rule' && reachedBy(parts.state, target).length === 0)
    throw invalid('nothing can be allowed for a session that does not run', 'allow it for its workspace')
  if (Buffer.byteLength(after) > LIMITS.policyEditBytesMax)
    throw invalid(`the file would have more than ${LIMITS.policyEditBytesMax} bytes`)
  // What could not be read again could not be taken back.
  if (Buffer.byteLength(JSON.stringify([before, after])) > LIMITS.proposalRecordBytesMax - RECORD_REST_BYTES)
    throw invalid(`with what is there now it has more than ${LIMITS.proposalRecordBytesMax} bytes`)
  return { target, before, after, expiresAt }
}

/** Of a record of a change, beside its two texts. */
const RECORD_REST_BYTES = 8_192

/** A session that does not take it keeps the policy that it has: its operator is told. */
async function refresh(
  { state, sessions }: PolicyChangesParts,
  target: Parameters<PolicyChanges['reached']>[0],
): Promise<ChangeDone['notTaken']> {
  const meant = reachedBy(state, target)
  const results = await Promise.allSettled(meant.map(({ id }) => sessions.refreshPolicy(id)))
  return results.flatMap((result, index) => {
    const one = meant[index]
    return result.status === 'rejected' && one ? [{ id: one.id, name: one.name, why: messageOf(result.reason) }] : []
  })
}

async function makeChange(changes: Changes, { target, before, after }: Planned, id: string, appliedAt: number): Promise<void> {
  try {
    const applied = { id, of: 'policy', by: 'page', target: target.file, after, appliedAt } as const
    await changes.apply({ ...applied, ...(before !== undefined && { before }) }, undefined)
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'proposal_outdated') throw changed(target.file)
    if (error instanceof SallyportError) throw error
    throw new SallyportError('policy_change_invalid', `${target.file} cannot be written (${codeOf(error)})`, {
      hint: 'nothing was changed',
      cause: error,
    })
  }
}

/** Who looks into the folder finds out whose it is: its name is a hash. */
async function nameWorkspace({ file, workspace, isTimed }: ChangeTarget, system: Pick<System, 'random'>): Promise<void> {
  if (workspace === undefined || isTimed) return
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await createPrivateFile(join(dirname(file), 'workspace'), `${workspace}\n`, system)
  } catch (cause) {
    throw new SallyportError('policy_change_invalid', `${dirname(file)} cannot be written (${codeOf(cause)})`, {
      hint: 'nothing was changed',
      cause,
    })
  }
}

/** @throws policy_change_invalid for a link, a folder that is one, or what is no text */
export async function currentText(home: string, file: string): Promise<string | undefined> {
  try {
    return await textOf(home, file)
  } catch (cause) {
    if (cause instanceof SallyportError) throw new SallyportError('policy_change_invalid', cause.message, { cause })
    throw new SallyportError('policy_change_invalid', `${file} cannot be read (${codeOf(cause)})`, { cause })
  }
}

function changed(file: string): SallyportError {
  return new SallyportError('policy_file_changed', `${file} is not as it was when this was looked at`, {
    hint: 'nothing was changed: look at the change again',
  })
}

function messageOf(error: unknown): string {
  return error instanceof SallyportError ? `${error.code}: ${error.message}` : codeOf(error)
}
