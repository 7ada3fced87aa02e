import { randomUUID } from 'node:crypto'
import type { Audit, Lane } from '../../audit/audit.ts'
import type { Refusal } from '../../kernel/errors.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { CredentialBinding, Facts } from '../../policy/policy.ts'
import { statusOf } from './refuse.ts'

export type ExchangeParts = { readonly audit: Audit; readonly log: Log; readonly system: Pick<System, 'elapsed'> }

/** What is known of a request by the time it is recorded; `path` may have its query. */
export type Where = Partial<Facts>

/** What came of it. `refusal` is there when the agent got less than the upstream's whole answer. */
export type Result = {
  readonly status?: number | undefined
  readonly refusal?: Refusal | undefined
  readonly address?: string | undefined
  readonly bytesUp: number
  readonly bytesDown: number
}

/**
 * One request or tunnel and its two audit events. Each resolves when its line is on disk. I3: nothing is forwarded before
 * `allow` or `deny` has resolved. @throws audit_unavailable
 */
export type Exchange = {
  readonly requestId: string
  allow(where: Where, rule: string, credential: CredentialBinding | undefined, note: string | undefined): Promise<void>
  deny(where: Where, refusal: Refusal): Promise<void>
  finish(where: Where, result: Result): Promise<void>
}

export function openExchange({ audit, log, system }: ExchangeParts, lane: Lane): Exchange {
  const requestId = randomUUID()
  const started = system.elapsed()
  let allowed: { readonly rule: string; readonly credential?: string } | undefined
  return {
    requestId,
    allow(where, rule, credential, note) {
      allowed = { rule, ...(note === undefined && credential && { credential: credential.id }) }
      return audit.append({
        event: 'decided',
        request: requestId,
        lane,
        ...described(where),
        decision: 'allow',
        rule,
        ...(credential && { credential: credential.id, secret: credential.secret }),
        ...(note !== undefined && { note }),
      })
    },
    async deny(where, refusal) {
      const { code, rule } = refusal
      await audit.append({
        event: 'decided',
        request: requestId,
        lane,
        ...described(where),
        decision: 'deny',
        code,
        ...(rule !== undefined && { rule }),
      })
    },
    async finish(where, { status, refusal, address, bytesUp, bytesDown }) {
      const shownStatus = status ?? (refusal && statusOf(refusal.code))
      const durationMs = Math.round(system.elapsed() - started)
      const line = {
        requestId,
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
      await audit.append({
        event: 'finished',
        request: requestId,
        ...(shownStatus !== undefined && { status: shownStatus }),
        ...(refusal && { code: refusal.code }),
        ...(address !== undefined && { address }),
        bytes_up: bytesUp,
        bytes_down: bytesDown,
        duration_ms: durationMs,
      })
    },
  }
}

function named({ host, port, method }: Where): Where {
  return { ...(method !== undefined && { method }), ...(host !== undefined && { host }), ...(port !== undefined && { port }) }
}

function described(where: Where): Where {
  return {
    ...(where.scheme !== undefined && { scheme: where.scheme }),
    ...named(where),
    // Without its query, which often carries keys.
    ...(where.path !== undefined && { path: where.path.split('?', 1)[0] ?? '' }),
  }
}
