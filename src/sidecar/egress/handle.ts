import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { fieldOf, valueFor, type Secrets } from '../../credential/credential.ts'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import { formatAuthority } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { CredentialBinding, Decision, Facts, Policy } from '../../policy/policy.ts'
import type { Addresses } from '../upstream/addresses.ts'
import { openExchange, type Exchange, type ExchangeParts, type Where } from './exchange.ts'
import { DEFAULT_PORT, isPresigned, readFacts, type Tunnel } from './facts.ts'
import { agentGone, forward, upstreamError, type Outcome } from './forward.ts'
import { forwardedRequestHeaders, withCredential, withoutCredentials } from './headers.ts'
import { answerRefusal, refusalOf } from './refuse.ts'
import type { Upstreams } from '../upstream/upstreams.ts'

export type HandleParts = ExchangeParts & {
  readonly policy: Policy
  readonly secrets: Secrets
  readonly addresses: Addresses
  readonly upstreams: Upstreams
}

/** Answers one request: from the agent's bytes to the upstream's answer, or to the reason why not. Never rejects. */
export type Handle = (request: IncomingMessage, response: ServerResponse, tunnel: Tunnel | undefined) => Promise<void>

/** The story of a request: facts → decision → audit → addresses → credential → forward → audit. */
export function createHandle(parts: HandleParts): Handle {
  let running = 0
  return async (request, response, tunnel) => {
    // RFC 9112 §9.6: what comes behind a last answer is not processed.
    if (hasLastAnswer(request)) return
    const exchange = openExchange(parts, tunnel ? 'connect' : 'http')
    running += 1
    try {
      if (running > LIMITS.requestsMax)
        return await refuse(exchange, response, tunnel ?? {}, { code: 'overloaded', message: 'too many requests at once' })
      const facts = readFacts({ method: request.method ?? '', url: request.url ?? '', rawHeaders: request.rawHeaders }, tunnel)
      if ('code' in facts) return await refuse(exchange, response, tunnel ?? {}, facts)
      const decision = decide(parts.policy, facts)
      if (decision.action === 'deny') return await refuse(exchange, response, facts, decision.refusal)
      // I3: on disk before anything leaves, and a DNS question for an agent-chosen name is something that leaves.
      await exchange.allow(facts, decision.rule.id, writtenBy(decision), decision.withheld)
      await pass(parts, exchange, request, response, facts, decision)
    } catch (error) {
      const refusal = refusalOf(error)
      parts.log.error(
        { requestId: exchange.requestId, code: refusal.code, err: refusal.code === 'internal' ? error : undefined },
        'egress refused',
      )
      give(response, refusal, exchange, {})
    } finally {
      running -= 1
    }
  }
}

/** Connections that have got an answer which ends them. */
const lastAnswered = new WeakSet<Socket>()

function hasLastAnswer(request: IncomingMessage): boolean {
  return lastAnswered.has(request.socket)
}

type Target = { readonly scheme: 'http' | 'https'; readonly port: number }
type Denied = Extract<Decision, { action: 'deny' }>
type Allowed = {
  readonly action: 'allow'
  readonly rule: Extract<Decision, { action: 'allow' }>['rule']
  /** How it leaves: by another scheme and port than it came where the rule upgrades it. */
  readonly target: Target
  /** The credential of this request. The place where it is written is never the agent's. */
  readonly bound: CredentialBinding | undefined
  /** Why the bound credential is not written, if so. */
  readonly withheld: string | undefined
}

/** The policy's decision, with which credential, and over what the request leaves. */
function decide(policy: Policy, facts: Facts): Allowed | Denied {
  const decision = policy.decide(facts)
  if (decision.action === 'deny') return decision
  const { rule } = decision
  const isUpgraded = facts.scheme === 'http' && rule.upgrade
  const target: Target = isUpgraded ? { scheme: 'https', port: facts.port === DEFAULT_PORT.http ? DEFAULT_PORT.https : facts.port } : facts
  const bound = policy.credentialFor({ ...facts, ...target })
  return { action: 'allow', rule, target, bound, withheld: bound && reasonToWithhold(facts, rule, target) }
}

/** Why a bound credential is not written, if so. I5: it leaves over verified TLS, or where the rule takes plain text. */
function reasonToWithhold(facts: Facts, rule: Allowed['rule'], target: Target): string | undefined {
  if (target.scheme === 'http' && !rule.plaintext) return 'plaintext: no credential added'
  if (isPresigned(facts.path)) return 'presigned: no credential added'
  return undefined
}

/** Sends on a request that the policy allows, and records what came of it. */
async function pass(
  parts: HandleParts,
  exchange: Exchange,
  request: IncomingMessage,
  response: ServerResponse,
  facts: Facts,
  allowed: Allowed,
): Promise<void> {
  let outcome: Outcome = { status: undefined, bytesUp: 0, bytesDown: 0 }
  let refusal: Refusal | undefined
  let address: string | undefined
  try {
    if (hasLastAnswer(request)) throw agentGone()
    const { rule, target } = allowed
    const judged = await parts.addresses.judge(facts.host, target.port, rule)
    if ('code' in judged) {
      refusal = judged
    } else {
      address = judged.addresses[0]
      const headers = await requestHeaders(parts.secrets, request, facts, allowed)
      const end = { scheme: target.scheme, host: facts.host, port: target.port, addresses: judged.addresses }
      const pool = parts.upstreams.pool({ ...end, credential: writtenBy(allowed)?.id ?? '' })
      outcome = await forward(pool, { method: facts.method, path: facts.path, headers }, request, response)
    }
  } catch (error) {
    outcome = { ...outcome, error }
  }
  if (outcome.error !== undefined) {
    const error = upstreamError(outcome.error, formatAuthority(facts.host, facts.port))
    if (error.code !== 'agent_gone')
      parts.log.warn({ requestId: exchange.requestId, host: facts.host, code: error.code, cause: codeOf(error.cause) }, error.message)
    refusal = refusalOf(error)
  }
  if (refusal) give(response, refusal, exchange, facts)
  await exchange.finish(facts, { ...outcome, refusal, address })
}

/** The credential that goes out with the request. */
function writtenBy({ bound, withheld }: Allowed): CredentialBinding | undefined {
  return withheld === undefined ? bound : undefined
}

async function requestHeaders(
  secrets: Secrets,
  request: IncomingMessage,
  facts: Facts,
  { target, bound, withheld }: Allowed,
): Promise<string[]> {
  const headers = forwardedRequestHeaders(request.rawHeaders, formatAuthority(facts.host, target.port, DEFAULT_PORT[target.scheme]))
  if (!bound) return headers
  const field = fieldOf(bound.place)
  if (withheld !== undefined) return withoutCredentials(headers, field)
  return withCredential(headers, field, valueFor(bound.place, await secrets.get(bound.secret)))
}

async function refuse(exchange: Exchange, response: ServerResponse, where: Where, refusal: Refusal): Promise<void> {
  await exchange.deny(where, refusal)
  give(response, refusal, exchange, where)
  await exchange.finish(where, { refusal, bytesUp: 0, bytesDown: 0 })
}

/** Gives the agent the reason, or, when an answer is under way already, makes it look as broken as it is. */
function give(response: ServerResponse, refusal: Refusal, { requestId }: Exchange, { host, port }: Where): void {
  if (response.writableEnded) return
  if (response.headersSent) {
    response.destroy()
    return
  }
  try {
    lastAnswered.add(response.req.socket)
    answerRefusal(response, refusal, { requestId, host, port })
  } catch {
    // Whatever made it impossible to answer must not end the process for everybody else.
    response.destroy()
  }
}
