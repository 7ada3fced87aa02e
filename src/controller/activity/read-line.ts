import { LIMITS } from '../../kernel/limits.ts'
import { ACTIVITY_LANES, type ActivityLane, type ActivityLine } from '../../wire/activity.ts'

/** What a line of a session's audit says of its requests. */
export type Recorded =
  | { readonly kind: 'begun'; readonly line: Omit<ActivityLine, 'n'> }
  | { readonly kind: 'ended'; readonly request: string; readonly atMs: number; readonly ended: Ended }
  | { readonly kind: 'policy'; readonly digest: string }

/** How a request ended. */
export type Ended = Pick<ActivityLine, 'status' | 'code' | 'address' | 'bytesUp' | 'bytesDown' | 'scrubbed' | 'durationMs'>

const TOLD = /"event":"(?:decided|finished|tool_called|token_requested|started|reloaded)"/
const LANES: ReadonlySet<unknown> = new Set(ACTIVITY_LANES)
/** There is no answer yet: the same request again may pass. */
const WAITS = 'approval_pending'

/** Whether a line may say something of requests: a quick look. */
export function isTold(text: string): boolean {
  return TOLD.test(text)
}

/** One that is not known is shown as what every request comes to in the end. */
export function laneOf(lane: unknown): ActivityLane {
  return LANES.has(lane) ? (lane as ActivityLane) : 'http'
}

/** Reads one line of the chain of this session: `undefined` where it is about no request. */
export function readRecorded(session: string, text: string): Recorded | undefined {
  if (!isTold(text)) return undefined
  const fields = parse(text)
  const atMs = Date.parse(wordOf(fields['time']) ?? '')
  const request = wordOf(fields['request'])
  if (Number.isNaN(atMs)) return undefined
  switch (fields['event']) {
    case 'decided':
      return request === undefined ? undefined : { kind: 'begun', line: decided(session, request, atMs, fields) }
    case 'finished':
      return request === undefined ? undefined : { kind: 'ended', request, atMs, ended: endedOf(fields) }
    case 'tool_called':
    case 'token_requested':
      return { kind: 'begun', line: single(session, atMs, fields) }
    case 'started':
    case 'reloaded': {
      const digest = wordOf(fields['policy'])
      return digest === undefined ? undefined : { kind: 'policy', digest }
    }
    default:
      return undefined
  }
}

function decided(session: string, request: string, at: number, fields: Fields): Omit<ActivityLine, 'n'> {
  const code = wordOf(fields['code'])
  const isAllowed = fields['decision'] === 'allow'
  return {
    session,
    request,
    at,
    lane: laneOf(fields['lane']),
    plane: fields['plane'] === 'control_plane' ? 'control_plane' : 'agent',
    ...words(fields, ['network', 'scheme', 'method', 'host', 'path', 'rule', 'note']),
    ...counts({ port: fields['port'] }),
    decision: isAllowed ? 'allow' : code === WAITS ? 'ask' : 'deny',
    ...(code?.startsWith('approval_') === true && { isAsked: true as const }),
    ...(code !== undefined && { code }),
    credentials: wordOf(fields['credential'], LIMITS.activityTextCharsMax)?.split(',') ?? [],
    state: 'open',
  }
}

/** What is recorded in one line, and is over with it. */
function single(session: string, at: number, fields: Fields): Omit<ActivityLine, 'n'> {
  const isTool = fields['event'] === 'tool_called'
  const host = wordOf(isTool ? fields['server'] : fields['host'])
  const path = wordOf(fields['tool'])
  return {
    session,
    request: `line-${Number(fields['seq'])}`,
    at,
    lane: isTool ? 'mcp' : 'token',
    plane: 'agent',
    ...(host !== undefined && { host }),
    ...(path !== undefined && { path }),
    decision: isTool && fields['decision'] !== 'allow' ? 'deny' : 'allow',
    credentials: [],
    state: 'done',
  }
}

function endedOf(fields: Fields): Ended {
  const code = wordOf(fields['code'])
  const address = wordOf(fields['address'])
  return {
    ...(code !== undefined && { code }),
    ...(address !== undefined && { address }),
    ...counts({
      status: fields['status'],
      bytesUp: fields['bytes_up'],
      bytesDown: fields['bytes_down'],
      scrubbed: fields['scrubbed'],
      durationMs: fields['duration_ms'],
    }),
  }
}

type Fields = Readonly<Record<string, unknown>>

function parse(text: string): Fields {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Fields) : {}
  } catch {
    return {}
  }
}

function wordOf(value: unknown, charsMax: number = LIMITS.activityWordCharsMax): string | undefined {
  if (typeof value !== 'string' || value === '') return undefined
  // Anew: a piece of a text keeps the whole of it in memory.
  return value.length <= charsMax ? value : (JSON.parse(JSON.stringify(value.slice(0, charsMax))) as string)
}

function words<K extends string>(fields: Fields, names: readonly K[]): { [P in K]?: string } {
  const found: { [P in K]?: string } = {}
  for (const name of names) {
    const word = wordOf(fields[name], name === 'path' ? LIMITS.activityTextCharsMax : undefined)
    if (word !== undefined) found[name] = word
  }
  return found
}

function counts<K extends string>(values: Readonly<Record<K, unknown>>): { [P in K]?: number } {
  const found: { [P in K]?: number } = {}
  for (const name in values) {
    const value = values[name]
    if (typeof value === 'number' && value >= 0 && Number.isFinite(value)) found[name] = value
  }
  return found
}
