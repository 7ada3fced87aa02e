import { computed } from '@preact/signals'
import { ACTIVITY_DECISIONS, ACTIVITY_LANES, ACTIVITY_PLANES } from '../../wire/activity.ts'
import { Button } from '../parts/button.tsx'
import { nameOf } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { sessionList } from '../sessions/session-list.ts'
import { clearFilters, filter, setFilter, shownPlane, type FilterName } from './address.ts'
import { lines } from './lines.ts'
import { DECISIONS, LANES, nameOfSession, PLANES } from './words.ts'

/** Choices that a select offers at most: what is beyond is still found by the address. */
const CHOICES_MAX = 200

const sessions = computed(() =>
  chosen([...(sessionList.value ?? []).map(({ id }) => id), ...lines.value.map(({ session }) => session)], 'session'),
)
const credentials = computed(() => chosen(lines.value.flatMap((line) => line.credentials).toSorted(), 'credential'))

/** Each once, with the one that is chosen already. */
function chosen(all: readonly string[], name: 'session' | 'credential'): readonly string[] {
  const now = filter.value[name]
  return [...new Set([...(now === undefined ? [] : [now]), ...all])].slice(0, CHOICES_MAX)
}

/** What is shown, and whose: kept in the address. */
export function Filters() {
  const { host = '', isNarrow } = filter.value
  return (
    <div class="activity-filters" role="search" aria-label="Filter the lines">
      <Field
        label="Host"
        control={(attributes) => (
          <input
            {...attributes}
            class="input"
            type="search"
            maxLength={253}
            placeholder="part of a name, or *.example.com"
            spellcheck={false}
            autocomplete="off"
            value={host}
            onInput={(event) => setFilter({ host: event.currentTarget.value.trim() })}
          />
        )}
      />
      <Choice label="Session" name="session" all="every session" options={sessions.value.map((id) => [id, nameOfSession(id)])} />
      <Choice
        label="Decision"
        name="decision"
        all="every decision"
        options={ACTIVITY_DECISIONS.map((decision) => [decision, DECISIONS[decision].word])}
      />
      <Choice label="Credential" name="credential" all="with or without" options={credentials.value.map((id) => [id, id])} />
      <Choice label="Way" name="lane" all="every way" options={ACTIVITY_LANES.map((lane) => [lane, LANES[lane]])} />
      {isNarrow && (
        <Button kind="plain" onPress={clearFilters}>
          Show all
        </Button>
      )}
    </div>
  )
}

/** What agents do, or what their harnesses need. */
export function PlaneTabs() {
  return (
    <div class="row" role="group" aria-label="Whose traffic">
      {[...ACTIVITY_PLANES, 'all' as const].map((plane) => (
        <button
          key={plane}
          type="button"
          class={`button${shownPlane.value === plane ? ' activity-chosen' : ' button-plain'}`}
          aria-pressed={shownPlane.value === plane}
          onClick={() => setFilter({ plane })}
        >
          {PLANES[plane]}
        </button>
      ))}
    </div>
  )
}

function Choice(props: {
  readonly label: string
  readonly name: FilterName
  readonly all: string
  readonly options: readonly (readonly [value: string, text: string])[]
}) {
  const { label, name, all, options } = props
  return (
    <Field
      label={label}
      control={(attributes) => (
        <select
          {...attributes}
          class="input"
          value={filter.value[name] ?? ''}
          onChange={(event) => setFilter({ [name]: event.currentTarget.value })}
        >
          <option value="">{all}</option>
          {options.map(([value, text]) => (
            <option key={value} value={value}>
              {nameOf(text)}
            </option>
          ))}
        </select>
      )}
    />
  )
}
