import type { Hostname } from '../kernel/hostname.ts'
import { LIMITS } from '../kernel/limits.ts'
import { memo } from '../kernel/memo.ts'
import { createHostIndex, hostSpecificity, parseHostPattern, type HostPattern } from './hosts.ts'
import type { CredentialPlace } from '../wire/credential.ts'
import type { CredentialBinding, EffectiveCredential, Facts, PlaceholderDefinition, Policy } from './model.ts'
import { createPathIndex, type PathIndex } from './path-index.ts'
import { parsePathPattern, pathOf, pathProblem, pathsOverlap, splitPath, type PathPattern, type PathSegments } from './paths.ts'
import { parsed } from './ranking.ts'

/** A credential for one of its domains and one of its paths. */
export type CredentialPart = {
  readonly credential: EffectiveCredential
  readonly domain: string
  readonly host: HostPattern
  readonly path: PathPattern | undefined
  readonly methods: ReadonlySet<string> | undefined
}

type BoundPart = CredentialPart & { readonly binding: CredentialBinding }

type HostCredentials = {
  hasPaths: boolean
  /** Those that are written into requests. */
  readonly written: PathIndex<BoundPart>
  /** Those that a placeholder is swapped for, by its name. */
  readonly swapped: Map<string, PathIndex<BoundPart>>
  readonly all: Set<CredentialBinding>
}

export type CredentialSet = Pick<Policy, 'credentialFor' | 'placeholdersFor' | 'credentialsOf'> & {
  /** Whether a credential for this host depends on the path. */
  readonly seePaths: (host: Hostname) => boolean
}

const NONE: readonly never[] = []

/**
 * Compiles credentials so that the most specific one wins: by host, then path, then methods.
 * @param routeOnly ids of those that only routes which name them may carry
 */
export function compileCredentials(
  parts: readonly CredentialPart[],
  bindings: ReadonlyMap<string, CredentialBinding>,
  routeOnly: ReadonlySet<string>,
): CredentialSet {
  const isFit = ({ id }: CredentialBinding, only: string | undefined): boolean => (only === undefined ? !routeOnly.has(id) : id === only)
  const hosts = createHostIndex<HostCredentials>()
  for (const part of parts.toSorted(compareParts)) {
    const binding = bindings.get(part.credential.id)
    if (binding !== undefined)
      addPart(
        hosts.at(part.host, () => ({ hasPaths: false, written: createPathIndex(), swapped: new Map(), all: new Set() })),
        { ...part, binding },
      )
  }
  const entriesOf = memo(LIMITS.textsKeptMax, LIMITS.textKeptCharsMax, (host: Hostname): readonly HostCredentials[] => {
    const found: HostCredentials[] = []
    hosts.each(host, (entry) => found.push(entry))
    return found
  })
  const credentialsOf = memo(LIMITS.textsKeptMax, LIMITS.textKeptCharsMax, (host: Hostname): readonly CredentialBinding[] => [
    ...new Set(entriesOf(host).flatMap(({ all }) => [...all])),
  ])
  return {
    seePaths: (host) => entriesOf(host).some(({ hasPaths }) => hasPaths),
    credentialFor(facts, only) {
      const entries = entriesOf(facts.host)
      if (entries.length === 0) return undefined
      const path = readPath(entries, facts)
      return path === UNREADABLE
        ? undefined
        : findFirst(
            entries.map(({ written }) => written),
            path,
            facts,
            (binding) => isFit(binding, only),
          )
    },
    placeholdersFor(facts, only) {
      const entries = entriesOf(facts.host).filter(({ swapped }) => swapped.size > 0)
      if (entries.length === 0) return NONE
      const path = readPath(entries, facts)
      if (path === UNREADABLE) return NONE
      const names = new Set(entries.flatMap(({ swapped }) => [...swapped.keys()]))
      return [...names].flatMap((name) => {
        const indexes = entries.flatMap(({ swapped }) => swapped.get(name) ?? [])
        return findFirst(indexes, path, facts, (binding) => isFit(binding, only)) ?? []
      })
    },
    credentialsOf,
  }
}

