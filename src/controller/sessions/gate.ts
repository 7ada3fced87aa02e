import { basename } from 'node:path'
import type { Duplex } from 'node:stream'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Engine } from './engine.ts'
import type { Relay } from './forward.ts'
import { projectSocketFolder } from './project-file.ts'
import { socketFolder } from './session-names.ts'
import type { AuthorityPair, SessionLink, SessionParts, SessionRecord } from './session-parts.ts'

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
  /** Opened at the first forwarded connection. */
  relay: Promise<Relay> | undefined
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
    relay: undefined,
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
    async secrets() {
      live.secretsFault = undefined
      try {
        return await parts.secrets(id)
      } catch (error) {
        if (error instanceof SallyportError) live.secretsFault = error
        throw error
      }
    },
    authority() {
      // After a restart of the controller the key is gone with its memory. A sidecar that runs on has its own still.
      if (live.authority === undefined) {
        live.authority = parts.createAuthority(id)
        hooks.renew(live.authority)
      }
      return live.authority
    },
    agentLeases: () => record.agentLeases,
    onLines: (lines) => parts.auditLines(id, lines),
    lastLine: () => parts.lastAuditLine(id),
    onState(state) {
      live.gateHealthy = state === 'ready' || (state === 'connected' && live.gateHealthy)
      hooks.onState(state)
    },
  })
  live.link = link
  return link
}

/**
 * Waits until the gate has its secrets and answers.
 * @throws SallyportError what is wrong with its secrets; else sidecar_not_ready with what it printed last, when it ends before or is not
 *   ready in time
 */
export async function gateReady(
  engine: Engine,
  link: SessionLink,
  { sidecar, live }: { readonly sidecar: string; readonly live: Pick<LiveSession, 'secretsFault'> },
  signal: AbortSignal,
): Promise<void> {
  const over = new AbortController()
  const bound = AbortSignal.timeout(LIMITS.gateReadyMs)
  const waiting = AbortSignal.any([signal, bound, over.signal])
  try {
    await Promise.race([
      link.ready(waiting),
      engine.wait(sidecar, waiting).then(async (code) => {
        throw new SallyportError(
          'sidecar_not_ready',
          `the gate ended with code ${code} before it was ready${await lastWords(engine, sidecar)}`,
        )
      }),
      new Promise((_resolve, reject) => {
        waiting.addEventListener('abort', () => reject(waiting.reason as Error), { once: true })
      }),
    ])
  } catch (error) {
    signal.throwIfAborted()
    if (live.secretsFault !== undefined) throw live.secretsFault
    if (!bound.aborted || error instanceof SallyportError) throw error
    throw new SallyportError(
      'sidecar_not_ready',
      `the gate was not ready within ${LIMITS.gateReadyMs} ms${await lastWords(engine, sidecar)}`,
    )
  } finally {
    over.abort()
  }
}

/** The frames of the control channel, where no socket can be mounted. */
export async function controlStream(engine: Engine, sidecar: string): Promise<Duplex> {
  const { stream, stderr } = await engine.attach(sidecar, { tty: false, replay: false })
  // Its log lines: nobody keeps them, and they must not stand in the way.
  stderr?.resume()
  return stream
}

/** The end of its log, which never has a secret in it. */
async function lastWords(engine: Engine, sidecar: string): Promise<string> {
  let text = ''
  try {
    for await (const piece of engine.logs(sidecar, { follow: false, tail: 3 }, AbortSignal.timeout(LIMITS.engineRetryMs)))
      text += piece.toString('utf8')
  } catch {
    // Gone, or it keeps no log.
  }
  return text.trim() === '' ? '' : `:\n${text.trim().slice(-2_000)}`
}

function roleOf({ role }: Pick<SessionRecord, 'role'>) {
  return role === undefined ? {} : { role }
}
