import type { Entry } from './entries.ts'

/** Which events are asked for: all that is given must hold. */
export type EntryFilter = {
  /** Id or name of a session: its own chains, and what the controller says of it. */
  readonly session?: string | undefined
  /** Path of a workspace, or its last part. */
  readonly workspace?: string | undefined
  readonly event?: readonly string[] | undefined
  readonly decision?: string | undefined
  /** Exact, or `*.example.com` for what is below. */
  readonly host?: string | undefined
  readonly code?: string | undefined
  /** Anywhere in the line; the case of ASCII letters is the same. */
  readonly text?: string | undefined
  /** Milliseconds since 1970, both included. */
  readonly sinceMs?: number | undefined
  readonly untilMs?: number | undefined
}

/** Whether an event is asked for. */
export function createFilter(filter: EntryFilter): (entry: Entry) => boolean {
  const { session, workspace, event, decision, host, code, text, sinceMs, untilMs } = filter
  const searched = text === undefined ? undefined : asWritten(text)
  return ({ chain, fields, line }) => {
    if (event !== undefined && event.length > 0 && !event.includes(String(fields['event']))) return false
    if (decision !== undefined && fields['decision'] !== decision) return false
    if (code !== undefined && fields['code'] !== code) return false
    if (host !== undefined && !isHost(fields['host'], host)) return false
    if (searched !== undefined && !line.toLowerCase().includes(searched)) return false
    if (session !== undefined && !isSession(chain, fields, session)) return false
    if (workspace !== undefined && !isWorkspace(fields['workspace'], workspace) && !isWorkspace(fields['place'], workspace)) return false
    if (sinceMs === undefined && untilMs === undefined) return true
    const timeMs = Date.parse(String(fields['time']))
    return timeMs >= (sinceMs ?? Number.NEGATIVE_INFINITY) && timeMs <= (untilMs ?? Number.POSITIVE_INFINITY)
  }
}

/** A quick look at a line that has not been parsed: false only when the filter cannot hold. */
export function createPreview({ event, decision, code }: EntryFilter): (line: string) => boolean {
  const exact = [decision !== undefined && ['decision', decision], code !== undefined && ['code', code]]
  const needed = exact.flatMap((one) => (one === false ? [] : [`"${one[0]}":${JSON.stringify(one[1])}`]))
  const events = event?.map((name) => `"event":${JSON.stringify(name)}`) ?? []
  return (line) => needed.every((text) => line.includes(text)) && (events.length === 0 || events.some((text) => line.includes(text)))
}

/** As it stands in a line: an audit is ASCII, and JSON. */
function asWritten(text: string): string {
  const quoted = JSON.stringify(text).slice(1, -1)
  return quoted.replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`).toLowerCase()
}

function isSession(chain: string, fields: Entry['fields'], session: string): boolean {
  const isChain = chain === session || (chain.startsWith(`${session}.`) && /^\d+$/.test(chain.slice(session.length + 1)))
  return isChain || fields['session'] === session || fields['of'] === session || fields['name'] === session
}

function isHost(host: unknown, pattern: string): boolean {
  if (typeof host !== 'string') return false
  return pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) && host.length > pattern.length - 1 : host === pattern
}

function isWorkspace(path: unknown, workspace: string): boolean {
  return typeof path === 'string' && (path === workspace || path.endsWith(`/${workspace}`))
}