/** Every placeholder that some credential has, each once, in the order of the policy. */
export function placeholdersOf(credentials: readonly { readonly place: CredentialPlace }[]): PlaceholderDefinition[] {
  const found = new Map<string, PlaceholderDefinition>()
  for (const { place } of credentials) {
    if (place.kind === 'placeholder') found.set(place.name, { name: place.name, shape: place.shape })
    else if (place.kind === 'aws') for (const definition of AWS_PLACEHOLDERS) found.set(definition.name, definition)
  }
  return [...found.values()]
}

/** Which credentials compete: those that are written with each other, those for one placeholder with each other. */
export function rivalryOf({ place }: { readonly place: CredentialPlace }): string {
  return place.kind === 'placeholder' ? `placeholder ${place.name}` : 'written'
}

/** What the programs of AWS sign with, as long as real ones and of the same letters. */
const AWS_PLACEHOLDERS: readonly PlaceholderDefinition[] = [
  { name: 'AWS_ACCESS_KEY_ID', shape: 'AKIA<upper:16>' },
  { name: 'AWS_SECRET_ACCESS_KEY', shape: '<alnum:40>' },
]

function addPart(entry: HostCredentials, part: BoundPart): void {
  if (part.path !== undefined) entry.hasPaths = true
  entry.all.add(part.binding)
  const { place } = part.binding
  if (place.kind !== 'placeholder') {
    entry.written.add(part.path, part)
    return
  }
  const index = entry.swapped.get(place.name) ?? createPathIndex<BoundPart>()
  entry.swapped.set(place.name, index)
  index.add(part.path, part)
}

const UNREADABLE = Symbol('a path with two readings')

/** Segments where some credential looks at the path. Such a request is refused before it gets here; to be sure, no credential goes on it. */
function readPath(entries: readonly HostCredentials[], facts: Facts): PathSegments | undefined | typeof UNREADABLE {
  if (!entries.some(({ hasPaths }) => hasPaths)) return undefined
  const path = pathOf(facts.path)
  return pathProblem(path) === undefined ? splitPath(path) : UNREADABLE
}

/** @param indexes of the most specific host first */
function findFirst(
  indexes: readonly PathIndex<BoundPart>[],
  path: PathSegments | undefined,
  { method }: Facts,
  isFit: (binding: CredentialBinding) => boolean,
): CredentialBinding | undefined {
  for (const index of indexes) {
    const found = index.find(path, ({ methods, binding }) => isFit(binding) && (methods === undefined || methods.has(method)))
    if (found !== undefined) return found.item.binding
  }
  return undefined
}

/** One part for each domain and path of a credential. */
export function partsOf(credential: EffectiveCredential): CredentialPart[] {
  return credential.domains.flatMap((domain) =>
    (credential.paths ?? [undefined]).map((text) => ({
      credential,
      domain,
      host: parsed<HostPattern>(parseHostPattern(domain)),
      path: text === undefined ? undefined : parsed<PathPattern>(parsePathPattern(text)),
      methods: credential.methods && new Set(credential.methods),
    })),
  )
}

/** Whether two parts of different credentials are equally specific and meet in some request: then neither may win. */
export function partsTie(a: CredentialPart, b: CredentialPart): boolean {
  if (a.domain !== b.domain || compareParts(a, b) !== 0 || rivalryOf(a.credential) !== rivalryOf(b.credential)) return false
  if (a.methods && b.methods && a.methods.isDisjointFrom(b.methods)) return false
  return a.path === undefined || b.path === undefined || pathsOverlap(a.path, b.path)
}

/** Negative where `a` is more specific. */
function compareParts(a: CredentialPart, b: CredentialPart): number {
  const byHost = hostSpecificity(b.host) - hostSpecificity(a.host)
  if (byHost !== 0) return byHost
  const byPath = pathSpecificity(b.path) - pathSpecificity(a.path)
  return byPath === 0 ? Number(a.methods === undefined) - Number(b.methods === undefined) : byPath
}

function pathSpecificity(path: PathPattern | undefined): number {
  return path === undefined ? 0 : 2 * path.literalLength + (path.isLiteral ? 1 : 0)
}
