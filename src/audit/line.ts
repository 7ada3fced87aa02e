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
      /** Which of the session's side networks it came by: a container of the controller's, not the agent. */
      readonly network?: string | undefined
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
      /** Of the controller: a session begins a chain of its own, the first or a further one. Recorded before any line of it is kept. */
      readonly event: 'chain_begun'
      readonly of: string
      readonly chain: number
      /** Hash of its first line. */
      readonly digest: string
    }
  | {
      /** Of the controller: a session's own chain has come so far. */
      readonly event: 'countersigned'
      readonly of: string
      /** Which of the session's chains, when it is not the first. */
      readonly chain?: number | undefined
      readonly line: number
      readonly digest: string
    }
  | {
      /** Of the controller: all lines before this one are signed with its key. `encodeCheckpoint` adds the signature. */
      readonly event: 'checkpoint'
      /** Thumbprint of the key (RFC 7638). */
      readonly key: string
    }
  | {
      /** Of the controller: this file was old enough, and is deleted. What comes behind it goes on from its last line. */
      readonly event: 'retired'
      /** `controller`, or the session whose chain it is. */
      readonly of: string
      /** Number of the segment of the controller's chain, or of the session's chain. */
      readonly part: number
      readonly line: number
      readonly digest: string
      readonly bytes: number
    }
  | {
      /** Of the controller: what holds for sessions was changed. Names, versions and digests only. */
      readonly event: 'config_changed'
      readonly of: ConfigKind
      /** Which one: a file, a secret's name, a rule. */
      readonly what: string
      readonly did: string
      readonly version?: number | undefined
      /** SHA-256 of what it is now, hex. */
      readonly digest?: string | undefined
      /** By which way: a command, a route, a question that was approved. */
      readonly by: string
    }
  | {
      /** Of the controller: what the operator did with leases and secrets. Names and versions only. */
      readonly event: 'operator'
      readonly did: string
      readonly details?: string | undefined
    }
  | RequestAuditEvent
  | QuestionEvent
  | ToolEvent
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
      /** Of all that it printed, as it was given on, hex. */
      readonly stdout_sha256?: string | undefined
      readonly stderr_sha256?: string | undefined
      readonly duration_ms: number
    }
  | {
      /** An agent asks for a handle: before anything is looked for, asked or given. */
      readonly event: 'secret_requested'
      readonly request: string
      readonly of: string
      readonly name: string
      readonly scope: string
      /** `allow`: the policy says so, and nobody is asked. */
      readonly decision: 'allow' | 'ask'
      /** What is behind the name, as the operator is told it. */
      readonly source: string
      readonly state: string
    }
  | {
      /** Before the handle is given. */
      readonly event: 'secret_granted'
      readonly request: string
      readonly of: string
      readonly name: string
      readonly scope: string
      readonly source: string
      readonly question?: string | undefined
      /** ISO 8601. */
      readonly expires: string
    }
  | {
      /** A command with secrets: before anybody is asked, and before anything of it is done. */
      readonly event: 'use_decided'
      readonly request: string
      readonly of: string
      readonly command: string
      /** Names, joined by ",". */
      readonly secrets: string
      readonly decision: 'ask' | 'deny'
      readonly code?: string | undefined
    }
  | {
      readonly event: 'use_finished'
      readonly request: string
      readonly of: string
      readonly question?: string | undefined
      readonly code?: string | undefined
      readonly exit_code?: number | undefined
      /** Bytes that it printed, files that it left for the agent, and those that were kept from it. */
      readonly bytes: number
      /** Of all that it printed, as it was given on, hex. */
      readonly stdout_sha256?: string | undefined
      readonly stderr_sha256?: string | undefined
      readonly files: number
      readonly withheld: number
      readonly duration_ms: number
    }

/** What is done with MCP servers. Names of tools, and nothing that is said to them or by them. */
export type ToolEvent =
  | {
      /** Of the gate: an agent calls a tool. */
      readonly event: 'tool_called'
      readonly server: string
      readonly tool: string
      readonly decision: 'allow' | 'deny'
    }
  | {
      /** Of the controller: a server is about to be started in a container of its own. */
      readonly event: 'tool_started'
      readonly of: string
      readonly server: string
      readonly connection: string
      /** What it gets, names joined by ",". */
      readonly secret?: string | undefined
    }
  | {
      readonly event: 'tool_ended'
      readonly of: string
      readonly server: string
      readonly connection: string
      /** How, in a word or two. */
      readonly code: string
      readonly exit_code?: number | undefined
      /** Secrets that were in what it said: they were written over. */
      readonly scrubbed?: number | undefined
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
/** What a change of configuration is about. */
export type ConfigKind = 'policy' | 'secret' | 'operator' | 'rule' | 'trust' | 'vault' | 'mcp'

/** Whose events these are: the same in every line of one process. */
export type Identity = {
  readonly session: string
  readonly workspace?: string | undefined
  readonly role?: string | undefined
  readonly agent?: string | undefined
}

/** `prev` of the first line. */
export const GENESIS = '0'.repeat(64)

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
