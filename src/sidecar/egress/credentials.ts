import {
  describePlace,
  isListed,
  readAwsSignature,
  type Found,
  type FoundPlace,
  type Head,
  type Placeholders,
} from '../../credential/credential.ts'
import { SallyportError, type Refusal } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import type { AllowedRule, CredentialBinding, Facts, Policy } from '../../policy/policy.ts'
import { foldName } from '../../wire/credential-fields.ts'
import type { SwapPlace } from '../../wire/credential.ts'
import { isPresigned } from './facts.ts'
import { fieldPart, findOwn, nameOf, pairPart, pairsOf, type Ours } from './own-credentials.ts'

/** What becomes of the credentials of one request, settled before anything is audited: names, no values. */
export type CredentialPlan = {
  /** The credential that the gate writes. */
  readonly written: CredentialBinding | undefined
  /** Those whose placeholders stand in the head, each where it may. */
  readonly swapped: readonly CredentialBinding[]
  /** Every credential that goes out with the request: the written one and those swapped. */
  readonly used: readonly CredentialBinding[]
  /** Those whose placeholders may stand in the body. */
  readonly inBody: readonly CredentialBinding[]
  /** What happens to credentials of the agent's own; `undefined` when it sent none. */
  readonly own: 'dropped' | 'passed' | undefined
  /** The credential of the request is known, and not written because of this. The place where it would be is not the agent's either. */
  readonly withheld: string | undefined
  /** What is bound to the request, written or not: its places are not the agent's. */
  readonly bound: CredentialBinding | undefined
  /** Parts of the head with a placeholder in them. */
  readonly ours: Ours
}

/** The head as it would go on, and what is decided about it. */
export type PlannedRequest = {
  /** As it leaves: with the scheme and port of the upstream. */
  readonly facts: Facts
  readonly headers: readonly string[]
  readonly rule: AllowedRule
  /** Of a route: the only credential that its requests may carry, `null` for none. */
  readonly only: string | null | undefined
}

/**
 * I5, I23: which credential is written, which placeholders are swapped, and what of the agent's own goes on. A placeholder in
 * any place that is not listed for this host refuses the request.
 */
export function planCredentials(policy: Policy, placeholders: Placeholders, request: PlannedRequest): CredentialPlan | Refusal {
  const { facts, headers, rule, only } = request
  const bound = only === null ? undefined : policy.credentialFor(facts, only)
  const why = withheldBecause(facts, rule)
  const swappable = only === null ? [] : policy.placeholdersFor(facts, only)
  const swaps = findSwaps(placeholders, request, bound, swappable, why)
  if ('code' in swaps) return swaps
  const own = findOwn({ path: facts.path, headers }, bound, swaps.ours)
  const keepsOwn = rule.ownCredentials === 'pass' || (rule.ownCredentials === undefined && bound === undefined)
  // What is signed with the placeholder is ours to sign, whatever stands beside it.
  const isSigned = bound?.place.kind === 'aws' && [...swaps.ours].some((part) => part.startsWith(fieldPart('Authorization', '')))
  // The agent's own in place of ours, where the rule leaves it the choice.
  const isReplaced = keepsOwn && own.isAuthorizing && !isSigned
  const unsigned = bound && why === undefined && !isReplaced ? refuseSignature(bound, headers, placeholders) : undefined
  if (unsigned) return unsigned
  if (rule.ownCredentials === 'deny' && own.names.length > 0) {
    return {
      code: 'own_credentials_refused',
      message: `the request carries a credential of its own (${own.names.join(', ')})`,
      hint: 'send it without: the gate writes the credential that the policy binds to this host',
      rule: rule.id,
    }
  }
  const withheld = why !== undefined && bound && !isReplaced ? `${why}: no credential added` : undefined
  const written = why === undefined && !isReplaced ? bound : undefined
  // What is written over does not go out, and the audit does not say that it did.
  const swapped =
    swaps.swapped.size === 0
      ? NONE
      : [...swaps.swapped].flatMap(([binding, places]) => (places.every((place) => isOverwritten(place, written)) ? [] : [binding]))
  return {
    written,
    swapped,
    used: usedBy(written, swapped),
    inBody:
      why === undefined && swappable.length > 0
        ? swappable.filter(({ place }) => placesOf(place).some(({ kind }) => kind === 'body'))
        : NONE,
    own: own.names.length === 0 ? undefined : keepsOwn && withheld === undefined ? 'passed' : 'dropped',
    withheld,
    bound,
    ours: swaps.ours,
  }
}

