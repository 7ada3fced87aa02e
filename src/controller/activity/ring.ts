import type { ActivityLine } from '../../wire/activity.ts'

/** Where a line of the audit is. */
export type AuditPlace = { readonly chain: string; readonly seq: number; readonly offset: number; readonly bytes: number }

/** One request, with where the audit has it. */
export type Held = {
  readonly line: ActivityLine
  readonly places: readonly AuditPlace[]
  /** SHA-256 of the policy that decided, where it is known. */
  readonly policy: string | undefined
}

/** The newest of what is added: beyond `max` the oldest gives way. */
export type Ring = {
  readonly size: number
  add(held: (n: number) => Held): Held
  /** In the place of what is there under the same number. */
  put(held: Held): void
  find(session: string, request: string): Held | undefined
  /** Newest first, with smaller numbers than `before`. */
  newest(before?: number): Generator<Held, void>
}

export function createRing(max: number): Ring {
  const slots: (Held | undefined)[] = []
  const numbers = new Map<string, number>()
  let last = 0
  const at = (n: number): Held | undefined => {
    const held = slots[n % max]
    return held?.line.n === n ? held : undefined
  }
  return {
    get size() {
      return Math.min(last, max)
    },
    add(make) {
      last += 1
      const held = make(last)
      const gone = slots[last % max]
      // A name that came again belongs to the newer one.
      if (gone !== undefined && numbers.get(keyOf(gone.line)) === gone.line.n) numbers.delete(keyOf(gone.line))
      slots[last % max] = held
      numbers.set(keyOf(held.line), last)
      return held
    },
    put(held) {
      if (at(held.line.n) !== undefined) slots[held.line.n % max] = held
    },
    find: (session, request) => at(numbers.get(keyOf({ session, request })) ?? -1),
    *newest(before = last + 1) {
      for (let n = Math.min(before - 1, last); n > Math.max(0, last - max); n -= 1) {
        const held = at(n)
        if (held !== undefined) yield held
      }
    },
  }
}

function keyOf({ session, request }: Pick<ActivityLine, 'session' | 'request'>): string {
  return `${session} ${request}`
}
