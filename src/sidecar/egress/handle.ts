import type { Lane } from '../../audit/audit.ts'
import type { Budgets, Meter, TokenExchanges } from '../../credential/credential.ts'
import { codeOf, SallyportError, type Refusal } from '../../kernel/errors.ts'
import { formatAuthority } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { AllowedRule, Decision, Facts, Route } from '../../policy/policy.ts'
import type { Addresses } from '../upstream/addresses.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import type { Agent } from './agent.ts'
import type { Asking } from './asking.ts'
import { Course, type Look } from './course.ts'
import { idsOf, misplacedIn, planCredentials, withSwapped, type CredentialPlan } from './credentials.ts'
import type { Enforced, Enforcement } from './enforced.ts'
import type { Exchange, Exchanges, Where } from './exchange.ts'
import { DEFAULT_PORT, readFacts, type RequestHead, type Tunnel } from './facts.ts'
import { agentGone, forward, upstreamError, type Outcome, type Outgoing } from './forward.ts'
import { forwardedRequestHeaders } from './headers.ts'
import type { Held } from './held-body.ts'
import type { Lease } from './lease.ts'
import type { Live, LiveEntry } from './live.ts'
import type { Load } from './load.ts'
import { answerRefusal, refusalOf } from './refuse.ts'
import { readRoute } from './route.ts'
import { createScrubbedAgent, scrubbableRequest, type ScrubPlan } from './scrub/scrubbed-agent.ts'
import type { Scrubbing } from './scrubbing.ts'
import { composeOutgoing, holdForCredential, mayNeedBody, type HeldBody } from './sending.ts'

export type HandleParts = {
  readonly enforcement: Enforcement
  readonly exchanges: Exchanges
  readonly asking: Asking
  readonly lease: Lease
  readonly live: Live
  readonly addresses: Addresses
  readonly upstreams: Upstreams
  readonly budgets: Budgets
  readonly tokens: TokenExchanges
  /** Bodies that wait whole for their credentials, of all requests together. */
  readonly held: Held
  readonly scrubbing: Scrubbing
  readonly load: Load
  readonly log: Log
}

/**
 * Where a request came in: on a connection that leads somewhere, at the proxy, or at the gateway's routes. `mcp`: the gateway makes it
 * itself, for an agent whose lease it has seen.
 */
export type CameBy = Tunnel | 'proxy' | 'gateway' | 'mcp'

/** Answers one request: from the agent's bytes to the upstream's answer, or to the reason why not. Never rejects. */
export type Handle = (agent: Agent, by: CameBy) => Promise<void>

/** The story of a request: facts → decision → ask → budget → audit → addresses → credential → forward → scrub → audit. */
export function createHandle(parts: HandleParts): Handle {
  const { load } = parts
  return (agent, by) =>
    parts.exchanges.run(laneOf(by), async (exchange) => {
      load.requests += 1
      try {
        if (load.requests > LIMITS.requestsMax) {
          return await refuse(exchange, agent, knownOf(by), { code: 'overloaded', message: 'too many requests at once' })
        }
        const enforced = parts.enforcement()
        const request = readRequest(parts, enforced, agent.head, by)
        if ('code' in request) return await refuse(exchange, agent, knownOf(by), request)
        const { facts } = request
        const decision = decide(enforced, request)
        if (decision.action === 'deny') return await refuse(exchange, agent, facts, decision.refusal)
        if (decision.action === 'ask') {
          const { requestId, lane, network } = exchange
          const refusal = await parts.asking.consult({ requestId, lane, network, rule: decision.rule.id, facts }, agent)
          if (refusal) return await refuse(exchange, agent, facts, refusal)
        }
        const held = mayNeedBody(decision.plan)
          ? await holdForCredential(parts.held, enforced, decision, agent).catch(refusalOf)
          : undefined
        if (held && 'code' in held) return await refuse(exchange, agent, facts, held)
        using body = held
        const plan = body ? withSwapped(decision.plan, body.swapped) : decision.plan
        const meter = parts.budgets.open(plan.used)
        if (meter && 'code' in meter) return await refuse(exchange, agent, facts, meter)
        // I3: on disk before anything leaves, and a DNS question for an agent-chosen name is something that leaves.
        await exchange.allow(facts, decision.rule, plan)
        await new Passage(parts, { enforced, exchange, agent, request, passing: decision, plan, body, meter }).pass()
      } catch (error) {
        const refusal = refusalOf(error)
        parts.log.error(
          { requestId: exchange.requestId, code: refusal.code, err: refusal.code === 'internal' ? error : undefined },
          'egress refused',
        )
        give(agent, refusal, exchange, {})
      } finally {
        load.requests -= 1
      }
    })
}

