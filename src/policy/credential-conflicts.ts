import { formatPlace } from './assemble.ts'
import type { Findings } from './coverage.ts'
import { partsTie, placeholdersOf, type CredentialPart } from './credentials.ts'
import { matchesHost, parseHostPattern } from './hosts.ts'
import { isHostname, parseHostname } from '../kernel/hostname.ts'
import { sayOf } from './lints.ts'
import type { Diagnostic, EffectiveCredential } from './model.ts'

/** What credentials contradict in each other. */
export function findCredentialConflicts(credentials: readonly EffectiveCredential[], parts: readonly CredentialPart[]): Findings {
  return {
    errors: [...findTies(parts), ...findShapes(credentials), ...findFiles(credentials)],
    warnings: credentials.flatMap((credential) => lintFile(credential, credentials)),
  }
}

function findTies(parts: readonly CredentialPart[]): Diagnostic[] {
  const errors: Diagnostic[] = []
  // That of an MCP server goes by its own route alone.
  const byDomain = Map.groupBy(
    parts.filter(({ credential }) => credential.ofServer === undefined),
    (part) => part.domain,
  )
  const told = new Set<string>()
  for (const [domain, group] of byDomain) {
    for (const [index, b] of group.entries()) {
      const a = group.slice(0, index).find((other) => other.credential.id !== b.credential.id && partsTie(other, b))
      const pair = a && JSON.stringify([a.credential.id, b.credential.id])
      if (a === undefined || pair === undefined || told.has(pair)) continue
      told.add(pair)
      const where = b.path === undefined ? domain : `${domain}${b.path.text}`
      const { place } = b.credential
      const what = place.kind === 'placeholder' ? `placeholder ${place.name} at ${where}` : where
      errors.push({
        ...b.credential.from,
        message: `credential "${b.credential.id}" and ${named(a.credential)} are both for ${what}, and neither is more specific: narrow one by paths or methods`,
      })
    }
  }
  return errors
}

/** A variable of the agent has one value. */
function findShapes(credentials: readonly EffectiveCredential[]): Diagnostic[] {
  const first = new Map<string, { readonly shape: string; readonly credential: EffectiveCredential }>()
  return credentials.flatMap((credential) =>
    placeholdersOf([credential]).flatMap(({ name, shape }) => {
      const before = first.get(name)
      if (before === undefined) first.set(name, { shape, credential })
      if (before === undefined || before.shape === shape) return []
      return [
        sayOf(
          'credential',
          credential,
          `placeholder ${name} has shape "${shape}" here and "${before.shape}" in ${named(before.credential)}: a variable has one value, so write the same`,
        ),
      ]
    }),
  )
}

/** A program finds one entry for a server in its file. */
function findFiles(credentials: readonly EffectiveCredential[]): Diagnostic[] {
  const first = new Map<string, EffectiveCredential>()
  return credentials.flatMap((credential) => {
    const { file, place } = credential
    if (file === undefined || place.kind !== 'placeholder') return []
    const key = JSON.stringify([file.kind, file.server])
    const before = first.get(key)
    if (before === undefined) {
      first.set(key, credential)
      return []
    }
    const isSame = before.place.kind === 'placeholder' && before.place.name === place.name && before.file?.login === file.login
    return isSame
      ? []
      : [
          sayOf(
            'credential',
            credential,
            `${file.kind} has "${file.server}" from ${named(before)} already: a program would read one of them`,
          ),
        ]
  })
}

/** A file that leads its program to a host where the placeholder is not swapped. Docker's names the registry, and its login goes to another host. */
function lintFile(credential: EffectiveCredential, all: readonly EffectiveCredential[]): Diagnostic[] {
  const { file, place } = credential
  if (file === undefined || place.kind !== 'placeholder' || file.kind === 'docker') return []
  const host = parseHostname(/^(?:https?:\/\/)?([^/:]+)/.exec(file.server)?.[1] ?? '')
  const isBound =
    isHostname(host) &&
    all.some(
      (other) =>
        other.place.kind === 'placeholder' &&
        other.place.name === place.name &&
        other.domains.some((domain) => {
          const pattern = parseHostPattern(domain)
          return typeof pattern !== 'string' && matchesHost(pattern, host)
        }),
    )
  if (isBound) return []
  return [
    sayOf(
      'credential',
      credential,
      `${file.kind} is for "${file.server}", where no credential swaps ${place.name}: what its program sends there is refused`,
    ),
  ]
}

function named({ id, from }: EffectiveCredential): string {
  return `credential "${id}" (${formatPlace(from)})`
}
