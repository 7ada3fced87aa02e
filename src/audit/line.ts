import { hash } from 'node:crypto'
import { LIMITS } from '../kernel/limits.ts'

/** Ways in: absolute-form, tunnels by CONNECT and by SOCKS5, connections that know no proxy, reverse routes of the gateway. */
export type Lane = 'http' | 'connect' | 'socks' | 'transparent' | 'route'

/** What is recorded. Names of credentials and secrets, never values. */
export type AuditEvent =
  | {
      readonly event: 'started'
      readonly version: string
      /** SHA-256 of the effective policy, hex. */
      readonly policy: string
    }
  | {
      readonly event: 'decided'
      /** Id that `finished` of the same request carries too. */
      readonly request: string
      readonly lane: Lane
      /** Whose traffic it is: the harness's own, or what the agent does. */
      readonly plane: 'control_plane' | 'agent'
      readonly scheme?: string | undefined
      readonly host?: string | undefined
      readonly port?: number | undefined
      readonly method?: string | undefined
      readonly path?: string | undefined
      readonly decision: 'allow' | 'deny'
      readonly code?: string | undefined
      readonly rule?: string | undefined
      /** What goes with the request, names joined by ",". */
      readonly credential?: string | undefined
      readonly secret?: string | undefined
      /** What became of credentials that the agent sent itself. */
      readonly own_credentials?: 'dropped' | 'passed' | undefined
      readonly note?: string | undefined
    }
  | {
      readonly event: 'finished'
      readonly request: string
      readonly status?: number | undefined
      readonly code?: string | undefined
      readonly address?: string | undefined
      readonly bytes_up: number
      readonly bytes_down: number
      /** Secrets that the answer had in it. */
      readonly scrubbed?: number | undefined
      readonly duration_ms: number
    }
  | {
      readonly event: 'token_requested'
      /** Where a secret is exchanged for an access token. */
      readonly host: string
    }
  | {
      readonly event: 'reloaded'
      /** SHA-256 of the policy that is in force from here on, hex. */
      readonly policy: string
      /** Tunnels and exchanges that it no longer allows: they were ended. */
      readonly cut: number
      /** Version of the controller's secrets that came with it. */
      readonly secrets?: number | undefined
    }
  | {
      readonly event: 'secrets_ended'
      /** Why no secret is there any more: the controller is gone, or the lease was revoked. */
      readonly code: string
      readonly cut: number
    }
  | {
      readonly event: 'reload_failed'
      /** Why the policy before stays in force. */
      readonly code: string
    }
  | {
      /** Of the controller: what becomes of a session. */
      readonly event: 'session'
      readonly state: string
      readonly of: string
      readonly name: string
      readonly place: string
      readonly details?: string | undefined
    }
  | {
      /** Of the controller: a session's own chain has come so far. */
      readonly event: 'countersigned'
      readonly of: string
      readonly line: number
      readonly digest: string
    }
  | {
      /** Of the controller: what the operator did with leases and secrets. Names and versions only. */
      readonly event: 'operator'
      readonly did: string
      readonly details?: string | undefined
    }
  | RequestAuditEvent
  | QuestionEvent
  | { readonly event: 'stopped' }
  | {
      readonly event: 'recovered'
      /** Bytes of an unfinished last line that were cut off. */
      readonly bytes: number
    }

/** Of the controller: what became of a command that an agent asked the host for. Its words, and no output. */
export type RequestAuditEvent =
  | {
      readonly event: 'command_decided'
      readonly request: string
      readonly of: string
      readonly command: string
      readonly decision: 'allow' | 'ask' | 'deny' | 'disabled'
      readonly code?: string | undefined
      readonly rule?: string | undefined
      readonly risk: string
    }
  | {
      readonly event: 'command_finished'
      readonly request: string
      readonly of: string
      /** The question that somebody answered, where one was asked. */
      readonly question?: string | undefined
      readonly code?: string | undefined
      readonly exit_code?: number | undefined
      readonly signal?: string | undefined
      readonly bytes: number
      readonly duration_ms: number
    }