function laneOf(by: CameBy): Lane {
  return by === 'proxy' ? 'http' : by === 'gateway' || by === 'mcp' ? 'route' : by.lane
}

/** What is known of a request that cannot be read. */
function knownOf(by: CameBy): Where {
  if (typeof by === 'string') return {}
  const { scheme, host, port } = by
  return { scheme, port, ...(host !== undefined && { host }) }
}

type Request = {
  readonly facts: Facts
  /** Fields as they came, but for the lease. */
  readonly rawHeaders: readonly string[]
  readonly route: Route | undefined
  readonly by: CameBy
}

function readRequest(parts: HandleParts, { policy }: Enforced, head: RequestHead, by: CameBy): Request | Refusal {
  const unproven = parts.lease.refusalOf(policy, by, head)
  if (unproven) return unproven
  if (by === 'gateway' || by === 'mcp') {
    // I71: agents get to an MCP server by way of the relay, which knows its tools.
    const found = readRoute(
      head,
      policy.routes.filter(({ ofServer }) => (ofServer !== undefined) === (by === 'mcp')),
    )
    return 'code' in found ? found : { ...found, rawHeaders: parts.lease.without(head.rawHeaders), by }
  }
  const facts = readFacts(head, by === 'proxy' ? undefined : by)
  return 'code' in facts ? facts : { facts, rawHeaders: head.rawHeaders, route: undefined, by }
}

type Target = { readonly scheme: 'http' | 'https'; readonly port: number }
type Denied = Extract<Decision, { action: 'deny' }>
type Passing = {
  readonly action: 'allow' | 'ask'
  readonly rule: AllowedRule
  /** How it leaves: by another scheme and port than it came where the rule upgrades it. */
  readonly target: Target
  /** Its fields as they go on, but for credentials. */
  readonly headers: readonly string[]
  readonly plan: CredentialPlan
  /** What is done with secrets in its answer: nothing where none is bound to the host. */
  readonly scrub: AllowedRule['scrub']
}

/** The policy's decision, with which credentials, and over what the request leaves. */
function decide({ policy, placeholders }: Enforced, { facts, rawHeaders, route }: Request): Passing | Denied {
  const decision = route ? policy.decideRoute(route, facts) : policy.decide(facts)
  if (decision.action === 'deny') return decision
  const { action, rule } = decision
  const isUpgraded = facts.scheme === 'http' && rule.upgrade
  const target: Target = isUpgraded ? { scheme: 'https', port: facts.port === DEFAULT_PORT.http ? DEFAULT_PORT.https : facts.port } : facts
  const headers = forwardedRequestHeaders(rawHeaders, formatAuthority(facts.host, target.port, DEFAULT_PORT[target.scheme]))
  const only = route && (route.credential ?? null)
  const leaving = isUpgraded ? { ...facts, ...target } : facts
  const plan = planCredentials(policy, placeholders, { facts: leaving, headers, rule, only })
  if ('code' in plan) return { action: 'deny', refusal: { rule: rule.id, ...plan } }
  const scrub = policy.credentialsOf(facts.host).length > 0 ? rule.scrub : 'off'
  return { action, rule, target, headers, plan, scrub }
}

