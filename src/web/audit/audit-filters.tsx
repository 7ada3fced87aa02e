import { useState } from 'preact/hooks'
import { Offers } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { go, route } from '../shell/route.ts'

type Filter = { readonly name: string; readonly label: string; readonly hint?: string }

const FIRST: readonly Filter[] = [
  { name: 'text', label: 'Search' },
  { name: 'session', label: 'Session' },
  { name: 'event', label: 'Event' },
]
const FURTHER: readonly Filter[] = [
  { name: 'workspace', label: 'Workspace' },
  { name: 'host', label: 'Host', hint: '*.example.com: those below' },
  { name: 'code', label: 'Code' },
]

const TIMES = [
  { name: 'since', label: 'From' },
  { name: 'until', label: 'To' },
] as const

/** The names of what may be asked for, as the address has them. */
const NAMES: ReadonlySet<string> = new Set([...FIRST, ...FURTHER, ...TIMES].map(({ name }) => name).concat('decision'))

/** What the address asks for. */
export function askedOf(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...query].filter(([name, value]) => NAMES.has(name) && value !== ''))
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
      {FIRST.map((one) => (
        <Text key={one.name} of={one} value={draft[one.name]} onChange={(value) => set(one.name, value)} />
      ))}
      <Offers id="audit-events" values={events} />
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
      <div class="row audit-filters-foot">
        <button type="submit" class="button button-main">
          Search
        </button>
        <button type="button" class="button" onClick={() => (setDraft({}), go('audit'))}>
          Clear
        </button>
      </div>
      <details open={[...FURTHER, ...TIMES].some(({ name }) => asked[name] !== undefined)}>
        <summary>More</summary>
        <div>
          {FURTHER.map((one) => (
            <Text key={one.name} of={one} value={draft[one.name]} onChange={(value) => set(one.name, value)} />
          ))}
          {TIMES.map(({ name, label }) => (
            <Time key={name} label={label} value={draft[name]} onChange={(value) => set(name, value)} />
          ))}
        </div>
      </details>
    </form>
  )
}

function Text({ of, value, onChange }: { of: Filter; value: string | undefined; onChange: (value: string) => void }) {
  return (
    <Field
      label={of.label}
      hint={of.hint}
      control={(attributes) => (
        <input
          {...attributes}
          class="input"
          autocomplete="off"
          spellcheck={false}
          list={of.name === 'event' ? 'audit-events' : undefined}
          value={value ?? ''}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    />
  )
}

function Time(props: { label: string; value: string | undefined; onChange: (value: string) => void }) {
  return (
    <Field
      label={props.label}
      control={(attributes) => (
        <input
          {...attributes}
          class="input"
          type="datetime-local"
          step={1}
          value={localOf(props.value)}
          onInput={(event) => props.onChange(isoOf(event.currentTarget.value))}
        />
      )}
    />
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