/** Of the controller: what became of a question for the operator. `digest` is of all that was shown, and of all that may happen. */
export type QuestionEvent =
  | {
      readonly event: 'question_asked'
      readonly question: string
      readonly digest: string
      readonly kind: string
      /** Session, its name, its workspace, and as what its lease says that it asks. */
      readonly of: string
      readonly name: string
      readonly place: string
      readonly asker_role?: string | undefined
      readonly asker_agent: string
      /** In one line; the digest is over the whole. */
      readonly what: string
      readonly reason: string
      readonly risk: string
      readonly tier: string
      readonly rule?: string | undefined
      /** ISO 8601. */
      readonly expires: string
    }
  | {
      readonly event: 'question_settled'
      readonly question: string
      readonly digest: string
      readonly of: string
      readonly state: 'approved' | 'denied' | 'expired' | 'cancelled'
      readonly scope?: string | undefined
      /** Who answered, and how that they are there was proven, when. */
      readonly by?: string | undefined
      readonly tier?: string | undefined
      readonly means?: string | undefined
      readonly proven?: string | undefined
      readonly message?: string | undefined
      /** The rule that is remembered, and its end. */
      readonly remembered?: string | undefined
      readonly remembered_until?: string | undefined
      readonly note?: string | undefined
    }
  | { readonly event: 'question_consumed'; readonly question: string; readonly digest: string; readonly of: string }
  | {
      readonly event: 'question_finished'
      readonly question: string
      readonly digest: string
      readonly of: string
      readonly code?: string | undefined
      readonly exit_code?: number | undefined
    }

/** Whose events these are: the same in every line of one process. */
export type Identity = {
  readonly session: string
  readonly workspace?: string | undefined
  readonly role?: string | undefined
  readonly agent?: string | undefined
}

/** `prev` of the first line. */
export const GENESIS = '0'.repeat(64)

const SUFFIX = /^,"hash":"([0-9a-f]{64})"\}$/
const SUFFIX_BYTES = `,"hash":"${GENESIS}"}`.length
const TIME = /^[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
/** What stands in JSON as it is. */
const PLAIN = /^[ !#-[\]-~]*$/
const NOT_ASCII = /[\u007f-\uffff]/g

/** The members that stand in every line, ready to be put in. */
export function encodeIdentity({ session, workspace, role, agent }: Identity): string {
  return members({ session, workspace, role, agent })
}

/** The members of one event between `seq` and `prev`, in ASCII. */
export function encodeEvent(identity: string, event: AuditEvent, timeMs: number): string {
  return `"time":"${timeText(timeMs)}",${identity},${members(event)}`
}

let lastTime = { ms: NaN, text: '' }

/** Events come many in a millisecond. */
function timeText(ms: number): string {
  if (lastTime.ms !== ms) lastTime = { ms, text: new Date(ms).toISOString() }
  return lastTime.text
}

/** I15: the whole line with its newline, and the hash that the next line carries as `prev`. Pure ASCII: one byte a character. */
export function sealLine(seq: number, body: string, prev: string): { readonly line: string; readonly hash: string } {
  const hashed = `${startOfLine(seq)}${body},"prev":"${prev}"`
  const digest = hash('sha256', hashed, 'hex')
  return { line: `${hashed},"hash":"${digest}"}\n`, hash: digest }
}

/** What every line with that number begins with. */
export function startOfLine(seq: number): string {
  return `{"seq":${seq},`
}

/** What a line says about its place in the chain. */
export type Link = { readonly seq: number; readonly prev: string; readonly hash: string; readonly time: string }

/** Reads one line (without its newline) and checks it by itself. A string is the reason why it does not hold. */
export function readLine(bytes: Buffer): Link | string {
  const end = bytes.length - SUFFIX_BYTES
  const stated = end > 0 ? SUFFIX.exec(bytes.toString('latin1', end))?.[1] : undefined
  if (stated === undefined) return 'it does not end with its hash'
  if (hash('sha256', bytes.subarray(0, end), 'hex') !== stated) return 'its hash does not match its bytes'
  const { seq, prev, time, session, event } = parseObject(bytes)
  if (typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq < 1) return 'it has no sequence number'
  if (typeof prev !== 'string') return 'it does not name the line before'
  if (typeof time !== 'string' || !TIME.test(time)) return 'it has no time'
  if (typeof session !== 'string' || typeof event !== 'string') return 'it has no session or no event'
  return { seq, prev, time, hash: stated }
}

function parseObject(bytes: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function members(fields: Readonly<Record<string, string | number | undefined>>): string {
  let text = ''
  for (const name in fields) {
    const value = fields[name]
    if (value !== undefined) text += `${text === '' ? '"' : ',"'}${name}":${typeof value === 'string' ? quote(value) : String(value)}`
  }
  return text
}

/**
 * Everything outside of ASCII is escaped, DEL too: bidi marks, zero-width characters, C1 controls, tag characters and
 * look-alike letters in a path or a name would otherwise deceive whoever reads the file in a terminal.
 */
function quote(text: string): string {
  if (text.length <= LIMITS.auditPathCharsMax && PLAIN.test(text)) return `"${text}"`
  const cut = text.length > LIMITS.auditPathCharsMax ? `${text.slice(0, LIMITS.auditPathCharsMax)}[cut: ${text.length} characters]` : text
  return JSON.stringify(cut).replace(NOT_ASCII, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