type Story = {
  readonly enforced: Enforced
  readonly exchange: Exchange
  readonly agent: Agent
  readonly request: Request
  readonly passing: Passing
  /** That of the decision, with what was found in the body. */
  readonly plan: CredentialPlan
  readonly body: HeldBody | undefined
  readonly meter: Meter | undefined
}

/** A request that the policy allows, on its way. */
class Passage implements LiveEntry {
  readonly #parts: HandleParts
  readonly #story: Story
  readonly #course: Course
  #addresses: readonly string[] | undefined

  constructor(parts: HandleParts, story: Story) {
    this.#parts = parts
    this.#story = story
    this.#course = new Course(lookOf(story))
  }

  isAllowed(changed: Enforced): boolean {
    const { request, agent, passing, plan } = this.#story
    // What was written into it and what its answer is searched for must leave the memory too.
    if (changed.ended && (plan.used.length > 0 || plan.inBody.length > 0 || passing.scrub !== 'off')) return false
    const unproven = this.#parts.lease.refusalOf(changed.policy, request.by, agent.head)
    return unproven === undefined && stillPasses(changed, request, passing, this.#addresses)
  }

  cut({ ended }: Enforced): void {
    this.#course.cut(
      ended ? new SallyportError(ended.code, ended.message) : new SallyportError('policy_changed', 'the policy no longer allows it'),
    )
  }

  /** Sends it on, and records what came of it. */
  async pass(): Promise<void> {
    const { exchange, agent, enforced, request, passing } = this.#story
    const { facts } = request
    let outcome: Outcome = { status: undefined, bytesUp: 0, bytesDown: 0 }
    let refusal: Refusal | undefined
    const place = this.#parts.live.add(this, enforced)
    try {
      this.#course.throwIfCut()
      if (agent.isGone) throw agentGone()
      const judging = this.#parts.addresses.judge(enforced.policy, facts.host, passing.target.port, passing.rule)
      const judged = judging instanceof Promise ? await judging : judging
      if ('code' in judged) {
        refusal = judged
      } else {
        this.#addresses = judged.addresses
        place.check()
        outcome = await this.#send(judged.addresses)
      }
    } catch (error) {
      outcome = { ...outcome, error }
    } finally {
      place.leave()
    }
    if (outcome.error !== undefined) refusal = this.#refusalOf(outcome.error)
    if (refusal) give(agent, refusal, exchange, facts)
    const { status, bytesUp, bytesDown, scrubbed } = outcome
    await exchange.finish(facts, { status, bytesUp, bytesDown, scrubbed, refusal, address: this.#addresses?.[0] })
  }

  #refusalOf(cause: unknown): Refusal {
    const { exchange, request } = this.#story
    const { host, port } = request.facts
    const error = upstreamError(cause, formatAuthority(host, port))
    if (error.code !== 'agent_gone')
      this.#parts.log.warn(
        { requestId: exchange.requestId, host, code: error.code, cause: error.cause === undefined ? undefined : codeOf(error.cause) },
        error.message,
      )
    return refusalOf(error)
  }

  /** Writes the credentials in, and hands the answer to the agent without them. */
  #send(addresses: readonly string[] | undefined): Promise<Outcome> {
    const { enforced, agent, request, passing, plan, body } = this.#story
    const { method, path } = request.facts
    const headers = passing.scrub === 'off' ? passing.headers : scrubbableRequest(passing.headers)
    const head = { method, path, headers, hadBody: agent.body !== undefined }
    const composed = composeOutgoing(this.#parts.tokens, enforced, head, plan, body)
    if (composed instanceof Promise) return composed.then((outgoing) => this.#dispatch(outgoing, addresses))
    return this.#dispatch(composed, addresses)
  }

  #dispatch(outgoing: Outgoing, addresses: readonly string[] | undefined): Promise<Outcome> {
    const { enforced, agent, request, passing, plan } = this.#story
    const { host } = request.facts
    const { scheme, port } = passing.target
    this.#course.throwIfCut()
    const credential = idsOf(plan.used) ?? ''
    const pool = this.#parts.upstreams.pool({ scheme, host, port, addresses, credential, generation: enforced.generation })
    const scrub = this.#parts.scrubbing.planFor(enforced, host, passing.rule)
    return scrub ? this.#sendScrubbed(pool, outgoing, scrub) : forward(pool, outgoing, agent, this.#course)
  }

