import type { Lane } from '../../audit/audit.ts'
import { fieldOf, valueFor } from '../../credential/credential.ts'
import { codeOf, SallyportError, type Refusal } from '../../kernel/errors.ts'
import { formatAuthority } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { AllowedRule, CredentialBinding, Decision, Facts, Route } from '../../policy/policy.ts'
import type { Addresses } from '../upstream/addresses.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import type { Agent } from './agent.ts'
import type { Asking } from './asking.ts'
import type { Enforced, Enforcement } from './enforced.ts'
import type { Exchange, Exchanges, Where } from './exchange.ts'
import { DEFAULT_PORT, isPresigned, readFacts, type RequestHead, type Tunnel } from './facts.ts'
import { agentGone, forward, upstreamError, type ForwardedHead, type Outcome } from './forward.ts'
import { forwardedRequestHeaders, withCredential, withoutCredentials } from './headers.ts'
import type { Lease } from './lease.ts'
import type { Live, LiveEntry } from './live.ts'
import { answerRefusal, refusalOf } from './refuse.ts'
import { readRoute } from './route.ts'

export type HandleParts = {
  readonly enforcement: Enforcement
  readonly exchanges: Exchanges
  readonly asking: Asking
  readonly lease: Lease
  readonly live: Live
  readonly addresses: Addresses
  readonly upstreams: Upstreams
  readonly log: Log
}

/** Where a request came in: on a connection that leads somewhere, at the proxy, or at the gateway's routes. */
export type CameBy = Tunnel | 'proxy' | 'gateway'

/** Answers one request: from the agent's bytes to the upstream's answer, or to the reason why not. Never rejects. */
export type Handle = (agent: Agent, by: CameBy) => Promise<void>

/** The story of a request: facts → decision → ask → audit → addresses → credential → forward → audit. */
export function createHandle(parts: HandleParts): Handle {
  let running = 0
  return (agent, by) =>
    parts.exchanges.run(laneOf(by), async (exchange) => {
      running += 1
      try {
        if (running > LIMITS.requestsMax) {
          return await refuse(exchange, agent, knownOf(by), { code: 'overloaded', message: 'too many requests at once' })
        }
        const enforced = parts.enforcement()
        const request = readRequest(parts, enforced, agent.head, by)
        if ('code' in request) return await refuse(exchange, agent, knownOf(by), request)
        const { facts } = request
        const decision = decide(enforced, request)
        if (decision.action === 'deny') return await refuse(exchange, agent, facts, decision.refusal)
        if (decision.action === 'ask') {
          const { requestId, lane } = exchange
          const refusal = await parts.asking.consult({ requestId, lane, rule: decision.rule.id, facts }, agent)
          if (refusal) return await refuse(exchange, agent, facts, refusal)
        }
        // I3: on disk before anything leaves, and a DNS question for an agent-chosen name is something that leaves.
        await exchange.allow(facts, decision.rule, writtenBy(decision), decision.withheld)
        await pass(parts, enforced, exchange, agent, request, decision)
      } catch (error) {
        const refusal = refusalOf(error)
        parts.log.error(
          { requestId: exchange.requestId, code: refusal.code, err: refusal.code === 'internal' ? error : undefined },
          'egress refused',
        )
        give(agent, refusal, exchange, {})
      } finally {
        running -= 1
      }
    })
}

function laneOf(by: CameBy): Lane {
  return by === 'proxy' ? 'http' : by === 'gateway' ? 'route' : by.lane
}

/** What is known of a request that cannot be read. */
function knownOf(by: CameBy): Where {
  if (typeof by === 'string') return {}
  const { scheme, host, port } = by
  return { scheme, port, ...(host !== undefined && { host }) }
}

type Request = { readonly facts: Facts; readonly route: Route | undefined; readonly by: CameBy }

function readRequest(parts: HandleParts, { policy }: Enforced, head: RequestHead, by: CameBy): Request | Refusal {
  const unproven = parts.lease.refusalOf(policy, by, head)
  if (unproven) return unproven
  if (by === 'gateway') {
    const found = readRoute(head, policy.routes)
    return 'code' in found ? found : { ...found, by }
  }
  const facts = readFacts(head, by === 'proxy' ? undefined : by)
  return 'code' in facts ? facts : { facts, route: undefined, by }
}

type Target = { readonly scheme: 'http' | 'https'; readonly port: number }
type Denied = Extract<Decision, { action: 'deny' }>
type Passing = {
  readonly action: 'allow' | 'ask'
  readonly rule: AllowedRule
  /** How it leaves: by another scheme and port than it came where the rule upgrades it. */
  readonly target: Target
  /** The credential of this request. The place where it is written is never the agent's. */
  readonly bound: CredentialBinding | undefined
  /** Why the bound credential is not written, if so. */
  readonly withheld: string | undefined
}

/** The policy's decision, with which credential, and over what the request leaves. */
function decide({ policy }: Enforced, { facts, route }: Pick<Request, 'facts' | 'route'>): Passing | Denied {
  const decision = route ? policy.decideRoute(route, facts) : policy.decide(facts)
  if (decision.action === 'deny') return decision
  const { action, rule } = decision
  const isUpgraded = facts.scheme === 'http' && rule.upgrade
  const target: Target = isUpgraded ? { scheme: 'https', port: facts.port === DEFAULT_PORT.http ? DEFAULT_PORT.https : facts.port } : facts
  const bound = route && route.credential === undefined ? undefined : policy.credentialFor({ ...facts, ...target }, route?.credential)
  return { action, rule, target, bound, withheld: bound && reasonToWithhold(facts, rule, target) }
}

