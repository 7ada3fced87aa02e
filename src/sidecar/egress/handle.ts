import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Audit } from '../../audit/audit.ts'
import { writeCredential, type Secrets } from '../../credential/credential.ts'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import { formatAuthority } from '../../kernel/hostname.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { CredentialBinding, Decision, Facts, Policy } from '../../policy/policy.ts'
import type { Addresses } from './addresses.ts'
import { DEFAULT_PORT, isPresigned, readFacts, type Tunnel } from './facts.ts'
import { forward, upstreamError, type Outcome } from './forward.ts'
import { forwardedRequestHeaders, withCredential } from './headers.ts'
import { answerRefusal, refusalOf, statusOf } from './refuse.ts'
import type { Upstreams } from './upstreams.ts'

export type HandleParts = {
  readonly policy: Policy
  readonly audit: Audit
  readonly secrets: Secrets
  readonly addresses: Addresses
  readonly upstreams: Upstreams
  readonly log: Log
  readonly system: System
}

/** Answers one request: from the agent's bytes to the upstream's answer, or to the reason why not. Never rejects. */
export type Handle = (request: IncomingMessage, response: ServerResponse, tunnel: Tunnel | undefined) => Promise<void>

/** One request on its way: what the audit and the answers need to know of it. */
type Exchange = { readonly requestId: string; readonly started: number; readonly lane: 'http' | 'connect' }

/** The story of a request: facts → decision → audit → addresses → credential → forward → audit. */
export function createHandle(parts: HandleParts): Handle {
  const { policy, audit, log, system } = parts

  return async (request, response, tunnel) => {
    const exchange: Exchange = { requestId: randomUUID(), started: system.elapsed(), lane: tunnel ? 'connect' : 'http' }
    try {
      const facts = readFacts({ method: request.method ?? '', url: request.url ?? '', rawHeaders: request.rawHeaders }, tunnel)
      if ('code' in facts) return await refuse(exchange, response, facts, tunnel ?? {})
      const decision = decide(policy, facts)
      if (decision.action === 'deny') return await refuse(exchange, response, decision.refusal, facts)
      await pass(exchange, request, response, facts, decision)
    } catch (error) {
      fail(exchange, response, error)
    }
  }

  /** A request that the policy allows. */
  async function pass(
    exchange: Exchange,
    request: IncomingMessage,
    response: ServerResponse,
    facts: Facts,
    { rule, target, credential, note }: Allowed,
  ): Promise<void> {
    // I3: on disk before anything leaves, and a DNS question for an agent-chosen name is something that leaves.
    await audit.append({
      event: 'decided',
      request: exchange.requestId,
      lane: exchange.lane,
      ...described(facts),
      decision: 'allow',
      rule: rule.id,
      ...(credential && { credential: credential.id, secret: credential.secret }),
      ...(note !== undefined && { note }),
    })
    let outcome: Outcome = { status: undefined, bytesUp: 0, bytesDown: 0 }
    let refusal: Refusal | undefined
    let address: string | undefined
    try {
      const judged = await parts.addresses.judge(facts.host, target.port, rule)
      if ('code' in judged) {
        refusal = judged
      } else {
        address = judged.addresses[0]
        const end = { ...judged, host: facts.host, port: target.port, scheme: target.scheme, credential: credential?.id ?? '' }
        const headers = await requestHeaders(request, facts, target, credential)
        outcome = await forward(parts.upstreams.pool(end), { method: facts.method, path: facts.path, headers }, request, response)
      }
    } catch (error) {
      outcome = { ...outcome, error }
    }
    if (outcome.error !== undefined) refusal = reasonOf(exchange, outcome, facts)
    if (refusal && !response.headersSent) answerRefusal(response, refusal, { requestId: exchange.requestId, ...facts })
    // An answer that broke off must look broken, not complete.
    else if (outcome.error !== undefined) response.destroy()
    await finish(exchange, outcome, refusal, address)
    log.info(
      {
        requestId: exchange.requestId,
        method: facts.method,
        host: facts.host,
        port: facts.port,
        rule: rule.id,
        credential: credential?.id,
        status: outcome.status,
        code: refusal?.code,
      },
      refusal ? 'egress failed' : 'egress allowed',
    )
  }

  async function requestHeaders(
    request: IncomingMessage,
    facts: Facts,
    target: Target,
    credential: CredentialBinding | undefined,
  ): Promise<string[]> {
    const headers = forwardedRequestHeaders(request.rawHeaders, formatAuthority(facts.host, target.port, DEFAULT_PORT[target.scheme]))
    if (!credential) return headers
    const { field, value } = writeCredential(credential.place, await parts.secrets.get(credential.secret))
    return withCredential(headers, field, value)
  }

  async function refuse(exchange: Exchange, response: ServerResponse, refusal: Refusal, facts: Partial<Facts>): Promise<void> {
    await audit.append({
      event: 'decided',
      request: exchange.requestId,
      lane: exchange.lane,
      ...described(facts),
      decision: 'deny',
      code: refusal.code,
      ...(refusal.rule !== undefined && { rule: refusal.rule }),
    })
    log.info(
      {
        requestId: exchange.requestId,
        host: facts.host,
        port: facts.port,
        rule: refusal.rule,
        code: refusal.code,
        reason: refusal.message,
      },
      'egress denied',
    )
    answerRefusal(response, refusal, {
      requestId: exchange.requestId,
      ...(facts.host !== undefined && { host: facts.host }),
      ...(facts.port !== undefined && { port: facts.port }),
    })
    await finish(exchange, { status: statusOf(refusal.code), bytesUp: 0, bytesDown: 0 }, refusal)
  }

  function reasonOf(exchange: Exchange, outcome: Outcome, facts: Facts): Refusal {
    const error = upstreamError(outcome.error, formatAuthority(facts.host, facts.port))
    log.warn({ requestId: exchange.requestId, host: facts.host, code: error.code, cause: codeOf(error.cause) }, error.message)
    return refusalOf(error)
  }

  async function finish(exchange: Exchange, outcome: Outcome, refusal: Refusal | undefined, address?: string): Promise<void> {
    await audit.append({
      event: 'finished',
      request: exchange.requestId,
      ...(outcome.status !== undefined && { status: outcome.status }),
      ...(refusal && { status: outcome.status ?? statusOf(refusal.code), code: refusal.code }),
      ...(address !== undefined && { address }),
      bytes_up: outcome.bytesUp,
      bytes_down: outcome.bytesDown,
      duration_ms: Math.round(system.elapsed() - exchange.started),
    })
  }

  function fail(exchange: Exchange, response: ServerResponse, error: unknown): void {
    const refusal = refusalOf(error)
    log.error({ requestId: exchange.requestId, code: refusal.code, err: refusal.code === 'internal' ? error : undefined }, 'egress refused')
    if (response.headersSent) response.destroy()
    else answerRefusal(response, refusal, { requestId: exchange.requestId })
  }
}

