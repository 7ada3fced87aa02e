import { join } from 'node:path'
import type { Audit } from '../audit/audit.ts'
import type { Log } from '../kernel/log.ts'
import type { System } from '../kernel/system.ts'
import { checkPolicy, formatDiagnostic } from '../policy/policy.ts'
import { openApprovals, type Approvals } from './approvals/approvals.ts'
import { openPresence, type Presence } from './presence/presence.ts'
import { createProposals, type Proposals, type ProposalWish } from './proposals/proposals.ts'
import { createRequests, type RequestPlace, type Requests } from './requests/requests.ts'
import { rememberComplaint } from './requests/remember.ts'

export type ApproverParts = {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  readonly policyDirs: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly audit: Audit
  /** A session that runs. @throws session_not_running */
  readonly place: (session: string) => RequestPlace
  /** @throws lease_invalid */
  readonly checkLease: (session: string, lease: string) => void
  /** The policy of every session of this workspace is to be read anew; of all sessions without one. */
  readonly refresh: (workspace: string | undefined) => Promise<void>
  readonly system: System
  readonly log: Log
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
  const { home, audit, system, log } = parts
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
          void parts
            .refresh(workspace)
            .catch((error: unknown) => log.error({ workspace, cause: String(error) }, 'a policy could not be read anew')),
      },
    }),
  )
  const presence = await openPresence({ home, system, log })
  const proposals = createProposals({
    home,
    approvals,
    check: (target, wish) => Promise.resolve(problemsOf(target, wish, parts.policyDirs)),
    audit: ({ what, id, target, digest }) =>
      record({ event: 'operator', did: `proposal_${what}`, details: `${id} ${target} sha256 ${digest}` }),
    onChanged: (of, workspace) => (of === 'policy' ? parts.refresh(workspace) : Promise.resolve()),
    system,
  })
  const requests = open.use(
    createRequests({ home, env: parts.env, approvals, proposals, place: parts.place, checkLease: parts.checkLease, audit: record, system }),
  )
  const running = open.move()
  return { approvals, presence, proposals, requests, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

/** What is wrong with what a file would say, a line each. */
function problemsOf(target: string, { of, content }: ProposalWish, policyDirs: readonly string[]): readonly string[] {
  switch (of) {
    case 'policy':
      return checkPolicy([{ file: target, text: content }], { policyDirs }).errors.map(formatDiagnostic)
    case 'tool':
      return isJsonObject(content) ? [] : ['it is not an object in JSON']
    case 'skill':
      return content.trim() === '' ? ['it is empty'] : []
    case 'config_change':
      return []
  }
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
