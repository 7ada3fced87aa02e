import { randomUUID } from 'node:crypto'
import type { Audit, AuditEvent, Lane } from '../../audit/audit.ts'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { AllowedRule, Facts } from '../../policy/policy.ts'
import { usedBy, writtenNames, type CredentialPlan } from './credentials.ts'
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
  /** I3: nothing is forwarded before it has resolved, which it does when its line is on disk. @throws audit_unavailable */
  allow(where: Where, rule: AllowedRule, how: CredentialPlan | 'passthrough' | 'tcp'): Promise<void>
  /** The same for the answer. @throws audit_unavailable */
  deny(where: Where, refusal: Refusal): Promise<void>
  /** Never rejects: what happened is owed to the audit, which keeps it until it can be written. */
  finish(where: Where, result: Result): Promise<void>
}

export type Exchanges = {
  /** Runs the story of one exchange. */
  run(lane: Lane, story: (exchange: Exchange) => Promise<void>): Promise<void>
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
    async run(lane, story) {
      const told = story(openExchange(parts, lane))
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

function openExchange({ audit, log, system }: ExchangeParts, lane: Lane): Exchange {
  const requestId = randomUUID()
  const started = system.elapsed()
  let allowed: { readonly rule: string; readonly plane: string; readonly credential?: string } | undefined
  return {
    requestId,
    lane,
    allow(where, { id, plane }, how) {
      const { credential, ...named } = typeof how === 'string' ? { note: how } : describePlan(how)
      allowed = { rule: id, plane, ...(credential !== undefined && { credential }) }
      return audit.append({
        event: 'decided',
        request: requestId,
        lane,
        plane,
        ...described(where),
        decision: 'allow',
        rule: id,
        ...(credential !== undefined && { credential }),
        ...named,
      })
    },
    // No later than `allow`: what was pipelined behind a refused request must find its connection refused. I10
    deny(where, refusal) {
      const { code, rule } = refusal
      return audit.append({
        event: 'decided',
        request: requestId,
        lane,
        plane: 'agent',
        ...described(where),
        decision: 'deny',
        code,
        ...(rule !== undefined && { rule }),
      })
    },
    async finish(where, { status, refusal, address, bytesUp, bytesDown, scrubbed }) {
      const shownStatus = status ?? (refusal && statusOf(refusal.code))
      const durationMs = Math.round(system.elapsed() - started)
      const line = {
        requestId,
        lane,
        plane: 'agent',
        ...described(where),
        ...allowed,
        status: shownStatus,
        code: refusal?.code,
        reason: refusal?.message,
        durationMs,
      }
      log.info(
        line,
        refusal === undefined ? 'egress allowed' : allowed === undefined || shownStatus === 403 ? 'egress denied' : 'egress failed',
      )
      const finished = audit.append({
        event: 'finished',
        request: requestId,
        ...(shownStatus !== undefined && { status: shownStatus }),
        ...(refusal && { code: refusal.code }),
        ...(address !== undefined && { address }),
        bytes_up: bytesUp,
        bytes_down: bytesDown,
        ...(scrubbed !== undefined && { scrubbed }),
        duration_ms: durationMs,
      })
      // An agent that has its answer must not lose the end of it to a full disk.
      await finished.catch((error: unknown) => log.error({ requestId, code: codeOf(error) }, 'the end of a request waits for the audit'))
    },
  }
}

/** Names of what goes with a request, several joined by ",", and what became of the agent's own. */
function describePlan(
  plan: CredentialPlan,
): Pick<Extract<AuditEvent, { event: 'decided' }>, 'credential' | 'secret' | 'own_credentials' | 'note'> {
  const used = usedBy(plan)
  return {
    ...(used.length > 0 && {
      credential: used.map(({ id }) => id).join(','),
      secret: [...new Set(used.flatMap(writtenNames))].join(','),
    }),
    ...(plan.own !== undefined && { own_credentials: plan.own }),
    ...(plan.withheld !== undefined && { note: plan.withheld }),
  }
}

function described({ scheme, method, host, port, path }: Where): Where {
  return {
    ...(scheme !== undefined && { scheme }),
    ...(method !== undefined && { method }),
    ...(host !== undefined && { host }),
    ...(port !== undefined && { port }),
    // Without its query, which often carries keys.
    ...(path !== undefined && { path: path.split('?', 1)[0] ?? '' }),
  }
}
