import type { PolicyEdit } from '../../wire/policies.ts'
import { Field } from '../parts/field.tsx'

const PLACES = {
  header: 'a header',
  basic: 'user and password (basic)',
  query: 'a parameter of the URL',
  placeholder: 'a placeholder',
} as const
type Place = keyof typeof PLACES

/** A credential as it is typed. */
export type Hosts = {
  readonly id: string
  readonly domains: string
  readonly methods: string
  readonly paths: string
  readonly place: Place
  readonly header: string
  readonly prefix: string
  readonly username: string
  readonly query: string
  readonly placeholder: string
}

export function beginHosts(key: string): Hosts {
  const id = key
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
  const rest = { domains: '', methods: '', paths: '', place: 'header', header: 'Authorization', prefix: 'Bearer ' } as const
  return { id, ...rest, username: '', query: '', placeholder: key.replaceAll(/[^A-Za-z0-9_]/g, '_') }
}

export function problemOfHosts({ id, domains, place, ...hosts }: Hosts): string | undefined {
  if (id.trim() === '') return 'The credential needs a name.'
  if (wordsOf(domains).length === 0) return 'Name the hosts that get it.'
  const wanted = { header: hosts.header, basic: hosts.username, query: hosts.query, placeholder: hosts.placeholder }[place]
  return wanted.trim() === '' ? `Say which: ${PLACES[place]}.` : undefined
}

/** The rest is judged where it is written: by the policy as a whole. */
export function editOfHosts(
  key: string,
  { id, domains, methods, paths, place, header, prefix, username, query, placeholder }: Hosts,
): PolicyEdit {
  const kinds = {
    header: { header: header.trim(), ...(prefix !== '' && { prefix }) },
    basic: { basic: { username: username.trim() } },
    query: { query: query.trim() },
    placeholder: { placeholder: placeholder.trim() },
  }
  const inject = {
    domains: wordsOf(domains),
    ...(wordsOf(methods).length > 0 && { methods: wordsOf(methods) }),
    ...(wordsOf(paths).length > 0 && { paths: wordsOf(paths) }),
    ...kinds[place],
  }
  return { kind: 'credential', secrets: [{ name: key, source: `vault:${key}` }], credential: { id: id.trim(), inject } }
}

function wordsOf(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '')
}

/** Hosts, and where in a request the value stands. */
export function HostsFields({ hosts, onChange }: { hosts: Hosts; onChange: (hosts: Hosts) => void }) {
  const field = (name: Exclude<keyof Hosts, 'place'>, label: string, hint?: string) => (
    <Field
      label={label}
      hint={hint}
      control={(attributes) => (
        <input
          {...attributes}
          class="input mono"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          value={hosts[name]}
          onInput={(event) => onChange({ ...hosts, [name]: event.currentTarget.value })}
        />
      )}
    />
  )
  return (
    <div class="vault-hosts">
      {field('id', 'Name of the credential', 'It stands in the audit.')}
      {field('domains', 'Hosts', 'The fewer the better, with a space between them: api.example.com')}
      <Field
        label="Written into"
        control={(attributes) => (
          <select
            {...attributes}
            class="input"
            value={hosts.place}
            onChange={(event) => onChange({ ...hosts, place: event.currentTarget.value as Place })}
          >
            {Object.entries(PLACES).map(([name, label]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        )}
      />
      {hosts.place === 'header' && field('header', 'Header')}
      {hosts.place === 'header' && field('prefix', 'Before the value', '"Bearer " ends with a space.')}
      {hosts.place === 'basic' && field('username', 'User')}
      {hosts.place === 'query' && field('query', 'Parameter')}
      {hosts.place === 'placeholder' && field('placeholder', 'Variable', 'The agent has a worthless value in it.')}
      {field('methods', 'Methods', 'Any, where none is named.')}
      {field('paths', 'Paths', 'Any, where none is named: /v1/**')}
      <p class="quiet small vault-wide">A rule has to allow these hosts as well: a service that is known brings its own.</p>
    </div>
  )
}
