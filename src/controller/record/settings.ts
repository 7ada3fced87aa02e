import * as z from 'zod'
import { LIMITS } from '../../kernel/limits.ts'
import { parseSettings, readSettingsFile } from '../settings-file.ts'

const RETENTION_DAYS = LIMITS.auditRetentionMinMs / 86_400_000

/** Where a copy of the audit goes. */
export type CopyTarget =
  | { readonly kind: 'syslog'; readonly by: 'tcp' | 'udp'; readonly host: string; readonly port: number }
  | { readonly kind: 'syslog'; readonly by: 'unix'; readonly path: string }
  | { readonly kind: 'otlp'; readonly url: string }

export type AuditSettings = { readonly retentionDays: number; readonly copies: readonly CopyTarget[] }

const Copy = z.union([z.strictObject({ syslog: z.string() }), z.strictObject({ otlp: z.string() })]).transform((value, context) => {
  const target = 'syslog' in value ? syslogTarget(value.syslog) : otlpTarget(value.otlp)
  if (typeof target === 'object') return target
  context.addIssue({ code: 'custom', message: target })
  return z.NEVER
})

const File = z.strictObject({
  version: z.literal(1),
  retention_days: z.int().min(RETENTION_DAYS).max(36_500).default(RETENTION_DAYS),
  copy: z.array(Copy).max(LIMITS.auditCopiesMax).default([]),
})

/**
 * The operator's settings of the audit, `audit.yaml` of the home; without one the audit is kept as long as it must be, and copied nowhere.
 * @throws config_invalid with file and line of every error
 */
export function readAuditSettings(file: string): AuditSettings {
  const settings = readSettingsFile(file, File, READING)
  return settings === undefined ? { retentionDays: RETENTION_DAYS, copies: [] } : settingsOf(settings)
}

/** The same of a text that is in no file yet. @throws config_invalid */
export function parseAuditSettings(text: string, file: string): AuditSettings {
  return settingsOf(parseSettings(text, file, File, READING))
}

const READING = { bytesMax: LIMITS.auditSettingsBytesMax, hint: 'docs/AUDIT.md shows the file' }

function settingsOf({ retention_days, copy }: z.infer<typeof File>): AuditSettings {
  return { retentionDays: retention_days, copies: copy }
}

const SYSLOG = 'must be "tcp://HOST:PORT", "udp://HOST:PORT" or "unix:/PATH" of a stream socket'

function syslogTarget(text: string): CopyTarget | string {
  if (/^unix:\/.{1,100}$/.test(text)) return { kind: 'syslog', by: 'unix', path: text.slice('unix:'.length) }
  const [, by, bracketed, name, port] = /^(tcp|udp):\/\/(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? name
  const number = Number(port)
  if ((by !== 'tcp' && by !== 'udp') || host === undefined || !(number >= 1 && number <= 65_535)) return SYSLOG
  return { kind: 'syslog', by, host, port: number }
}

/** Without a user: what stands there may be a password, and the address is in errors and the log. */
function otlpTarget(text: string): CopyTarget | string {
  const url = URL.parse(text)
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
  if (url === null || !isHttp || text.includes('@')) return 'must be a URL like "http://127.0.0.1:4318/v1/logs", without a user'
  return { kind: 'otlp', url: url.href }
}
