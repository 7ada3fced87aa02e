import { createRequests, type Requests, type RequestPlace, type RequestsParts } from '../../src/controller/requests/requests.ts'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import { createProposals, type ProposalParts, type Proposals } from '../../src/controller/proposals/proposals.ts'
import { proposalProblems } from '../../src/controller/proposals/content.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { loadPolicy } from '../../src/policy/policy.ts'
import type { Question } from '../../src/wire/question.ts'
import { eventually } from './eventually.ts'
import { allow, evidenceFor, openDesk, type Desk, type DeskOptions } from './approvals.ts'
import { commandSetting } from './executor.ts'

export const LEASE = 'the lease of this session'
const NEVER = new AbortController().signal

/** Requests of agents with real approvals, a real executor and real files. Only the lease and the policy's way here are stand-ins. */
export async function requestsSetting(
  policy: object = {},
  options: DeskOptions &
    Partial<Pick<RequestsParts, 'audit' | 'secretRequest' | 'secretUse' | 'onSessionEnd'>> &
    Partial<Pick<ProposalParts, 'onChanged'>> = {},
) {
  await using parts = new AsyncDisposableStack()
  const command = parts.use(await commandSetting())
  const desk: Desk = parts.use(await openDesk(options))
  const state = { policy, isOver: false }
  const events: { readonly event: string }[] = []
  const read = () => loadPolicy([{ file: 'operator.yaml', text: JSON.stringify({ version: 1, ...state.policy }) }], { policyDirs: [] })
  const place = (session: string): RequestPlace => {
    if (state.isOver) throw new SallyportError('session_not_running', `session ${session} is not running`)
    return {
      asker: { session, sessionName: session, workspace: command.workspace, agent: 'claude' },
      policy: read,
      surroundings: { home: command.home, workspace: command.workspace, operatorPorts: [7_878] },
      secrets: () => [],
      others: () => [],
      refuseSuspect: () => Promise.resolve(),
    }
  }
  const proposals: Proposals = createProposals({
    home: command.home,
    approvals: desk.approvals,
    check: (target, wish) => Promise.resolve(proposalProblems(target, wish, [])),
    audit: async (event) => void events.push({ event: `proposal ${event.what}` }),
    onChanged: options.onChanged ?? (() => Promise.resolve()),
    system: desk.clock,
  })
  const requests: Requests = parts.use(
    createRequests({
      home: command.home,
      approvals: desk.approvals,
      proposals,
      env: command.place.environment,
      place,
      checkLease: (_session, lease) => {
        if (lease !== LEASE) throw new SallyportError('unauthenticated', 'another lease')
      },
      secretRequest: options.secretRequest ?? refuseSecrets,
      secretUse: options.secretUse ?? refuseSecrets,
      onSessionEnd: options.onSessionEnd ?? (() => undefined),
      audit: async (event) => {
        await options.audit?.(event)
        events.push(event)
      },
      system: desk.clock,
    }),
  )
  const call = (method: string, params: unknown, session = 's-1'): Promise<unknown> =>
    requests.call(session, { lease: LEASE, method, params }, NEVER)
  const asked = (): Promise<Question> =>
    eventually(() => {
      const [question] = desk.approvals.list({ state: 'pending' })
      if (question === undefined) throw new Error('nothing was asked')
      return question
    })
  const all = parts.move()
  return {
    ...command,
    desk,
    state,
    events,
    requests,
    proposals,
    call,
    asked,
    async yes(question: Question): Promise<void> {
      desk.clock.pass(LIMITS.debounceMs)
      await desk.approvals.answer(question.id, allow(question), evidenceFor(question.digest, 'T1'))
    },
    ended: (view: unknown, session = 's-1') =>
      call('request.await', { id: (view as RequestView).id, wait: 45 }, session) as Promise<RequestView>,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

function refuseSecrets(): Promise<never> {
  return Promise.reject(new SallyportError('secret_not_permitted', 'none in this test'))
}
