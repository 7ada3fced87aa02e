import { randomUUID } from 'node:crypto'
import type { Audit, AuditEvent, Lane } from '../../audit/audit.ts'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { AllowedRule, Facts } from '../../policy/policy.ts'
import { idsOf, writtenNames, type CredentialPlan } from './credentials.ts'
import { statusOf } from './refuse.ts'

/** What is known of a request by the time it is recorded; `path` may have its query. */
export type Where = Partial<Facts>

/** What came of it. `refusal` is there when the agent got less than the upstream's whole answer. */
export type Result = {
  readonly status?: number | undefined
  readonly refusal?: Refusal | undefined
  readonly address?: string | undefined
  readonly bytesUp: number
  readonly bytesDown: number
  readonly scrubbed?: number | undefined
}

/** One request or tunnel and its two audit events. */
export type Exchange = {
  readonly requestId: string
  readonly lane: Lane
  /** The side network that it came by. */
  readonly network: string | undefined
  /** I3: nothing is forwarded before it has resolved, which it does when its line is on disk. @throws audit_unavailable */
  allow(where: Where, rule: AllowedRule, how: CredentialPlan | 'passthrough' | 'tcp'): Promise<void>
  /** The same for the answer. @throws audit_unavailable */
  deny(where: Where, refusal: Refusal): Promise<void>
  /** Never rejects: what happened is owed to the audit, which keeps it until it can be written. */
  finish(where: Where, result: Result): Promise<void>
}

export type Exchanges = {
  /** Runs the story of one exchange. `network` is the side network that it came by. */
  run(lane: Lane, story: (exchange: Exchange) => Promise<void>, network?: string): Promise<void>
  /** Stories that have not ended. */
  readonly running: number
  /** Resolves when every story has ended, after `LIMITS.settleMs` at the latest: until then the audit must stay open. */
  settled(): Promise<void>
}

type ExchangeParts = { readonly audit: Audit; readonly log: Log; readonly system: Pick<System, 'elapsed'> }

export function createExchanges(parts: ExchangeParts): Exchanges {
  const running = new Set<Promise<void>>()
  return {
    get running() {
      return running.size
    },
    async run(lane, story, network) {
      const told = story(new RecordedExchange(parts, lane, network))
      running.add(told)
      try {
        await told
      } finally {
        running.delete(told)
      }
    },
    async settled() {
      let timer: NodeJS.Timeout | undefined
      const timeout = new Promise<'late'>((resolve) => (timer = setTimeout(() => resolve('late'), LIMITS.settleMs)))
      let isLate = false
      // The end of one may be the beginning of another: what was cut short in its head is told to the agent, too.
      while (running.size > 0 && !isLate) isLate = (await Promise.race([Promise.allSettled(running), timeout])) === 'late'
      clearTimeout(timer)
    },
  }
}

/** Those that come by a side network, which their events name. */
export function inNetwork(exchanges: Exchanges, network: string): Exchanges {
  return {
    get running() {
      return exchanges.running
    },
    run: (lane, story) => exchanges.run(lane, story, network),
    settled: () => exchanges.settled(),
  }
}

type Allowed = { readonly rule: string; readonly plane: string; readonly credential: string | undefined }

class RecordedExchange implements Exchange {
  readonly requestId = randomUUID()
  readonly lane: Lane
  readonly network: string | undefined
  readonly #parts: ExchangeParts
  readonly #started: number
  #allowed: Allowed | undefined

  constructor(parts: ExchangeParts, lane: Lane, network: string | undefined) {
    this.#parts = parts
    this.lane = lane
    this.network = network
    this.#started = parts.system.elapsed()
  }

  allow(
    { scheme, method, host, port, path }: Where,
    { id, plane }: AllowedRule,
    how: CredentialPlan | 'passthrough' | 'tcp',
  ): Promise<void> {
    const named: Named = typeof how === 'string' ? { note: how } : describePlan(how)
    this.#allowed = { rule: id, plane, credential: named.credential }
    return this.#parts.audit.append({
      event: 'decided',
      request: this.requestId,
      lane: this.lane,
      network: this.network,
      plane,
      scheme,
      method,
      host,
      port,
      path: withoutQuery(path),
      decision: 'allow',
      rule: id,
      credential: named.credential,
      secret: named.secret,
      own_credentials: named.own_credentials,
      note: named.note,
    })
  }

  // No later than `allow`: what was pipelined behind a refused request must find its connection refused. I10
  deny({ scheme, method, host, port, path }: Where, { code, rule }: Refusal): Promise<void> {
    return this.#parts.audit.append({
      event: 'decided',
      request: this.requestId,
      lane: this.lane,
      network: this.network,
      plane: 'agent',
      scheme,
      method,
      host,
      port,
      path: withoutQuery(path),
      decision: 'deny',
      code,
      rule,
    })
  }

  async finish(where: Where, { status, refusal, address, bytesUp, bytesDown, scrubbed }: Result): Promise<void> {
    const { audit, log, system } = this.#parts
    const shownStatus = status ?? (refusal && statusOf(refusal.code))
    const durationMs = Math.round(system.elapsed() - this.#started)
    this.#log(where, shownStatus, refusal, durationMs)
    try {
      await audit.append({
        event: 'finished',
        request: this.requestId,
        status: shownStatus,
        code: refusal?.code,
        address,
        bytes_up: bytesUp,
        bytes_down: bytesDown,
        scrubbed,
        duration_ms: durationMs,
      })
    } catch (error) {
      // An agent that has its answer must not lose the end of it to a full disk.
      log.error({ requestId: this.requestId, code: codeOf(error) }, 'the end of a request waits for the audit')
    }
  }

  #log({ scheme, method, host, port, path }: Where, status: number | undefined, refusal: Refusal | undefined, durationMs: number): void {
    const allowed = this.#allowed
    const line = {
      requestId: this.requestId,
      lane: this.lane,
      network: this.network,
      plane: allowed?.plane ?? 'agent',
      scheme,
      method,
      host,
      port,
      path: withoutQuery(path),
      rule: allowed?.rule,
      credential: allowed?.credential,
      status,
      code: refusal?.code,
      reason: refusal?.message,
      durationMs,
    }
    const isDenied = allowed === undefined || status === 403
    this.#parts.log.info(line, refusal === undefined ? 'egress allowed' : isDenied ? 'egress denied' : 'egress failed')
  }
}

type Named = Pick<Extract<AuditEvent, { event: 'decided' }>, 'credential' | 'secret' | 'own_credentials' | 'note'>

/** Names of what goes with a request, several joined by ",", and what became of the agent's own. */
function describePlan({ used, own, withheld }: CredentialPlan): Named {
  return {
    credential: idsOf(used),
    secret: namesOf(used),
    own_credentials: own,
    note: withheld,
  }
}

function namesOf(used: CredentialPlan['used']): string | undefined {
  const [only] = used
  if (only === undefined) return undefined
  const names = writtenNames(only)
  if (used.length === 1 && names.length === 1) return names[0]
  return [...new Set(used.flatMap(writtenNames))].join(',')
}

/** Queries often carry keys. */
function withoutQuery(path: string | undefined): string | undefined {
  const at = path?.indexOf('?') ?? -1
  return at === -1 ? path : path?.slice(0, at)
}
