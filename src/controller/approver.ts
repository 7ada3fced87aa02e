import { join } from 'node:path'
import type { Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { leaseDigest, type Leases } from '../lease/lease.ts'
import type { Log } from '../kernel/log.ts'
import type { System } from '../kernel/system.ts'
import { openApprovals, type Approvals } from './approvals/approvals.ts'
import { createSecretStories } from './handles/handles.ts'
import type { LateVault } from './late-vault.ts'
import { openPresence, type Presence } from './presence/presence.ts'
import { proposalProblems } from './proposals/content.ts'
import { createProposals, type Proposals } from './proposals/proposals.ts'
import type { Providers } from './providers/providers.ts'
import { createPlaces } from './requests/place.ts'
import { createRequests, type Requests } from './requests/requests.ts'
import { rememberComplaint } from './requests/remember.ts'
import { entitledOf } from './session-facts.ts'
import type { SessionSecrets } from './session-secrets.ts'
import type { SessionRecord, Sessions } from './sessions/sessions.ts'
import type { StateFile } from './state.ts'

export type ApproverParts = {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  /** The folder of the installation. */
  readonly packageRoot: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly state: StateFile
  readonly leases: Pick<Leases, 'verify' | 'verifyShort'>
  readonly secrets: Pick<SessionSecrets, 'shown'>
  readonly providers: Providers
  readonly vault: Pick<LateVault, 'has'>
  readonly workspace: { refuseSuspect(kept: unknown): Promise<void> }
  readonly audit: Audit
  /** Filled in once they are there: what is asked of the host comes from sessions. */
  readonly late: Late
  readonly system: System
  readonly log: Log
}

export type Late = {
  sessions?: Pick<Sessions, 'list' | 'refreshPolicy' | 'startSibling' | 'siblingImage'>
  web?: { readonly port: number } | undefined
}

/** All that stands between what an agent asks of the host and what is done. */
export type Approver = AsyncDisposable & {
  readonly approvals: Approvals
  readonly presence: Presence
  readonly proposals: Proposals
  readonly requests: Requests
}

/** @throws approvals_invalid, approvals_write_failed, audit_unavailable */
export async function openApprover(parts: ApproverParts): Promise<Approver> {
  const { home, state, audit, late, system, log } = parts
  const policyDirs = [join(parts.packageRoot, 'policies'), join(home, 'policies')]
  const refresh = (workspace: string | undefined): Promise<void> => refreshPolicies(late.sessions, workspace)
  await using open = new AsyncDisposableStack()
  const record = (event: Parameters<Audit['append']>[0]): Promise<void> => audit.append(event)
  const approvals = open.use(
    await openApprovals({
      file: join(home, 'approvals.db'),
      audit: record,
      system,
      log,
      remember: {
        folder: join(home, 'policies', 'remembered'),
        complaint: rememberComplaint,
        changed: (workspace) =>
          void refresh(workspace).catch((error: unknown) =>
            log.error({ workspace, cause: codeOf(error) }, 'a policy could not be read anew'),
          ),
      },
    }),
  )
  const presence = await openPresence({ home, system, log, audit: record })
  const proposals = proposalsOf({ home, policyDirs, approvals, record, refresh, system })
  const place = createPlaces({
    home,
    state,
    policyOf: (session) => entitledOf(session, home, state).policy,
    secretsOf: (session) => parts.secrets.shown(session),
    refuseSuspect: (kept) => parts.workspace.refuseSuspect(kept),
    operatorPorts: () => (late.web === undefined ? [] : [late.web.port]),
  })
  const { providers, vault } = parts
  const secrets = createSecretStories({
    home,
    approvals,
    proposals,
    providers,
    vault,
    siblings: siblingsOf(late),
    place,
    audit: record,
    system,
  })
  const requests = open.use(
    createRequests({
      home,
      env: parts.env,
      approvals,
      proposals,
      place,
      checkLease: (session, lease) => checkAgentLease(parts, session, lease),
      secretRequest: secrets.request,
      secretUse: secrets.use,
      onSessionEnd: secrets.endSession,
      audit: record,
      system,
    }),
  )
  const running = open.move()
  return { approvals, presence, proposals, requests, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

type ProposalsOf = {
  readonly home: string
  readonly policyDirs: readonly string[]
  readonly approvals: Approvals
  readonly record: (event: Parameters<Audit['append']>[0]) => Promise<void>
  readonly refresh: (workspace: string | undefined) => Promise<void>
  readonly system: System
}

function proposalsOf({ home, policyDirs, approvals, record, refresh, system }: ProposalsOf): Proposals {
  return createProposals({
    home,
    approvals,
    check: (target, wish) => Promise.resolve(proposalProblems(target, wish, policyDirs)),
    audit: ({ what, id, of, by, target, digest }) =>
      record(
        by === 'page' && of === 'policy'
          ? { event: 'config_changed', of, what: target, did: what, digest, by: `the page, change ${id}` }
          : { event: 'operator', did: `proposal_${what}`, details: `${id} ${target} sha256 ${digest}` },
      ),
    // Who changes it on the page is told which sessions did not take it.
    onChanged: (of, workspace, by) => (of === 'policy' && by === undefined ? refresh(workspace) : Promise.resolve()),
    system,
  })
}

/** Sessions are there before any agent calls. */
function siblingsOf(late: Late): Pick<Sessions, 'startSibling' | 'siblingImage'> {
  const sessions = (): NonNullable<Late['sessions']> => {
    if (late.sessions !== undefined) return late.sessions
    throw new SallyportError('controller_unavailable', 'the daemon has only begun')
  }
  return {
    startSibling: async (session, wish, signal) => sessions().startSibling(session, wish, signal),
    siblingImage: async (session, image) => sessions().siblingImage(session, image),
  }
}

/** I53: The lease of a compose project's agent is not signed by us, and known by its digest. @throws unauthenticated */
export function checkAgentLease({ leases, state }: Pick<ApproverParts, 'leases' | 'state'>, session: string, lease: string): void {
  const { project, agentLeases = [] } = (state.row(session)?.record ?? {}) as Partial<SessionRecord>
  if (project !== undefined && !state.isRevoked(session) && agentLeases.includes(leaseDigest(lease))) return
  try {
    if (leases.verifyShort(lease, session)) return
    leases.verify(lease, { audience: 'agent', session })
  } catch (cause) {
    throw new SallyportError('unauthenticated', 'the lease is not the one of this session, or was revoked', { cause })
  }
}

/** Those of one workspace, or all. One that has a fault keeps the policy that it has. */
async function refreshPolicies(sessions: Late['sessions'], workspace: string | undefined): Promise<void> {
  const meant = (sessions?.list() ?? []).filter(
    (one) => one.state === 'running' && one.project === undefined && (workspace === undefined || one.workspace === workspace),
  )
  const results = await Promise.allSettled(meant.map(async ({ id }) => sessions?.refreshPolicy(id)))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
