import { describePlace, isListed, readAwsSignature, type Placeholders } from '../../credential/credential.ts'
import { SallyportError, type Refusal } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import type { AllowedRule, CredentialBinding, Facts, Policy } from '../../policy/policy.ts'
import { foldName } from '../../wire/credential-fields.ts'
import type { SwapPlace } from '../../wire/credential.ts'
import { isPresigned } from './facts.ts'
import { findOwn } from './own-credentials.ts'

/** What becomes of the credentials of one request, settled before anything is audited: names, no values. */
export type CredentialPlan = {
  /** The credential that the gate writes. */
  readonly written: CredentialBinding | undefined
  /** Those whose placeholders stand in the head, each where it may. */
  readonly swapped: readonly CredentialBinding[]
  /** Those whose placeholders may stand in the body. */
  readonly inBody: readonly CredentialBinding[]
  /** What happens to credentials of the agent's own; `undefined` when it sent none. */
  readonly own: 'dropped' | 'passed' | undefined
  /** The credential of the request is known, and not written because of this. The place where it would be is not the agent's either. */
  readonly withheld: string | undefined
  /** What is bound to the request, written or not: its places are not the agent's. */
  readonly bound: CredentialBinding | undefined
  /** Fields with a placeholder that is swapped, as lenient servers read their names. */
  readonly fields: ReadonlySet<string>
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
  const own = findOwn({ path: facts.path, headers }, bound, swaps.fields)
  const keepsOwn = rule.ownCredentials === 'pass' || (rule.ownCredentials === undefined && bound === undefined)
  // What is signed with the placeholder is ours to sign, whatever stands beside it.
  const isSigned = bound?.place.kind === 'aws' && swaps.fields.has('authorization')
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
  return {
    written: why === undefined && !isReplaced ? bound : undefined,
    swapped: swaps.swapped,
    inBody: why === undefined ? swappable.filter(({ place }) => placesOf(place).some(({ kind }) => kind === 'body')) : [],
    own: own.names.length === 0 ? undefined : keepsOwn ? 'passed' : 'dropped',
    withheld: why !== undefined && bound && !isReplaced ? `${why}: no credential added` : undefined,
    bound,
    fields: swaps.fields,
  }
}

type Swaps = { readonly swapped: readonly CredentialBinding[]; readonly fields: ReadonlySet<string> }

/** Which placeholders of the head are swapped, or why one of them refuses the request. I23 */
function findSwaps(
  placeholders: Placeholders,
  { facts, headers }: PlannedRequest,
  bound: CredentialBinding | undefined,
  swappable: readonly CredentialBinding[],
  why: string | undefined,
): Swaps | Refusal {
  const swapped = new Set<CredentialBinding>()
  const fields = new Set<string>()
  if (placeholders.isEmpty) return { swapped: [], fields }
  const hidden = placeholders.inHostname(facts.host)
  if (hidden !== undefined) return misplaced(hidden, 'the name of a host')
  for (const { name, place } of placeholders.find({ path: facts.path, headers })) {
    if (why !== undefined) return misplaced(name, `a request that no credential goes with (${why})`)
    if (place.kind === 'header') fields.add(foldName(place.header))
    if (place.kind === 'basic') fields.add('authorization')
    const isSigning = bound?.place.kind === 'aws' && name === AWS_KEY_ID
    if (isSigning && place.kind === 'header' && foldName(place.header) === 'authorization') continue
    const binding = swappable.find((entry) => entry.place.kind === 'placeholder' && entry.place.name === name)
    if (binding === undefined) return misplaced(name, `${describePlace(place)} of a request to ${facts.host}`)
    if (!isListed(placesOf(binding.place), place)) return misplaced(name, describePlace(place))
    swapped.add(binding)
  }
  return { swapped: [...swapped], fields }
}

/** Every credential that goes out with a request of this plan. */
export function usedBy({ written, swapped }: CredentialPlan): readonly CredentialBinding[] {
  return written === undefined || swapped.includes(written) ? swapped : [written, ...swapped]
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

/** The same as an error, for a body that is under way. */
export function misplacedInBody(): SallyportError {
  return new SallyportError('placeholder_misplaced', 'a placeholder stands in the body, where the policy does not swap it', {
    hint: HINT,
  })
}

/** Why no credential goes with a request. I5: it leaves over verified TLS, or where the rule takes plain text. */
function withheldBecause({ scheme, path }: Facts, rule: AllowedRule): string | undefined {
  if (scheme === 'http' && !rule.plaintext) return 'plaintext'
  return isPresigned(path) ? 'presigned' : undefined
}
