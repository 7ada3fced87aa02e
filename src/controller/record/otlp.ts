import { Agent, request } from 'undici'
import { LIMITS } from '../../kernel/limits.ts'
import { VERSION } from '../../kernel/version.ts'
import type { Receiver } from './copies.ts'
import type { CopyTarget } from './settings.ts'

/** Numbers of severities of https://opentelemetry.io/docs/specs/otel/logs/data-model/ */
const INFO = 9
const WARN = 13
/** Answers behind which the same may be sent again (OTLP/HTTP §"Retryable response codes"). */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504])

/** A receiver of logs by OTLP/HTTP with JSON. */
export function openOtlp({ url }: Extract<CopyTarget, { kind: 'otlp' }>): Receiver {
  const { origin, pathname } = new URL(url)
  const agent = new Agent({ connections: 1, headersTimeout: LIMITS.auditCopySendMs, bodyTimeout: LIMITS.auditCopySendMs })
  return {
    // Without the query: what stands there may be a token, and the name is in the log.
    name: `otlp ${origin}${pathname}`,
    async send(lines, signal) {
      const headers = { 'content-type': 'application/json', 'user-agent': `sallyport/${VERSION}` }
      const answer = await request(url, { method: 'POST', headers, body: otlpLogs(lines), dispatcher: agent, signal })
      await answer.body.dump()
      const { statusCode: status } = answer
      // What is refused for good is refused the next time too: the copy goes on behind it.
      if (status >= 400 && (RETRYABLE.has(status) || status === 401 || status === 403 || status === 404))
        throw Object.assign(new Error(`the receiver answered ${status}`), { code: `HTTP_${status}` })
    },
    [Symbol.asyncDispose]: () => agent.destroy(),
  }
}

/** ExportLogsServiceRequest in JSON: one record a line, the line itself as its body. */
export function otlpLogs(lines: readonly string[]): string {
  const scope = { name: 'sallyport.audit', version: VERSION }
  return JSON.stringify({
    resourceLogs: [
      {
        resource: { attributes: [attribute('service.name', 'sallyport'), attribute('service.version', VERSION)] },
        scopeLogs: [{ scope, logRecords: lines.map(recordOf) }],
      },
    ],
  })
}

/** Members that are worth a search there. */
const ATTRIBUTES = ['session', 'event', 'decision', 'code', 'rule', 'host', 'method', 'of', 'question', 'request'] as const

function recordOf(line: string): Record<string, unknown> {
  const fields = JSON.parse(line) as Record<string, unknown>
  const isDenied = fields['decision'] === 'deny'
  return {
    timeUnixNano: nanosOf(fields['time']),
    severityNumber: isDenied ? WARN : INFO,
    severityText: isDenied ? 'WARN' : 'INFO',
    body: { stringValue: line },
    attributes: ATTRIBUTES.flatMap((name) => (typeof fields[name] === 'string' ? [attribute(`sallyport.${name}`, fields[name])] : [])),
  }
}

/** A fixed64. A gate may write any time, and for one that is none a receiver refuses all lines that come with it. */
function nanosOf(time: unknown): string {
  const ms = Date.parse(String(time))
  if (!(ms >= 0)) return '0'
  const nanos = BigInt(ms) * 1_000_000n
  return nanos < 1n << 64n ? String(nanos) : '0'
}

/** Half of a surrogate pair is no Unicode: the same. */
function attribute(key: string, value: string): Record<string, unknown> {
  return { key, value: { stringValue: value.toWellFormed() } }
}