type Target = { readonly scheme: 'http' | 'https'; readonly port: number }
type Allowed = {
  readonly action: 'allow'
  readonly rule: Extract<Decision, { action: 'allow' }>['rule']
  /** How it leaves: another scheme and port than it came by where the rule upgrades it. */
  readonly target: Target
  readonly credential: CredentialBinding | undefined
  readonly note: string | undefined
}

/** The policy's decision, and with which credential and over what the request leaves. */
function decide(policy: Policy, facts: Facts): Allowed | Extract<Decision, { action: 'deny' }> {
  const decision = policy.decide(facts)
  if (decision.action === 'deny') return decision
  const { rule } = decision
  const bound = policy.credentialFor(facts)
  const note = bound && isPresigned(facts.path) ? 'presigned: no credential added' : undefined
  if (facts.scheme === 'http' && rule.upgrade) {
    const target = { scheme: 'https', port: facts.port === DEFAULT_PORT.http ? DEFAULT_PORT.https : facts.port } as const
    // What leaves is what must be allowed: a rule that denies the host on 443 holds for upgraded requests too.
    const upgraded = policy.decide({ ...facts, ...target })
    if (upgraded.action === 'deny') return upgraded
    return { action: 'allow', rule, target, credential: note === undefined ? bound : undefined, note }
  }
  // I5: a credential leaves over verified TLS, or where the rule takes plain text for this host.
  const isProtected = facts.scheme === 'https' || rule.plaintext
  return {
    action: 'allow',
    rule,
    target: facts,
    credential: note === undefined && isProtected ? bound : undefined,
    note: note ?? (bound && !isProtected ? 'plaintext: no credential added' : undefined),
  }
}

function described(facts: Partial<Facts>): { scheme?: string; host?: string; port?: number; method?: string; path?: string } {
  return {
    ...(facts.scheme !== undefined && { scheme: facts.scheme }),
    ...(facts.host !== undefined && { host: facts.host }),
    ...(facts.port !== undefined && { port: facts.port }),
    ...(facts.method !== undefined && { method: facts.method }),
    // Without its query, which often carries keys.
    ...(facts.path !== undefined && { path: facts.path.split('?', 1)[0] ?? '' }),
  }
}
