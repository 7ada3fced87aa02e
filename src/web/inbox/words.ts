import type { QuestionCard } from '../../wire/question-card.ts'
import type { Tier } from '../../wire/question.ts'
import type { Tone } from '../parts/badge.tsx'

export const KINDS: Readonly<Record<QuestionCard['kind'], string>> = {
  command: 'Command on this machine',
  secret: 'A secret',
  secret_use: 'Command with secrets',
  domain: 'Network',
  proposal: 'Change of a file',
}

export const RISKS: Readonly<Record<QuestionCard['level'], { readonly words: string; readonly tone: Tone }>> = {
  safe: { words: 'safe', tone: 'ok' },
  caution: { words: 'caution', tone: 'warn' },
  dangerous: { words: 'dangerous', tone: 'bad' },
}

export const PROOFS: Readonly<Record<Tier, string>> = { T0: 'a click', T1: 'a password', T2: 'the operating system', T3: 'a passkey' }

const SCOPES = { once: 'once', session: 'for the session', remember: 'and remembered' } as const

/** How it ended, or that it waits. */
export function stateWords({ state, answer, note }: QuestionCard): string {
  switch (state) {
    case 'pending':
      return 'waits'
    case 'claimed':
      return 'somebody has it'
    case 'approved':
      return `allowed ${SCOPES[answer?.scope ?? 'once']}`
    case 'denied':
      return `denied ${SCOPES[answer?.scope ?? 'once']}`
    case 'expired':
      return 'expired: nobody answered in time'
    case 'cancelled':
      return note === undefined ? 'withdrawn' : `withdrawn: ${note}`
  }
}

/** What became of an approval. */
export function runWords({ state, run }: QuestionCard): string {
  if (state !== 'approved') return ''
  if (run === undefined) return 'not used yet'
  if (run.finishedAt === undefined) return 'runs'
  if (run.code === 'interrupted') return 'interrupted: the daemon ended before it did'
  if (run.code !== undefined) return `failed: ${run.code}`
  return run.exitCode === undefined ? 'done' : `ended with ${run.exitCode}`
}

/** @param ms until it is a no by itself */
export function leftWords(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1_000))
  return seconds < 100 ? `${seconds} s left` : `${Math.ceil(seconds / 60)} min left`
}
