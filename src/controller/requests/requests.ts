import type { RequestAuditEvent } from '../../audit/audit.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import { isAgentMethod, type AgentMethod, type AgentParams, type RequestView } from '../../wire/agent-requests.ts'
import { parseAgentParams } from '../../wire/agent-params.ts'
import type { AgentCall, Ask, AskAnswer } from '../../wire/control.ts'
import type { Approvals } from '../approvals/approvals.ts'
import type { Proposals } from '../proposals/proposals.ts'
import { createAllowances } from './allowances.ts'
import { askAboutDomain } from './domain-question.ts'
import { faultEnding } from './endings.ts'
import { explainPolicy } from './explain.ts'
import { hostRun, hostRunCapability, type RequestPlace } from './host-run.ts'
import { createSwitchedOff } from './switched-off.ts'
import { createRequestBook, type Ending, type OpenRequest } from './request-book.ts'

export type { RequestPlace } from './host-run.ts'
export type { Ending, OpenRequest } from './request-book.ts'

/** The story of one method for one request of a session. What it throws is how the request ended. */
export type Story<M extends AgentMethod> = (session: string, params: AgentParams<M>, request: OpenRequest) => Promise<Ending>

export type RequestsParts = {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  readonly approvals: Approvals
  readonly proposals: Proposals
  /** The operator's environment. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** A session that runs. @throws session_not_running */
  readonly place: (session: string) => RequestPlace
  /** I53: every call shows the lease, and every call has it looked at. @throws lease_invalid */
  readonly checkLease: (session: string, lease: string) => void
  /** Asks for a secret: it ends with a handle. */
  readonly secretRequest: Story<'secret.request'>
  /** Runs a command with secrets where their handles stand. */
  readonly secretUse: Story<'secret.use_in'>
  /** At once when it is known that a session is over: what was given to it is none any more. */
  readonly onSessionEnd: (session: string) => void
  readonly audit: (event: RequestAuditEvent) => Promise<void>
  readonly system: System
}

/** What agents ask of the host. One table of methods, whatever way it is asked by. */
export type Requests = AsyncDisposable & {
  /** @throws request_invalid, request_not_found, unauthenticated, not_found for a method that is switched off, overloaded */
  call(session: string, call: AgentCall, signal: AbortSignal): Promise<unknown>
  /** A rule of the session's gate asks first. */
  ask(session: string, ask: Ask, signal: AbortSignal): Promise<AskAnswer>
  /** Withdraws all that it asked, and ends what runs for it. Resolves when nothing of it goes on. */
  endSession(session: string): Promise<void>
}

export function createRequests(parts: RequestsParts): Requests {
  const { system, approvals, proposals } = parts
  const book = createRequestBook(system, faultEnding)
  const calling = createAllowances(system)
  const asking = createAllowances(system)
  const proposing = createAllowances(system)
  const switchedOff = createSwitchedOff(parts.place, system)

  const handlers: { readonly [M in AgentMethod]: (session: string, params: AgentParams<M>, signal: AbortSignal) => unknown } = {
    'secret.request': (session, params) => begin(session, 'secret.request', (request) => parts.secretRequest(session, params, request)),
    'secret.use_in': (session, params) => begin(session, 'secret.use_in', (request) => parts.secretUse(session, params, request)),
    'host.run': (session, params) => {
      const place = parts.place(session)
      return book.begin(session, 'host.run', (request) => hostRun(parts, place, params, request))
    },
    'host.run_capability': (session, params) => hostRunCapability(parts.place(session), params, system),
    'request.await': (session, { id, wait }, signal) => book.await(session, id, wait * 1_000, signal),
    'request.output': (session, { id, after, wait }, signal) => book.output(session, id, after, wait * 1_000, signal),
    'request.cancel': (session, { id }) => book.cancel(session, id),
    'policy.explain': (session, params) => explainPolicy(parts.place(session), params, system),
    'propose.policy': (session, { content, reason }) => propose(session, 'policy', { name: '', content, reason }),
    'propose.tool': (session, params) => propose(session, 'tool', params),
    'propose.skill': (session, params) => propose(session, 'skill', params),
    'propose.config_change': (session, params) => propose(session, 'config_change', params),
  }

  /** @throws session_not_running, session_revoked */
  function begin(session: string, method: AgentMethod, work: (request: OpenRequest) => Promise<Ending>): RequestView {
    parts.place(session)
    return book.begin(session, method, work)
  }

  function propose(
    session: string,
    of: 'policy' | 'tool' | 'skill' | 'config_change',
    { name, content, reason }: { readonly name: string; readonly content: string; readonly reason: string },
  ): RequestView {
    const { asker } = parts.place(session)
    proposing.charge(session, LIMITS.proposalsPerMinuteMax, LIMITS.proposalsPerMinuteMax, 'proposals')
    return book.begin(session, `propose.${of}`, async (request: OpenRequest) => {
      if (!approvals.isWatched()) request.note('nobody watches now: it waits for the operator, for half an hour')
      await proposals.propose(asker, { of, name, content }, reason, request.signal)
      return { status: 'done' }
    })
  }

  return {
    async call(session, { lease, method, params }, signal) {
      // Before the lease: to look at it costs something too.
      calling.charge(session, LIMITS.agentCallsPerMinuteMax, LIMITS.agentBurstCallsMax, 'calls')
      parts.checkLease(session, lease)
      // I56: its gate says the same, and is not believed.
      if (!isAgentMethod(method) || switchedOff.has(session, method))
        throw new SallyportError('not_found', `there is no method "${shown(method)}"`)
      const handle = handlers[method] as (session: string, params: unknown, signal: AbortSignal) => unknown
      return await handle(session, parseAgentParams(method, params), signal)
    },
    async ask(session, { subject }, signal) {
      // An answer for the session is given to each that is equal, and each is on the disk twice.
      asking.charge(session, LIMITS.asksPerMinuteMax, LIMITS.asksBurstMax, 'questions')
      return askAboutDomain(approvals, parts.place(session), subject, signal, system)
    },
    async endSession(session) {
      for (const known of [calling, asking, proposing, switchedOff]) known.forget(session)
      approvals.endSession(session)
      const ended = book.endSession(session)
      parts.onSessionEnd(session)
      await ended
    },
    [Symbol.asyncDispose]: () => book[Symbol.asyncDispose](),
  }
}
