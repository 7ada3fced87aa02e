import type { Diagnostic, EffectiveCredential, EffectivePolicy, EffectiveRule, EffectiveSecret, Place } from './model.ts'
import type { Layer } from './layers.ts'
import { nearest } from './nearest.ts'
import { Credential, Rule, SecretEntry, type CredentialEntry, type RuleEntry, type SecretEntryShape } from './schema.ts'
import { parseSource } from './sources.ts'

/** Rules without `ports` are about these. */
const DEFAULT_PORTS: readonly number[] = [80, 443]

/**
 * Puts the layers together: lists add up, scalars of the later layer win, the same id twice is an error. Parts that are
 * not well-formed are left out; their errors are known already.
 */
export function assemble(layers: readonly Layer[]): { effective: EffectivePolicy; errors: Diagnostic[] } {
  const written = layers.flatMap((layer) =>
    entriesOf(
      layer,
      ['network', 'rules'],
      (entry) => Rule.safeParse(entry).data,
      (entry, from) => ({ entry, rule: toRule(entry, from) }),
    ),
  )
  const rules = written.map(({ rule }) => rule)
  const credentials = layers.flatMap((layer) =>
    entriesOf(layer, ['credentials'], (entry) => Credential.safeParse(entry).data, toCredential),
  )
  const secrets = layers.flatMap((layer) => entriesOf(layer, ['secrets'], (entry) => SecretEntry.safeParse(entry).data, toSecret))
  // Declared, but with an error of its own: not to be called undeclared on top.
  const badSecrets = new Set(layers.flatMap((layer) => namesOf(layer)))
  const errors = [
    ...twice('rule', rules, (rule) => rule.id),
    ...twice('credential', credentials, (credential) => credential.id),
    ...twice('secret', secrets, (secret) => secret.name),
    ...written.flatMap(({ entry, rule }) => ruleProblems(rule, entry)),
    ...credentials.flatMap((credential) => secretProblems(credential, secrets, badSecrets)),
  ]
  const modeLayer = layers.findLast((layer) => typeof at(layer.document.data, ['network', 'mode']) === 'string')
  return {
    effective: {
      files: layers.map((layer) => layer.file),
      mode: { value: 'restricted', ...(modeLayer && { from: modeLayer.document.placeOf(['network', 'mode']) }) },
      rules,
      credentials,
      secrets,
    },
    errors,
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

function entriesOf<E, T>(
  layer: Layer,
  path: readonly string[],
  parse: (entry: unknown) => E | undefined,
  make: (entry: E, from: Place) => T,
): T[] {
  const list = at(layer.document.data, path)
  if (!Array.isArray(list)) return []
  return list.flatMap((raw: unknown, index) => {
    const entry = parse(raw)
    return entry === undefined ? [] : [make(entry, layer.document.placeOf([...path, index]))]
  })
}

function at(data: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined),
    data,
  )
}

function namesOf(layer: Layer): unknown[] {
  const list = at(layer.document.data, ['secrets'])
  return Array.isArray(list) ? list.map((entry: unknown) => at(entry, ['name'])) : []
}

function toRule(entry: RuleEntry, from: Place): EffectiveRule {
  return {
    id: entry.id,
    host: entry.host,
    ports: entry.ports ?? DEFAULT_PORTS,
    protocol: 'http',
    ...(entry.methods && { methods: entry.methods }),
    ...(entry.paths && { paths: entry.paths }),
    action: entry.action,
    tls: entry.tls ?? 'intercept',
    ...(entry.upgrade && { upgrade: entry.upgrade }),
    plaintext: entry.plaintext ?? 'refuse',
    addresses: entry.addresses ?? [],
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

function twice<T extends { readonly from: Place }>(what: string, items: readonly T[], idOf: (item: T) => string): Diagnostic[] {
  const first = new Map<string, T>()
  return items.flatMap((item) => {
    const before = first.get(idOf(item))
    if (before === undefined) {
      first.set(idOf(item), item)
      return []
    }
    return [
      { ...item.from, message: `${what} "${idOf(item)}" stands at ${formatPlace(before.from)} already: give one of them another name` },
    ]
  })
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

/** Which uses a secret's `resources` may name is the schema's to say: there is only `inject` so far. */
function secretProblems(
  credential: EffectiveCredential,
  secrets: readonly EffectiveSecret[],
  declared: ReadonlySet<unknown>,
): Diagnostic[] {
  const names = secrets.map((entry) => entry.name)
  if (names.includes(credential.secret) || declared.has(credential.secret)) return []
  const near = nearest(credential.secret, names)
  const message = `credential "${credential.id}": secret "${credential.secret}" is not declared under secrets`
  return [{ ...credential.from, message: near === undefined ? message : `${message}: did you mean "${near}"?` }]
}
