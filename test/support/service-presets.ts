import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkPolicy, formatDiagnostic, loadPolicy, type Policy } from '../../src/policy/policy.ts'
import { writeFiles } from './policy.ts'
import { ROOT } from './tree.ts'

const POLICIES = join(ROOT, 'policies')
const FOLDER = join(POLICIES, 'service')

/** Every preset, as `github` and `github-write`. */
export const PRESETS: readonly string[] = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.yaml'))
  .map((file) => file.slice(0, -'.yaml'.length))
  .toSorted()

/** A service with its presets. Where reads and writes cannot be told apart there is one of them. */
export type ServicePresets = { readonly service: string; readonly read: string | undefined; readonly write: string | undefined }

export const SERVICES: readonly ServicePresets[] = [...new Set(PRESETS.map((name) => name.replace(/-write$/, '')))].map((service) => ({
  service,
  read: PRESETS.includes(service) ? service : undefined,
  write: PRESETS.includes(`${service}-write`) ? `${service}-write` : undefined,
}))

export function readPreset(name: string): string {
  return readFileSync(join(FOLDER, `${name}.yaml`), 'utf8')
}

/** The policy that the head of a preset says to write: what a user copies. */
export function policyInHead(name: string): string {
  const lines = /^# In your policy:\n#\n((?:# {3}.*\n)+)/m.exec(readPreset(name))?.[1]
  if (lines === undefined) throw new Error(`the head of service/${name} shows no policy`)
  return `version: 1\n${lines.replaceAll(/^# {3}/gm, '')}`
}

/** Its secrets' names, as the head declares them. */
export function secretsInHead(name: string): string[] {
  return [...policyInHead(name).matchAll(/\{name: ([A-Za-z0-9_]+),/g)].map((match) => match[1] ?? '')
}

/** The same policy with secrets from the environment. */
export function policyFromEnvironment(name: string): string {
  return policyInHead(name).replaceAll(/\{name: ([A-Za-z0-9_]+), source: "[^"]*"/g, '{name: $1, source: "env:$1"')
}

/** Templates as a user has filled them in: hosts without "invalid" behind them. In the form of a policy folder. */
export function filledTemplates(): Record<string, string> {
  return Object.fromEntries(PRESETS.filter(isTemplate).map((name) => [`service/${name}.yaml`, readPreset(name).replaceAll('.invalid', '')]))
}

export function isTemplate(name: string): boolean {
  return /^# .*\bA template\b/m.test(readPreset(name))
}

const loaded = new Map<string, Policy>()

/** The presets as the policies in their heads load them, all at once. Templates are filled in. */
export function presetPolicy(...names: readonly string[]): Policy {
  const known = loaded.get(names.join())
  if (known !== undefined) return known
  using files = writeFiles({
    ...filledTemplates(),
    ...Object.fromEntries(names.map((name) => [`${name}.yaml`, policyWithout(name, names)])),
  })
  const policy = loadPolicy(
    names.map((name) => files.at(`${name}.yaml`)),
    { policyDirs: [files.dir, POLICIES] },
  )
  loaded.set(names.join(), policy)
  return policy
}

/** Without the secrets that the policy of an earlier one declares. */
function policyWithout(name: string, names: readonly string[]): string {
  const known = new Set(names.slice(0, names.indexOf(name)).flatMap(secretsInHead))
  const kept = policyInHead(name)
    .split('\n')
    .filter((line) => !known.has(/\{name: ([A-Za-z0-9_]+),/.exec(line)?.[1] ?? ''))
  return kept.join('\n').replace(/^secrets:\n(?! )/m, '')
}

/** What the loader says of it as it stands. */
export function presetProblems(name: string): { errors: string[]; warnings: string[] } {
  using files = writeFiles({ 'policy.yaml': policyInHead(name) })
  const { errors, warnings } = checkPolicy([files.at('policy.yaml')], { policyDirs: [POLICIES] })
  return { errors: errors.map(formatDiagnostic), warnings: warnings.map(formatDiagnostic) }
}
