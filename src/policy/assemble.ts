import type { Diagnostic, EffectiveCredential, EffectivePolicy, EffectiveRule, EffectiveSecret, Place } from './model.ts'
import { parseHostPattern, type HostPattern } from './hosts.ts'
import type { Layer } from './layers.ts'
import { Credential, Rule, SecretEntry, type CredentialEntry, type RuleEntry, type SecretEntryShape } from './schema.ts'
import { parseSource } from './sources.ts'

/** Rules without `ports` are about these. */
const DEFAULT_PORTS: readonly number[] = [80, 443]

/** Rules that have an error of their own, as far as they are known. */
export type Damage = {
  /** Without the fields that are wrong: good for what is said about single fields, never for what they match. */
  readonly rules: readonly EffectiveRule[]
  /** Hosts that they are about; `undefined` when one of them does not say. */
  readonly hosts: readonly HostPattern[] | undefined
}

/**
 * Puts the layers together: lists add up, scalars of the later layer win. Parts that are not well-formed are left out;
 * their errors are known already.
 */
export function assemble(layers: readonly Layer[]): { effective: EffectivePolicy; errors: Diagnostic[]; damage: Damage } {
  const written = layers.flatMap((layer) => entriesOf(layer, ['network', 'rules']))
  const read = written.map(({ raw, from }) => ({ raw, from, entry: Rule.safeParse(raw).data }))
  const rules = read.flatMap(({ entry, from }) => (entry === undefined ? [] : [{ entry, rule: toRule(entry, from) }]))
  const damaged = read.filter(({ entry }) => entry === undefined)
  const kept = damaged.flatMap(({ raw, from }) => {
    const entry = salvageRule(raw)
    return entry === undefined ? [] : [{ entry, rule: toRule(entry, from) }]
  })
  const hosts = damaged.map(({ raw }) => hostOf(raw))
  const isList = layers.every((layer) => isListOrNone(valueAt(layer.document.data, ['network', 'rules'])))
  const modeLayer = layers.findLast((layer) => typeof valueAt(layer.document.data, ['network', 'mode']) === 'string')
  return {
    effective: {
      files: layers.map((layer) => layer.file),
      mode: { value: 'restricted', ...(modeLayer && { from: modeLayer.document.placeOf(['network', 'mode']) }) },
      lease: { value: 'optional' },
      rules: rules.map(({ rule }) => rule),
      routes: [],
      credentials: layers.flatMap((layer) =>
        entriesOf(layer, ['credentials']).flatMap(({ raw, from }) => {
          const entry = Credential.safeParse(raw).data
          return entry === undefined ? [] : [toCredential(entry, from)]
        }),
      ),
      secrets: layers.flatMap((layer) =>
        entriesOf(layer, ['secrets']).flatMap(({ raw, from }) => {
          const entry = SecretEntry.safeParse(raw).data
          return entry === undefined ? [] : [toSecret(entry, from)]
        }),
      ),
    },
    errors: [...rules, ...kept].flatMap(({ entry, rule }) => ruleProblems(rule, entry)),
    damage: {
      rules: kept.map(({ rule }) => rule),
      hosts: isList && hosts.every((host) => host !== undefined) ? hosts : undefined,
    },
  }
}

/** `file:line`, as messages name a place. */
export function formatPlace(place: Place): string {
  return place.line === 0 ? place.file : `${place.file}:${place.line}`
}

/** `file:line: message`. */
export function formatDiagnostic(diagnostic: Diagnostic): string {
  return `${formatPlace(diagnostic)}: ${diagnostic.message}`
}

/** The entries of a list of a file, each with its place; none where there is no list. */
export function entriesOf(layer: Layer, path: readonly string[]): { raw: unknown; from: Place }[] {
  const list = valueAt(layer.document.data, path)
  if (!Array.isArray(list)) return []
  return list.map((raw: unknown, index) => ({ raw, from: layer.document.placeOf([...path, index]) }))
}

