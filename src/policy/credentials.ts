import type { Hostname } from '../kernel/hostname.ts'
import { createHostIndex, hostSpecificity, parseHostPattern, type HostPattern } from './hosts.ts'
import type { CredentialBinding, EffectiveCredential, Policy } from './model.ts'
import { createPathIndex, type PathIndex } from './path-index.ts'
import { parsePathPattern, pathOf, pathProblem, pathsOverlap, splitPath, type PathPattern } from './paths.ts'
import { parsed } from './ranking.ts'

/** A credential for one of its domains and one of its paths. */
export type CredentialPart = {
  readonly credential: EffectiveCredential
  readonly domain: string
  readonly host: HostPattern
  readonly path: PathPattern | undefined
  readonly methods: ReadonlySet<string> | undefined
}

type HostCredentials = { hasPaths: boolean; readonly parts: PathIndex<CredentialPart & { readonly binding: CredentialBinding }> }

export type CredentialSet = {
  readonly credentialFor: Policy['credentialFor']
  /** Whether a credential for this host depends on the path. */
  readonly seePaths: (host: Hostname) => boolean
}

/** Compiles credentials so that the most specific one wins: by host, then path, then methods. */
export function compileCredentials(parts: readonly CredentialPart[], bindings: ReadonlyMap<string, CredentialBinding>): CredentialSet {
  const hosts = createHostIndex<HostCredentials>()
  for (const part of parts.toSorted(compareParts)) {
    const binding = bindings.get(part.credential.id)
    if (binding === undefined) continue
    const entry = hosts.at(part.host, () => ({ hasPaths: false, parts: createPathIndex() }))
    if (part.path !== undefined) entry.hasPaths = true
    entry.parts.add(part.path, { ...part, binding })
  }
  const seePaths = (host: Hostname): boolean => {
    let sees = false
    hosts.each(host, (entry) => {
      sees ||= entry.hasPaths
    })
    return sees
  }
  return {
    seePaths,
    credentialFor(facts, only) {
      let segments: readonly string[] | undefined
      if (seePaths(facts.host)) {
        const path = pathOf(facts.path)
        // Such a request is refused before it gets here; to be sure, no credential goes on a path with two readings.
        if (pathProblem(path) !== undefined) return undefined
        segments = splitPath(path)
      }
      let best: CredentialBinding | undefined
      hosts.each(facts.host, (entry) => {
        best ??= entry.parts.find(
          segments,
          ({ methods, binding }) => (only === undefined || binding.id === only) && (methods === undefined || methods.has(facts.method)),
        )?.item.binding
      })
      return best
    },
  }
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
  if (a.domain !== b.domain || compareParts(a, b) !== 0) return false
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
