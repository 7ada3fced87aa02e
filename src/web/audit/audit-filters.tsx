import { useState } from 'preact/hooks'
import { Field } from '../parts/field.tsx'
import { go, route } from '../shell/route.ts'

const FIELDS = [
  { name: 'text', label: 'Search', hint: undefined },
  { name: 'session', label: 'Session', hint: undefined },
  { name: 'workspace', label: 'Workspace', hint: undefined },
  { name: 'event', label: 'Event', hint: undefined },
  { name: 'host', label: 'Host', hint: '*.example.com: those below' },
  { name: 'code', label: 'Code', hint: undefined },
] as const

const TIMES = [
  { name: 'since', label: 'From' },
  { name: 'until', label: 'To' },
] as const

/** The names of what may be asked for, as the address has them. */
const NAMES = [...FIELDS, ...TIMES].map(({ name }) => name as string).concat('decision')

/** What the address asks for. */
export function askedOf(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...query].filter(([name, value]) => NAMES.includes(name) && value !== ''))
}

/** Filters, kept in the address: a link leads to the same events. */
export function AuditFilters({ events }: { events: readonly string[] }) {
  const asked = askedOf(route.value.query)
  const [draft, setDraft] = useState<Record<string, string>>(asked)
  const set = (name: string, value: string): void => setDraft({ ...draft, [name]: value })
  const submit = (event: Event): void => {
    event.preventDefault()
    go('audit', [], Object.fromEntries(Object.entries(draft).filter(([, value]) => value.trim() !== '')))
  }
  return (
    <form class="card audit-filters" role="search" aria-label="Events of the audit" onSubmit={submit}>
      {FIELDS.map(({ name, label, hint }) => (
        <Field
          key={name}
          label={label}
          hint={hint}
          control={(attributes) => (
            <input
              {...attributes}
              class="input"
              autocomplete="off"
              spellcheck={false}
              list={name === 'event' ? 'audit-events' : undefined}
              value={draft[name] ?? ''}
              onInput={(event) => set(name, event.currentTarget.value)}
            />
          )}
        />
      ))}
      <datalist id="audit-events">
        {events.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <Field
        label="Decision"
        control={(attributes) => (
          <select
            {...attributes}
            class="input"
            value={draft['decision'] ?? ''}
            onChange={(event) => set('decision', event.currentTarget.value)}
          >
            <option value="">any</option>
            <option value="allow">allow</option>
            <option value="deny">deny</option>
          </select>
        )}
      />
      {TIMES.map(({ name, label }) => (
        <Field
          key={name}
          label={label}
          control={(attributes) => (
            <input
              {...attributes}
              class="input"
              type="datetime-local"
              step={1}
              value={localOf(draft[name])}
              onInput={(event) => set(name, isoOf(event.currentTarget.value))}
            />
          )}
        />
      ))}
      <div class="row audit-filters-foot">
        <button type="submit" class="button button-main">
          Search
        </button>
        <button type="button" class="button" onClick={() => (setDraft({}), go('audit'))}>
          Clear
        </button>
      </div>
    </form>
  )
}

/** The time of this place for the control, from that of the address, which is UTC. */
function localOf(iso: string | undefined): string {
  const time = new Date(iso ?? '')
  if (Number.isNaN(time.getTime())) return ''
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

function isoOf(local: string): string {
  const time = new Date(local)
  return Number.isNaN(time.getTime()) ? '' : time.toISOString()
}