/** What stands at a path of keys, or `undefined`. */
export function valueAt(data: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined,
    data,
  )
}

/** False for what should be a list and is none: its entries are unknown. */
export function isListOrNone(value: unknown): boolean {
  return value === undefined || Array.isArray(value)
}

/** A rule without the fields that are wrong, where id, host and action are right. */
function salvageRule(raw: unknown): RuleEntry | undefined {
  const { error } = Rule.safeParse(raw)
  if (typeof raw !== 'object' || raw === null || error === undefined) return undefined
  const wrong = new Set(error.issues.flatMap((issue) => (issue.code === 'unrecognized_keys' ? issue.keys : issue.path.slice(0, 1))))
  return Rule.safeParse(Object.fromEntries(Object.entries(raw).filter(([key]) => !wrong.has(key)))).data
}

function hostOf(raw: unknown): HostPattern | undefined {
  const text = valueAt(raw, ['host'])
  const host = typeof text === 'string' ? parseHostPattern(text) : undefined
  return typeof host === 'string' ? undefined : host
}

function toRule(entry: RuleEntry, from: Place): EffectiveRule {
  return {
    id: entry.id,
    host: entry.host,
    ports: entry.ports ?? DEFAULT_PORTS,
    protocol: entry.action === 'allow' || entry.methods || entry.paths ? 'http' : 'any',
    ...(entry.methods && { methods: entry.methods }),
    ...(entry.paths && { paths: entry.paths }),
    action: entry.action,
    tls: entry.tls ?? 'intercept',
    ...(entry.upgrade && { upgrade: entry.upgrade }),
    plaintext: entry.plaintext ?? 'refuse',
    addresses: entry.addresses ?? [],
    plane: 'agent',
    from,
  }
}

function toCredential(entry: CredentialEntry, from: Place): EffectiveCredential {
  const { inject } = entry
  return {
    id: entry.id,
    secret: entry.secret,
    place: inject.basic
      ? { kind: 'basic', username: inject.basic.username }
      : { kind: 'header', header: inject.header ?? '', prefix: inject.prefix ?? '' },
    domains: inject.domains,
    ...(inject.methods && { methods: inject.methods }),
    ...(inject.paths && { paths: inject.paths }),
    from,
  }
}

function toSecret(entry: SecretEntryShape, from: Place): EffectiveSecret {
  const source = parseSource(entry.source)
  if (typeof source === 'string') throw new Error(source) // the schema has refused it before
  return { name: entry.name, source, ...(entry.resources && { resources: entry.resources }), from }
}

/** What contradicts itself within one rule. */
function ruleProblems(rule: EffectiveRule, written: RuleEntry): Diagnostic[] {
  const { from } = rule
  const say = (message: string): Diagnostic => ({ ...from, message: `rule "${rule.id}": ${message}` })
  if (rule.action !== 'allow') {
    const idle = (['tls', 'upgrade', 'plaintext', 'addresses'] as const).filter((key) => written[key] !== undefined)
    return idle.map((key) => say(`${key} has no effect on a rule that does not allow (action: ${rule.action}): remove it`))
  }
  const found: Diagnostic[] = []
  if (rule.tls === 'passthrough') {
    const inside = (['methods', 'paths', 'upgrade'] as const).filter((key) => written[key] !== undefined)
    found.push(...inside.map((key) => say(`${key} cannot be enforced inside a passthrough tunnel: use tls: intercept, or remove ${key}`)))
  }
  if (rule.upgrade !== undefined && rule.tls !== 'passthrough') {
    if (rule.ports.includes(80) && !rule.ports.includes(443)) found.push(say('upgrade: https sends port 80 to 443: add 443 to ports'))
    if (rule.ports.includes(443) && !rule.ports.includes(80))
      found.push(say('upgrade: https is for plain http, which comes to port 80: add 80 to ports'))
    if (rule.plaintext === 'accept') found.push(say('plaintext: accept has no effect with upgrade: https: remove one of them'))
  }
  return found
}
