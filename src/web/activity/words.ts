import type { ActivityDecision, ActivityLane, ActivityLine, ActivityPlane } from '../../wire/activity.ts'
import type { Tone } from '../parts/badge.tsx'
import { sessionList } from '../sessions/session-list.ts'

export const LANES: Readonly<Record<ActivityLane, string>> = {
  http: 'HTTP proxy',
  connect: 'CONNECT',
  socks: 'SOCKS',
  transparent: 'without a proxy',
  route: 'gateway route',
  mcp: 'MCP tool',
  token: 'token exchange',
}

export const PLANES: Readonly<Record<ActivityPlane | 'all', string>> = {
  agent: 'What agents do',
  control_plane: 'Agents’ own services',
  all: 'Everything',
}

export const DECISIONS: Readonly<Record<ActivityDecision, { readonly word: string; readonly tone: Tone }>> = {
  allow: { word: 'allowed', tone: 'ok' },
  deny: { word: 'denied', tone: 'bad' },
  ask: { word: 'asked', tone: 'warn' },
}

/** As one would say what it is: by what was said inside, and else by what carried it. */
export function kindOf({ lane, scheme, note }: ActivityLine): string {
  if (lane === 'mcp') return 'mcp'
  if (lane === 'token') return 'token'
  if (note === 'tcp') return 'tcp'
  if (note === 'passthrough') return 'tls'
  return scheme ?? (lane === 'transparent' ? 'tcp' : lane)
}

/** `host:port`, without the port that goes without saying. */
export function placeOf({ host, port, scheme }: ActivityLine): string {
  if (host === undefined) return '(no host)'
  const usual = scheme === 'http' ? 80 : 443
  const name = host.includes(':') ? `[${host}]` : host
  return port === undefined || port === usual ? name : `${name}:${port}`
}

/** The operator's name for a session, or its id where it is gone. */
export function nameOfSession(id: string): string {
  return sessionList.value?.find((session) => session.id === id)?.name ?? id
}

const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })

export function clockOf(at: number): string {
  return CLOCK.format(at)
}

/** The outcome in a word: a status, why it failed, or that it goes on. */
export function outcomeOf({ status, code, state, decision }: ActivityLine): string {
  if (decision === 'ask' && state === 'open') return 'waits'
  if (status !== undefined) return String(status)
  if (code !== undefined) return code
  if (state === 'open') return decision === 'allow' ? 'open' : ''
  return state === 'lost' ? 'lost' : ''
}
