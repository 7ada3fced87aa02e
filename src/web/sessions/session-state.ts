import type { SessionView } from '../../wire/operator.ts'
import type { Tone } from '../parts/badge.tsx'

/** How a session is, in a word or two. */
export function stateOf({ state, project, agent, sidecar, isRevoked }: SessionView): { readonly text: string; readonly tone: Tone } {
  if (state === 'failed') return { text: 'failed', tone: 'bad' }
  if (state !== 'running') return { text: state, tone: 'quiet' }
  if (isRevoked) return { text: 'lease revoked', tone: 'bad' }
  if (!sidecar.healthy) return { text: 'gate is away', tone: 'bad' }
  if (project === undefined && !agent.running) return { text: `agent exited ${agent.exitCode ?? ''}`.trim(), tone: 'warn' }
  return { text: 'running', tone: 'ok' }
}

/** Whether there is something of it that can be ended. */
export function isUp({ state }: SessionView): boolean {
  return state === 'starting' || state === 'running' || state === 'stopping'
}
