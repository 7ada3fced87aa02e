import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import type { LayerRef, PolicyEdit } from '../../wire/policies.ts'
import { timedFile, workspacePolicyDir } from '../sessions/session-layers.ts'
import { isSessionId } from '../sessions/session-names.ts'

/** A file of the operator's that a change is about, and for whom it is. */
export type ChangeTarget = {
  readonly file: string
  /** In words. */
  readonly label: string
  readonly role?: string
  /** Real path. */
  readonly workspace?: string
  readonly session?: string
  /** Its rules end by themselves. */
  readonly isTimed: boolean
}

/** The name becomes a part of a path. */
const ROLE = /^[a-z0-9-]{1,64}$/
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

/**
 * Where a change belongs. Every target is a file of ours below the home: a workspace's own policy is none.
 * @param sessionOf id and workspace of a session by its name or id @throws session_not_found
 * @throws policy_change_invalid
 */
export function changeTarget(
  home: string,
  layer: LayerRef,
  edit: PolicyEdit,
  sessionOf: (session: string) => { readonly id: string; readonly workspace: string },
): ChangeTarget {
  const policies = join(home, 'policies')
  const until = edit.kind === 'allow_host' ? edit.for : 'always'
  switch (layer.kind) {
    case 'global':
    case 'role': {
      if (until !== 'always')
        throw invalid(`what is allowed for a time is for one workspace or one session, not for the layer "${layer.kind}"`)
      if (layer.kind === 'global') return { file: join(policies, 'global.yaml'), label: 'every session', isTimed: false }
      if (!ROLE.test(layer.role))
        throw invalid(`"${shown(layer.role)}" is no name for a role`, 'lower-case letters, digits and "-", 64 at most')
      return {
        file: join(policies, 'roles', `${layer.role}.yaml`),
        label: `sessions with the role ${layer.role}`,
        role: layer.role,
        isTimed: false,
      }
    }
    case 'workspace': {
      const workspace = realOf(layer.workspace)
      if (until === 'session') throw invalid('"for this session" needs the session that is meant')
      const isTimed = until !== 'always' || (edit.kind === 'remove_rule' && edit.isTimed === true)
      const file = isTimed ? timedFile(home, { workspace }) : join(workspacePolicyDir(home, workspace), 'policy.yaml')
      return { file, label: `sessions in ${workspace}`, workspace, isTimed }
    }
    case 'session': {
      const { id, workspace } = sessionOf(layer.session)
      if (!isSessionId(id)) throw invalid(`"${shown(id)}" is no session`)
      if (edit.kind !== 'remove_rule' && (edit.kind !== 'allow_host' || until === 'always'))
        throw invalid('a session alone has no policy file', 'change the one of its workspace, or allow it for a time')
      return { file: timedFile(home, { session: id }), label: 'this session alone', session: id, workspace, isTimed: true }
    }
  }
}

/** When what an edit allows ends; undefined for what ends with its session, or not at all. */
export function endOf(edit: PolicyEdit, now: number): number | undefined {
  if (edit.kind !== 'allow_host') return undefined
  if (edit.for === 'hour') return now + HOUR_MS
  return edit.for === 'day' ? now + DAY_MS : undefined
}

/** The latest that an edit may end at, when it is applied after it was looked at. */
export function refuseEnd(edit: PolicyEdit, expiresAt: number | undefined, now: number): void {
  const latest = endOf(edit, now)
  if (
    (latest === undefined) !== (expiresAt === undefined) ||
    (latest !== undefined && expiresAt !== undefined && (expiresAt > latest || expiresAt <= now))
  )
    throw invalid('it would end at another time than it says', 'look at the change again')
}

function realOf(workspace: string): string {
  try {
    return realpathSync(workspace)
  } catch {
    // Of a folder that is gone the policy is still there.
    return workspace
  }
}

export function invalid(message: string, hint?: string): SallyportError {
  return new SallyportError('policy_change_invalid', message, hint === undefined ? {} : { hint })
}
