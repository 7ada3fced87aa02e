/** By which way it came; `mcp` is a call of a tool, `token` the exchange of a secret for an access token. */
export const ACTIVITY_LANES = ['http', 'connect', 'socks', 'transparent', 'route', 'mcp', 'token'] as const
export type ActivityLane = (typeof ACTIVITY_LANES)[number]

/** `ask`: a rule asks the operator, and there is no yes. */
export const ACTIVITY_DECISIONS = ['allow', 'deny', 'ask'] as const
export type ActivityDecision = (typeof ACTIVITY_DECISIONS)[number]

/** Whose traffic it is: the harness's with its own service, or what the agent does. */
export const ACTIVITY_PLANES = ['agent', 'control_plane'] as const
export type ActivityPlane = (typeof ACTIVITY_PLANES)[number]

/**
 * One request or connection of a session, from the lines of its audit that are about it. Hosts, paths and methods are an agent's words,
 * and credentials are names.
 */
export type ActivityLine = {
  /** In which order they came to the daemon, from 1: another daemon counts anew. */
  readonly n: number
  readonly session: string
  /** What the audit calls it; `line-N` for what is one line alone, the one with that number. */
  readonly request: string
  /** Milliseconds since 1970, by the line. */
  readonly at: number
  readonly lane: ActivityLane
  readonly plane: ActivityPlane
  /** The side network that it came by, of a container beside the agent. */
  readonly network?: string
  readonly scheme?: string
  readonly method?: string
  /** The server, where a tool is called. */
  readonly host?: string
  readonly port?: number
  /** Without its query. The tool, where one is called. */
  readonly path?: string
  readonly decision: ActivityDecision
  /** The operator was asked. */
  readonly isAsked?: true
  readonly rule?: string
  /** Why it was refused, or how it failed. */
  readonly code?: string
  /** Ids. */
  readonly credentials: readonly string[]
  /** `tcp` and `passthrough`: nobody looked inside. */
  readonly note?: string
  /** `lost`: its session was over before it was recorded how it ended. */
  readonly state: 'open' | 'done' | 'lost'
  readonly status?: number
  readonly address?: string
  readonly bytesUp?: number
  readonly bytesDown?: number
  /** Secrets that were written over in the answer. */
  readonly scrubbed?: number
  readonly durationMs?: number
}

/** What the page is told: lines that are new or changed, newest state each, and how many were left out since it could not keep up. */
export type ActivityBatch = {
  /** The first of a stream, without lines: what there is can be read now, and nothing after it is missed. */
  readonly begins?: true
  readonly lines: readonly ActivityLine[]
  readonly missed: number
}

/** Newest first. `before`, where there is more, asks for what follows. */
export type ActivityPage = { readonly lines: readonly ActivityLine[]; readonly before?: number; readonly total: number }

export type ActivityFilter = {
  readonly session?: string | undefined
  /** A part of the host's name, or `*.example.com` for what is below. */
  readonly host?: string | undefined
  readonly decision?: string | undefined
  readonly credential?: string | undefined
  readonly lane?: string | undefined
  readonly plane?: string | undefined
}

/** Whether a line is asked for: all that is given must hold. */
export function matchesActivity(line: ActivityLine, filter: ActivityFilter): boolean {
  const { session, host, decision, credential, lane, plane } = filter
  return (
    (session === undefined || line.session === session) &&
    (decision === undefined || line.decision === decision) &&
    (lane === undefined || line.lane === lane) &&
    (plane === undefined || line.plane === plane) &&
    (credential === undefined || line.credentials.includes(credential)) &&
    (host === undefined || isHost(line.host, host.toLowerCase()))
  )
}

function isHost(host: string | undefined, wanted: string): boolean {
  if (host === undefined) return false
  if (!wanted.startsWith('*.')) return host.toLowerCase().includes(wanted)
  return host.length >= wanted.length && host.toLowerCase().endsWith(wanted.slice(1))
}

/** What happened in a stretch of time. */
export type ActivityBucket = {
  /** Its beginning, milliseconds since 1970. */
  readonly at: number
  readonly requests: number
  readonly denials: number
  readonly asks: number
  readonly bytesUp: number
  readonly bytesDown: number
  /** Milliseconds, of answers that ended in it; connections that nobody looked into are left out. */
  readonly p50?: number
  readonly p95?: number
}

/** Every stretch of the time that was asked for, oldest first. */
export type ActivitySeries = { readonly stepMs: number; readonly buckets: readonly ActivityBucket[] }

/** A line of the audit, as it is recorded. */
export type ActivityEvent = { readonly chain: string; readonly seq: number; readonly fields: Readonly<Record<string, unknown>> }

/** A rule that was looked at. */
export type ActivityCandidate = {
  readonly id: string
  /** `LAYER FILE:LINE` */
  readonly at: string
  readonly action: 'allow' | 'ask' | 'deny'
  readonly matches: boolean
  readonly why: string
}

/** How the session's policy decides about it now. */
export type ActivityTrace = {
  readonly decision: ActivityDecision
  /** One sentence. */
  readonly why: string
  readonly code?: string
  readonly hint?: string
  readonly rule?: { readonly id: string; readonly at: string }
  readonly candidates: readonly ActivityCandidate[]
  readonly credentials: readonly { readonly id: string; readonly secret: string; readonly place: string; readonly at: string }[]
  readonly notes: readonly string[]
  /** Whether the policy is another one than when it was decided; undefined where that is not known. */
  readonly isChanged?: boolean
}

export type ActivityLayer = {
  readonly layer: string
  /** Files of the operator's, with what they extend. */
  readonly file: string
}

/** Whether a rule could let it pass, and where it could be written. */
export type ActivityRemedy =
  | { readonly isPossible: false; readonly why: string }
  | { readonly isPossible: true; readonly host: string; readonly port: number; readonly method?: string; readonly path?: string }

export type ActivityDetail = {
  readonly line: ActivityLine
  readonly events: readonly ActivityEvent[]
  /** Why events are not there. */
  readonly eventsProblem?: string
  readonly trace?: ActivityTrace
  /** Why there is no trace. */
  readonly traceProblem?: string
  readonly layers: readonly ActivityLayer[]
  /** Of what did not pass. */
  readonly remedy?: ActivityRemedy
}