const NONE: readonly never[] = []

type Swaps = { readonly swapped: ReadonlyMap<CredentialBinding, readonly FoundPlace[]>; readonly ours: Ours }

const NO_SWAPS: Swaps = { swapped: new Map(), ours: new Set() }

/** Which placeholders of the head are swapped, or why one of them refuses the request. I23 */
function findSwaps(
  placeholders: Placeholders,
  { facts, headers }: PlannedRequest,
  bound: CredentialBinding | undefined,
  swappable: readonly CredentialBinding[],
  why: string | undefined,
): Swaps | Refusal {
  if (placeholders.isEmpty) return NO_SWAPS
  const swapped = new Map<CredentialBinding, FoundPlace[]>()
  const hidden = placeholders.inHostname(facts.host)
  if (hidden !== undefined) return misplaced(hidden, 'the name of a host')
  // HTTP/2 has any word for a method.
  const [said] = placeholders.find({ path: '/', headers: ['method', facts.method] })
  if (said !== undefined) return misplaced(said.name, 'the method')
  const found = placeholders.find({ path: facts.path, headers })
  for (const { name, place } of found) {
    if (why !== undefined) return misplaced(name, `a request that no credential goes with (${why})`)
    const isSigning = bound?.place.kind === 'aws' && name === AWS_KEY_ID
    if (isSigning && place.kind === 'header' && foldName(place.header) === 'authorization') continue
    const binding = swappable.find((entry) => entry.place.kind === 'placeholder' && entry.place.name === name)
    if (binding === undefined) return misplaced(name, `${describePlace(place)} of a request to ${facts.host}`)
    if (!isListed(placesOf(binding.place), place)) return misplaced(name, describePlace(place))
    swapped.set(binding, [...(swapped.get(binding) ?? []), place])
  }
  return { swapped, ours: partsWith(placeholders, found, { path: facts.path, headers }) }
}

/** Whether the credential that is written takes this place. */
function isOverwritten(found: FoundPlace, written: CredentialBinding | undefined): boolean {
  if (written === undefined) return false
  const field = found.kind === 'basic' ? 'authorization' : found.kind === 'header' ? foldName(found.header) : undefined
  return [written.place, ...written.also.map(({ place }) => place)].some((place) => {
    if (place.kind === 'query') return found.kind === 'query' && found.name === place.name
    return field !== undefined && field === (place.kind === 'basic' ? 'authorization' : place.kind === 'header' && foldName(place.header))
  })
}

/** The parts with what was found in them. Of two fields of one name one may be the agent's own. */
function partsWith(placeholders: Placeholders, found: readonly Found[], { path, headers }: Head): Ours {
  const ours = new Set<string>()
  const places = found.map(({ place }) => place)
  const fields = new Set(
    places.map((place) => foldName(place.kind === 'header' ? place.header : place.kind === 'basic' ? 'authorization' : '')),
  )
  for (let i = 0; i < headers.length && found.length > 0; i += 2) {
    const [name = '', value = ''] = headers.slice(i, i + 2)
    if (fields.has(foldName(name)) && placeholders.find({ path: '/', headers: [name, value] }).length > 0) ours.add(fieldPart(name, value))
  }
  const names = new Set(places.map((place) => (place.kind === 'query' ? place.name : undefined)))
  for (const pair of pairsOf(path)) {
    if (names.has(nameOf(pair)) && placeholders.find({ path: `/?${pair}`, headers: [] }).length > 0) ours.add(pairPart(pair))
  }
  return ours
}

