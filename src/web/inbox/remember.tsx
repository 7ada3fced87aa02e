import { APPROVAL_LIMITS } from '../../kernel/approval-limits.ts'
import { visibleJsonLine } from '../../kernel/visible.ts'
import type { Question } from '../../wire/question.ts'
import { Exact } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { now, stamp } from '../parts/time.tsx'

/** The rule as it is in the field, and how long it is to last. */
export type Remembering = { readonly rule: string; readonly forMs: number }
type Offered = NonNullable<Question['remember']>

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const ENDS: readonly (readonly [words: string, ms: number])[] = [
  ['1 hour', HOUR_MS],
  ['1 day', DAY_MS],
  ['7 days', 7 * DAY_MS],
  ['30 days', APPROVAL_LIMITS.rememberMs],
  ['90 days', 90 * DAY_MS],
  // The clock goes on while it is answered.
  ['a year', APPROVAL_LIMITS.rememberMaxMs - HOUR_MS],
]
const RULE_CHARS_MAX = 16_384

export function offeredRule({ kind, rule }: Offered): Remembering {
  return { rule: kind === 'network' ? inJson(rule) : rule, forMs: APPROVAL_LIMITS.rememberMs }
}

/** What it becomes when it is remembered. A rule of the network can be made narrower: the daemon judges whether it is. */
export function Remember(props: {
  offered: Offered
  value: Remembering
  problem: string | undefined
  onChange: (to: Remembering) => void
}) {
  const { offered, value, problem, onChange } = props
  const isNetwork = offered.kind === 'network'
  return (
    <section class="inbox-section inbox-remember">
      <h3>Remember it as a rule</h3>
      {isNetwork ? (
        <Field
          label="Rule: requests of this workspace that are never asked about again"
          hint="You can make it narrower: fewer ports, methods or paths, or paths where it has none."
          error={problem}
          control={(attributes) => (
            <textarea
              {...attributes}
              class="input mono"
              dir="ltr"
              rows={4}
              maxLength={RULE_CHARS_MAX}
              spellcheck={false}
              value={value.rule}
              onInput={({ currentTarget }) => onChange({ ...value, rule: currentTarget.value })}
            />
          )}
        />
      ) : (
        <>
          <p>Rule: this command of this workspace, with exactly these words, is never asked about again</p>
          <p class="mono inbox-rule">
            <Exact text={value.rule} />
          </p>
          {problem !== undefined && <p class="bad-text">{problem}</p>}
        </>
      )}
      <Field
        label="It ends after"
        hint={`on ${stamp(now.value + value.forMs)}, or when it is taken back; a rule that denies still wins`}
        control={(attributes) => (
          <select
            {...attributes}
            class="input"
            value={String(value.forMs)}
            onChange={({ currentTarget }) => onChange({ ...value, forMs: Number(currentTarget.value) })}
          >
            {ENDS.map(([words, ms]) => (
              <option key={ms} value={String(ms)}>
                {words}
              </option>
            ))}
          </select>
        )}
      />
    </section>
  )
}

/** The same value: what could not be seen is written as JSON escapes it. */
function inJson(rule: string): string {
  try {
    return visibleJsonLine(JSON.parse(rule) as unknown).trimEnd()
  } catch {
    return rule
  }
}