/** Why a bound credential is not written, if so. I5: it leaves over verified TLS, or where the rule takes plain text. */
function reasonToWithhold(facts: Facts, rule: AllowedRule, target: Target): string | undefined {
  if (target.scheme === 'http' && !rule.plaintext) return 'plaintext: no credential added'
  if (isPresigned(facts.path)) return 'presigned: no credential added'
  return undefined
}

/** Sends on a request that the policy allows, and records what came of it. */
async function pass(
  parts: HandleParts,
  enforced: Enforced,
  exchange: Exchange,
  agent: Agent,
  request: Request,
  passing: Passing,
): Promise<void> {
  const { facts } = request
  let outcome: Outcome = { status: undefined, bytesUp: 0, bytesDown: 0 }
  let refusal: Refusal | undefined
  let addresses: readonly string[] | undefined
  const cut = new AbortController()
  const entry: LiveEntry = {
    isAllowed: (changed) =>
      parts.lease.refusalOf(changed.policy, request.by, agent.head) === undefined && stillPasses(changed, request, passing, addresses),
    cut: () => cut.abort(new SallyportError('policy_changed', 'the policy no longer allows it')),
  }
  const place = parts.live.add(entry, enforced)
  try {
    cut.signal.throwIfAborted()
    if (agent.isGone) throw agentGone()
    const { rule, target } = passing
    const judged = await parts.addresses.judge(enforced.policy, facts.host, target.port, rule)
    if ('code' in judged) {
      refusal = judged
    } else {
      ;({ addresses } = judged)
      place.check()
      const sent = forwardedRequestHeaders(
        request.route ? parts.lease.without(agent.head.rawHeaders) : agent.head.rawHeaders,
        formatAuthority(facts.host, target.port, DEFAULT_PORT[target.scheme]),
      )
      const head = await forwardedHead(enforced, facts, sent, passing)
      cut.signal.throwIfAborted()
      const end = { scheme: target.scheme, host: facts.host, port: target.port, addresses }
      const pool = parts.upstreams.pool({ ...end, credential: writtenBy(passing)?.id ?? '', generation: enforced.generation })
      outcome = await forward(pool, head, agent, cut.signal)
    }
  } catch (error) {
    outcome = { ...outcome, error }
  } finally {
    place.leave()
  }
  if (outcome.error !== undefined) {
    const error = upstreamError(outcome.error, formatAuthority(facts.host, facts.port))
    if (error.code !== 'agent_gone')
      parts.log.warn(
        {
          requestId: exchange.requestId,
          host: facts.host,
          code: error.code,
          cause: error.cause === undefined ? undefined : codeOf(error.cause),
        },
        error.message,
      )
    refusal = refusalOf(error)
  }
  if (refusal) give(agent, refusal, exchange, facts)
  await exchange.finish(facts, { ...outcome, refusal, address: addresses?.[0] })
}

/** Whether what is under way could begin under the changed policy, with the same credential and to the same addresses. I18 */
function stillPasses(
  changed: Enforced,
  { facts, route: before }: Request,
  passing: Passing,
  addresses: readonly string[] | undefined,
): boolean {
  const { policy } = changed
  const route = before && policy.routes.find(({ name }) => name === before.name)
  if (before && (route === undefined || !leadsToSame(before, route))) return false
  const now = decide(changed, { facts, route })
  // What the operator was asked about and approved goes on for as long as the rule asks.
  if (now.action === 'deny' || (now.action === 'ask' && passing.action === 'allow')) return false
  const [was, is] = [writtenBy(passing), writtenBy(now)]
  const isSameCredential = was?.id === is?.id && was?.secret === is?.secret && JSON.stringify(was?.place) === JSON.stringify(is?.place)
  if (!isSameCredential || now.target.scheme !== passing.target.scheme) return false
  if (policy.judgeName(facts.host, now.rule)) return false
  return addresses === undefined || policy.judgeAddresses(facts.host, now.rule, addresses, []) === undefined
}

function leadsToSame(a: Route, b: Route): boolean {
  return a.scheme === b.scheme && a.host === b.host && a.port === b.port && a.basePath === b.basePath
}

/** The credential that goes out with the request. */
function writtenBy({ bound, withheld }: Passing): CredentialBinding | undefined {
  return withheld === undefined ? bound : undefined
}

async function forwardedHead(
  { secrets }: Enforced,
  { method, path }: Facts,
  headers: string[],
  { bound, withheld }: Passing,
): Promise<ForwardedHead> {
  if (!bound) return { method, path, headers, sensitive: [] }
  const field = fieldOf(bound.place)
  if (withheld !== undefined) return { method, path, headers: withoutCredentials(headers, field), sensitive: [] }
  const value = valueFor(bound.place, await secrets.get(bound.secret))
  return { method, path, headers: withCredential(headers, field, value), sensitive: [field.toLowerCase()] }
}

async function refuse(exchange: Exchange, agent: Agent, where: Where, refusal: Refusal): Promise<void> {
  await exchange.deny(where, refusal)
  give(agent, refusal, exchange, where)
  await exchange.finish(where, { refusal, bytesUp: 0, bytesDown: 0 })
}

/** Gives the agent the reason, or, when an answer is under way already, makes it look as broken as it is. */
function give(agent: Agent, refusal: Refusal, { requestId }: Exchange, { host, port }: Where): void {
  if (agent.isAnswered) {
    agent.abort()
    return
  }
  try {
    answerRefusal(agent, refusal, { requestId, host, port })
  } catch {
    // Whatever made it impossible to answer must not end the process for everybody else.
    agent.abort()
  }
}
