import { createHmac } from 'node:crypto'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { SecretSource } from '../../wire/secret-source.ts'

/** What a handle stands for: a name and where its value is kept, and no value. */
export type Granted = {
  readonly name: string
  readonly scope: 'single-command' | 'session' | 'persisted'
  readonly source: SecretSource
  /** Whose word it is: that of the policy holds as long as it is there. */
  readonly by: 'operator' | 'policy'
}

/** The handles of all sessions, in memory alone: a new controller knows none. */
export type HandleBook = {
  /** @throws overloaded when the session has too many */
  refuseSurplus(session: string): void
  /** A new one, and for how long it is good. @throws overloaded */
  grant(session: string, granted: Granted): { readonly handle: string; readonly lifeMs: number }
  /** What it stands for. Nothing is used up. @throws handle_invalid */
  look(session: string, handle: string): Granted
  /** Uses all of them, or none: those for one command are gone from this turn on. @throws handle_invalid */
  take(session: string, handles: readonly string[]): void
  endSession(session: string): void
}

type Entry = { readonly granted: Granted; readonly endsMs: number; readonly endsAt: number }

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789'
const LETTERS = 32
/** The largest multiple of the alphabet's length in a byte: what is above would make some letters likelier. */
const FAIR = 252

export function createHandleBook(system: System): HandleBook {
  const sessions = new Map<string, Map<string, Entry>>()
  const key = system.random(32)
  /** I66: What is compared is no part of what was given: how long it takes says nothing of any handle. */
  const idOf = (session: string, handle: string): string => createHmac('sha256', key).update(`${session}\n${handle}`).digest('base64')
  const isOver = ({ endsMs, endsAt }: Entry): boolean => system.elapsed() >= endsMs || system.now() >= endsAt

  function livingOf(session: string): Map<string, Entry> {
    const own = sessions.get(session) ?? new Map<string, Entry>()
    for (const [id, entry] of own) if (isOver(entry)) own.delete(id)
    return own
  }

  function find(session: string, handle: string): Entry {
    const entry = sessions.get(session)?.get(idOf(session, handle))
    if (entry !== undefined && !isOver(entry)) return entry
    throw invalidHandle()
  }

  function refuseSurplus(session: string): void {
    if (livingOf(session).size < LIMITS.handlesOfSessionMax) return
    throw new SallyportError('overloaded', `this session has ${LIMITS.handlesOfSessionMax} handles that it has not used`, {
      hint: 'use those that you have, or ask for one of the scope session',
    })
  }

  return {
    refuseSurplus,
    grant(session, granted) {
      refuseSurplus(session)
      const lifeMs = lifeOf(granted.scope)
      const handle = `sph_${lettersOf(system)}`
      const own = livingOf(session)
      own.set(idOf(session, handle), { granted, endsMs: system.elapsed() + lifeMs, endsAt: system.now() + lifeMs })
      sessions.set(session, own)
      return { handle, lifeMs }
    },
    look: (session, handle) => find(session, handle).granted,
    take(session, handles) {
      const found = [...new Set(handles)].map((handle) => ({ id: idOf(session, handle), ...find(session, handle) }))
      for (const { id, granted } of found) if (granted.scope === 'single-command') sessions.get(session)?.delete(id)
    },
    endSession: (session) => void sessions.delete(session),
  }
}

export function lifeOf(scope: Granted['scope']): number {
  return scope === 'single-command' ? LIMITS.handleSingleMs : LIMITS.handleSessionMs
}

/** The same words whatever is wrong with it. */
export function invalidHandle(): SallyportError {
  return new SallyportError('handle_invalid', 'a handle is none that this session can use now', {
    hint: 'ask for a new one with secret.request; one for a single command is used up by the first that begins',
  })
}

function lettersOf(system: Pick<System, 'random'>): string {
  let letters = ''
  while (letters.length < LETTERS)
    for (const byte of system.random(LETTERS))
      if (byte < FAIR && letters.length < LETTERS) letters += ALPHABET.charAt(byte % ALPHABET.length)
  return letters
}