/** The plan with what was found in the body besides. */
export function withSwapped(plan: CredentialPlan, more: readonly CredentialBinding[]): CredentialPlan {
  const swapped = [...new Set([...plan.swapped, ...more])]
  return { ...plan, swapped, used: usedBy(plan.written, swapped) }
}

function usedBy(written: CredentialBinding | undefined, swapped: readonly CredentialBinding[]): readonly CredentialBinding[] {
  return written === undefined || swapped.includes(written) ? swapped : [written, ...swapped]
}

/** Their ids joined by ",", or nothing for none. */
export function idsOf(used: readonly CredentialBinding[]): string | undefined {
  return used.length <= 1 ? used[0]?.id : used.map(({ id }) => id).join(',')
}

const writtenBy = new WeakMap<CredentialBinding, readonly string[]>()

/** Names of the secrets that a credential writes into requests. */
export function writtenNames(binding: CredentialBinding): readonly string[] {
  let names = writtenBy.get(binding)
  if (!names) {
    const { secret, place, also } = binding
    const more = place.kind === 'aws' ? [place.accessKeyId, ...(place.sessionToken === undefined ? [] : [place.sessionToken])] : []
    names = [...new Set([secret, ...more, ...also.map((entry) => entry.secret)])]
    writtenBy.set(binding, names)
  }
  return names
}

/** The variable in which AWS' programs look for the id of their key. */
const AWS_KEY_ID = 'AWS_ACCESS_KEY_ID'

/** What is signed for AWS is signed with the worthless key, for the region and service that the policy pins. */
function refuseSignature({ place }: CredentialBinding, headers: readonly string[], placeholders: Placeholders): Refusal | undefined {
  if (place.kind !== 'aws') return undefined
  const signature = readAwsSignature(headers)
  if ('problem' in signature)
    return unsignable(
      `the request cannot be signed anew: ${signature.problem}`,
      'sign it with the placeholder key by AWS Signature Version 4',
    )
  if (signature.accessKeyId !== placeholders.values[AWS_KEY_ID])
    return unsignable('the request is not signed with the placeholder key', `set ${AWS_KEY_ID} to the placeholder`)
  if (signature.region === place.region && signature.service === place.service) return undefined
  return unsignable(
    `the request is signed for ${shown(signature.service)} in ${shown(signature.region)}`,
    `the policy has this credential for ${place.service} in ${place.region}`,
  )
}

function unsignable(problem: string, hint: string): Refusal {
  return { code: 'aws_signature_refused', message: problem, hint }
}

/** The places of a placeholder; none for other kinds. */
export function placesOf(place: CredentialBinding['place']): readonly SwapPlace[] {
  return place.kind === 'placeholder' ? place.places : []
}

const HINT = 'it is worth nothing but at its own hosts, in the places that the policy lists'

/** The refusal of a placeholder that stands where it is not swapped. Names alone, never the value. */
export function misplaced(name: string, where: string): Refusal {
  return {
    code: 'placeholder_misplaced',
    message: `the placeholder ${name} stands in ${shown(where)}, where the policy does not swap it`,
    hint: HINT,
  }
}

/** The same as an error, for what is under way. */
export function misplacedIn(where: 'the body' | 'a trailer'): SallyportError {
  return new SallyportError('placeholder_misplaced', `a placeholder stands in ${where}, where the policy does not swap it`, {
    hint: HINT,
  })
}

/** Why no credential goes with a request. I5: it leaves over verified TLS, or where the rule takes plain text. */
function withheldBecause({ scheme, path }: Facts, rule: AllowedRule): string | undefined {
  if (scheme === 'http' && !rule.plaintext) return 'plaintext'
  return isPresigned(path) ? 'presigned' : undefined
}
