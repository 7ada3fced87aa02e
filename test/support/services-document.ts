import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describePlace } from '../../src/policy/describe.ts'
import type { EffectiveCredential, Policy } from '../../src/policy/policy.ts'
import { isTemplate, presetPolicy, SERVICES, type ServicePresets } from './service-presets.ts'
import { ROOT } from './tree.ts'

export const SERVICES_DOCUMENT = join(ROOT, 'docs/SERVICES.md')

const HEAD = `# Services

What there is ready for services that agents use: \`extends: [service/NAME]\` brings what reads, \`service/NAME-write\` also what writes. Each
is a commented file in [policies/service](../policies/service), and its head says which secrets to declare, what kind of token to
make, and what the agent needs. This page is made from them by \`node test/support/services-document.ts\`, and a contract test holds it to them.

\`\`\`yaml
version: 1
extends: [service/github, service/npm]
secrets:
  - {name: GITHUB_TOKEN, source: "file:/run/secrets/GITHUB_TOKEN", resources: [inject]}
\`\`\`

- **A preset declares no secret**: where the value comes from is yours to say, and a missing one is an error that names it.
- **The agent holds worthless values.** Of a placeholder the gate gives it to the agent by itself, in the variable of the table and in
  the files that programs read (\`.netrc\`, \`.pypirc\`, docker's). Where a credential is simply written, any text will do for the
  program to start with.
- **No credential goes to hosts that are only redirected to** (stores, CDNs): their URLs are signed, and they refuse a second login.
- **What is missing is refused.** Write presets name what an agent's work needs; what moves money, reaches people, runs code with secrets or
  deletes is asked about (refused while nobody is there to ask), and what manages users, keys and access is in none of them.
- **The token is the limit that holds.** Rules see the host, the method and the path, not the query and the body: where one path reads and
  writes (GraphQL, AWS' one-path services), there is one preset, and a token that may only read makes it read.
- **A template** leads nowhere until it is copied and filled in: its host is your own site, bucket or resource.

`

const COLUMNS = ['service', 'kind', 'hosts with the credential', 'hosts without', 'read preset', 'write preset', 'placeholder'] as const

/** docs/SERVICES.md as the presets have it. */
export function servicesDocument(): string {
  const rows = SERVICES.map((service) => rowOf(service))
  return `${HEAD}| ${COLUMNS.join(' | ')} |\n|${'---|'.repeat(COLUMNS.length)}\n${rows.map((row) => `| ${row.join(' | ')} |\n`).join('')}`
}

function rowOf({ service, read, write }: ServicePresets): string[] {
  const widest = presetPolicy(write ?? read ?? service)
  const { credentials } = widest.effective
  const withCredential = new Set(credentials.flatMap(({ domains }) => domains))
  const opened = widest.effective.rules.filter(({ action }) => action !== 'deny').map(({ host }) => host)
  const without = new Set(opened.filter((host) => !withCredential.has(host)))
  const template = isTemplate(write ?? read ?? service) ? ' (template)' : ''
  return [
    service + template,
    listed(new Set(credentials.map(kindOf))),
    listed(withCredential),
    listed(without),
    presetCell(read),
    presetCell(write),
    listed(new Set(widest.placeholders.map(({ name }) => name))),
  ]
}

function presetCell(name: string | undefined): string {
  if (name === undefined) return '–'
  const policy = presetPolicy(name)
  const notes = [policy.credentials.length === 0 ? 'no credential' : '', asks(policy) ? 'some asks' : ''].filter(Boolean)
  return `[\`service/${name}\`](../policies/service/${name}.yaml)${notes.length === 0 ? '' : `, ${notes.join(', ')}`}`
}

function asks(policy: Policy): boolean {
  return policy.effective.rules.some(({ action }) => action === 'ask')
}

function kindOf({ place, also }: EffectiveCredential): string {
  if (place.kind === 'aws') return 'aws signature'
  // The name of a placeholder has a column of its own.
  const words = describePlace(place).replace(/^placeholder \S+ in /, 'placeholder in ')
  return [words, ...also.map((field) => describePlace(field.place))].join(', ')
}

function listed(items: ReadonlySet<string>): string {
  return items.size === 0 ? '–' : [...items].map((item) => `\`${item}\``).join('<br>')
}

if (import.meta.main) writeFileSync(SERVICES_DOCUMENT, servicesDocument())
