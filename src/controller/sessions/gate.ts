import { basename } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import type { Relay } from './forward.ts'
import { controlStream, type Said } from './gate-ready.ts'
import { authorityFrom } from '../../pki/pki.ts'
import { projectSocketFolder } from './project-file.ts'
import { isTrusted } from './session-files.ts'
import { sessionFolder, socketFolder } from './session-names.ts'
import type { LinkedSession } from '../links/links.ts'
import type { AuthorityPair, SessionLink, SessionParts, SessionRecord } from './session-parts.ts'
import { noSiblings, type SiblingsHeld } from './siblings-held.ts'

/** What is in memory of a session that lives. */
export type LiveSession = {
  readonly id: string
  link: SessionLink | undefined
  authority: AuthorityPair | undefined
  agentRunning: boolean
  agentExitCode: number | undefined
  gateHealthy: boolean
  /** Why the gate's secrets could not be had when it asked last. */
  secretsFault: SallyportError | undefined
  /** Over its workspace, while it runs. */
  watching: Disposable | undefined
  /** What its gate printed last, where the engine does not keep it. */
  said: Said | undefined
  /** What ends its start, while it starts. */
  rising: readonly [AbortSignal] | undefined
  /** Opened at the first forwarded connection. */
  relay: Promise<Relay> | undefined
  readonly siblings: SiblingsHeld
}

export function newLive(id: string): LiveSession {
  return {
    id,
    link: undefined,
    authority: undefined,
    agentRunning: false,
    agentExitCode: undefined,
    gateHealthy: false,
    secretsFault: undefined,
    watching: undefined,
    said: undefined,
    rising: undefined,
    relay: undefined,
    siblings: noSiblings(),
  }
}

/**
 * Opens the controller's end of a session's control channel. The sidecar's lease is issued here and lives in the folder that only it
 * mounts. `onState` hears what becomes of the channel; `renew` is told of an authority that had to be made anew.
 * @throws session_revoked
 */
export async function openGateLink(
  parts: SessionParts,
  live: LiveSession,
  record: SessionRecord,
  hooks: { readonly onState: (state: 'connected' | 'ready' | 'lost') => void; readonly renew: (authority: AuthorityPair) => void },
): Promise<SessionLink> {
  const { id } = live
  // I28: a new lease would give a session back what was taken from it.
  if (parts.state.isRevoked(id)) throw new SallyportError('session_revoked', `the leases of session ${id} were revoked`)
  const lease = await parts.leases.issue({
    session: id,
    workspace: basename(record.workspace),
    agent: 'sidecar',
    audience: 'sidecar',
    ...roleOf(record),
  })
  parts.state.addLease(lease.id, id, 'sidecar')
  const link = await parts.links.open({
    id,
    socketDir: record.project === undefined ? socketFolder(parts.home, id) : projectSocketFolder(parts.home, record.project),
    sidecarLease: lease.token,
    owner: record.owner,
    verifyLease(token) {
      try {
        parts.leases.verify(token, { audience: 'sidecar', session: id })
        return true
      } catch {
        return false
      }
    },
    async secrets(signal) {
      live.secretsFault = undefined
      try {
        return await parts.secrets(id, AbortSignal.any([signal, ...(live.rising ?? [])]))
      } catch (error) {
        if (error instanceof SallyportError) live.secretsFault = error
        throw error
      }
    },
    // The gate of a compose project reads the operator's own files.
    ...(record.project === undefined && { policyDigest: () => parts.policyDigest(id) }),
    ...authorityVerbs(parts, live, hooks.renew),
    agentLeases: () => record.agentLeases,
    async attachAgain() {
      const { sidecar } = (parts.state.row(id)?.record as SessionRecord | undefined)?.ids ?? {}
      const found = sidecar === undefined ? undefined : await parts.engine.inspect(sidecar)
      return found?.State.Running === true ? await controlStream(parts.engine, found.Id, live) : undefined
    },
    onLines: (lines) => parts.auditLines(id, lines),
    lastLine: () => parts.lastAuditLine(id),
    ...hostRequests(parts, id),
    onState(state) {
      live.gateHealthy = state === 'ready' || (state === 'connected' && live.gateHealthy)
      hooks.onState(state)
    },
  })
  live.link = link
  return link
}

function hostRequests({ requests }: SessionParts, id: string): Pick<LinkedSession, 'onAgent' | 'onTool' | 'onAsk'> {
  if (requests === undefined) return {}
  return {
    onAgent: (call, signal) => requests.call(id, call, signal),
    ...(requests.tool && { onTool: requests.tool.bind(requests, id) }),
    onAsk: (ask, signal) => requests.ask(id, ask, signal),
  }
}

/** The session's authority in memory: made for it, or, after a restart of the controller, the one that its gate serves with. */
function authorityVerbs(
  parts: SessionParts,
  live: LiveSession,
  renew: (authority: AuthorityPair) => void,
): Pick<LinkedSession, 'authority' | 'keepAuthority'> {
  const { id } = live
  return {
    authority() {
      // The gate has ended while no controller was there: with both, the key is gone.
      if (live.authority === undefined) {
        live.authority = parts.createAuthority(id)
        renew(live.authority)
      }
      return live.authority
    },
    keepAuthority(authority) {
      // One that the agent does not trust would be of no use to it, whoever says that it is the session's.
      if (live.authority !== undefined || !isTrusted(sessionFolder(parts.home, id), authority.certificatePem)) return
      try {
        authorityFrom(authority, parts.system)
        live.authority = authority
      } catch (error) {
        parts.log.warn({ session: id, code: codeOf(error) }, 'the authority of the gate cannot be kept: its next start gets another')
      }
    },
  }
}

function roleOf({ role }: Pick<SessionRecord, 'role'>) {
  return role === undefined ? {} : { role }
}