  async #sendScrubbed(pool: Upstream, outgoing: Outgoing, scrub: ScrubPlan): Promise<Outcome> {
    const { agent, request } = this.#story
    const course = this.#course
    const scrubbed = createScrubbedAgent(agent, scrub, request.facts.method, (error) => course.cut(error))
    const outcome = await forward(pool, outgoing, scrubbed.agent, course)
    const unsettled = scrubbed.settled(course)
    if (unsettled) await unsettled
    const { hits } = scrubbed
    const error: unknown = outcome.error ?? (course.isCut ? course.reason : undefined)
    if (hits === 0 && error === outcome.error) return outcome
    return { ...outcome, ...(hits > 0 && { scrubbed: hits }), ...(error !== undefined && { error }) }
  }
}

/** Counts bodies against the budget, and finds placeholders in them: in a body they are worthless, but somebody wants them there. I23, I25 */
function lookOf({ enforced, passing, agent, meter }: Story): Look | undefined {
  const { plane, ownCredentials } = passing.rule
  // What a model is told may well have one in it. And frames of a WebSocket are masked on their way up.
  const isLooked = plane === 'agent' && ownCredentials !== 'pass' && agent.body !== undefined && !agent.upgrade
  const guard = isLooked ? enforced.guard?.open() : undefined
  if (!meter && !guard) return undefined
  return (way, chunk) => {
    meter?.[way](chunk.length)
    if (way !== 'up' || !guard) return
    guard.push(chunk)
    if (guard.hits > 0) throw misplacedIn('the body')
  }
}

/** Whether what is under way could begin under the changed policy, with the same credential and to the same addresses. I18 */
function stillPasses(changed: Enforced, request: Request, passing: Passing, addresses: readonly string[] | undefined): boolean {
  const { policy } = changed
  const { facts, route: before } = request
  const route = before && policy.routes.find(({ name }) => name === before.name)
  if (before && (route === undefined || !leadsToSame(before, route))) return false
  const now = decide(changed, { ...request, route })
  // What the operator was asked about and approved goes on for as long as the rule asks.
  if (now.action === 'deny' || (now.action === 'ask' && passing.action === 'allow')) return false
  if (!isSamePlan(passing.plan, now.plan) || now.target.scheme !== passing.target.scheme) return false
  // An answer that nobody has looked into so far stays one: its request asked for parts, and for what cannot be looked into.
  if (SCRUBS.indexOf(now.scrub) > SCRUBS.indexOf(passing.scrub)) return false
  if (policy.judgeName(facts.host, now.rule)) return false
  return addresses === undefined || policy.judgeAddresses(facts.host, now.rule, addresses, []) === undefined
}

/** From the mildest to the strictest. */
const SCRUBS: readonly AllowedRule['scrub'][] = ['off', 'replace', 'block']

function leadsToSame(a: Route, b: Route): boolean {
  return a.scheme === b.scheme && a.host === b.host && a.port === b.port && a.basePath === b.basePath
}

/** Whether the same secrets go into the same places. */
function isSamePlan(was: CredentialPlan, is: CredentialPlan): boolean {
  return secretsAndPlaces(was) === secretsAndPlaces(is) && was.own === is.own
}

function secretsAndPlaces(plan: CredentialPlan): string {
  return JSON.stringify([...plan.used, ...plan.inBody].map(({ id, secret, place, also, exchange }) => [id, secret, place, also, exchange]))
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
