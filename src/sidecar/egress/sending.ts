import {
  applyCredential,
  needsBodyHash,
  payloadHashOf,
  setInBody,
  signAws,
  swapInBody,
  swapInHead,
  type Head,
  type TokenExchanges,
} from '../../credential/credential.ts'
import { SallyportError } from '../../kernel/errors.ts'
import type { Secret } from '../../kernel/secret.ts'
import { shown } from '../../kernel/shown.ts'
import type { CredentialBinding } from '../../policy/policy.ts'
import type { Agent } from './agent.ts'
import { misplacedIn, placesOf, writtenNames, type CredentialPlan } from './credentials.ts'
import type { Enforced } from './enforced.ts'
import type { Outgoing } from './forward.ts'
import { forwardedTrailers, valuesOf, withoutCredentials, type RawHeaders } from './headers.ts'
import { holdBody, type Held } from './held-body.ts'
import { withoutOwn } from './own-credentials.ts'

/** A whole body, its credentials not yet in it, and which placeholders it has. */
export type HeldBody = { readonly bytes: Buffer; readonly swapped: readonly CredentialBinding[] } & Disposable

/** False for nearly all requests: what goes with them has nothing to do with their body. */
export function mayNeedBody({ written, inBody }: CredentialPlan): boolean {
  return inBody.length > 0 || written?.place.kind === 'aws' || written?.place.kind === 'body'
}

/**
 * The body of a request whose credential is written into it or signs it; `undefined` for one that can be streamed. It counts as held
 * until it is disposed of. `headers` are those that go on: what says how a body is read may end at the gate (`Connection`).
 * @throws body_unfit, body_too_large, overloaded, head_timeout, agent_gone
 */
export async function holdForCredential(
  held: Held,
  enforced: Enforced,
  { plan, headers }: { readonly plan: CredentialPlan; readonly headers: RawHeaders },
  agent: Agent,
): Promise<HeldBody | undefined> {
  if (!isBodyNeeded(plan, headers)) return undefined
  const bytes = await holdBody(agent, held)
  const found = plan.inBody.length > 0 ? enforced.placeholders.inBody(bytes) : []
  return {
    bytes,
    swapped: plan.inBody.filter(({ place }) => place.kind === 'placeholder' && found.includes(place.name)),
    [Symbol.dispose]: () => void (held.bytes -= bytes.length),
  }
}

/**
 * Takes out what the agent must not send and puts in what it must not know. I1, I5: from here on a request may have a secret in
 * it. `head` is as it goes on but for credentials.
 * @throws secret_unavailable, token_exchange_failed, body_unfit, placeholder_misplaced, aws_signature_refused
 */
export function composeOutgoing(
  tokens: TokenExchanges,
  enforced: Enforced,
  request: OutgoingHead,
  plan: CredentialPlan,
  held: HeldBody | undefined,
): Outgoing | Promise<Outgoing> {
  const { written, swapped } = plan
  if (held || swapped.length > 0) return composeWithin(tokens, enforced, request, plan, held)
  if (!written) return outgoing(enforced, request.method, withoutOwnOf(request, plan), undefined)
  const secretOf = secretsAtHand(enforced, written)
  if (!secretOf) return composeWithin(tokens, enforced, request, plan, held)
  const sent = withoutOwnOf(request, plan)
  return outgoing(enforced, request.method, write(request.method, sent, written, secretOf, undefined), undefined)
}

/** Most credentials are one value that is there: nothing is waited for. */
function secretsAtHand({ secrets }: Enforced, binding: CredentialBinding): SecretOf | undefined {
  if (binding.exchange || writtenNames(binding).some((name) => secrets.atHand(name) === undefined)) return undefined
  return (name) => mustHave(secrets.atHand(name), name)
}

type OutgoingHead = Head & { readonly method: string; readonly hadBody: boolean }

function withoutOwnOf({ path, headers }: Head, { own, bound, ours }: CredentialPlan): Sent {
  const head = { path, headers }
  return { ...(own === 'dropped' ? withoutOwn(head, bound, ours) : head), sensitive: [] }
}

function outgoing(enforced: Enforced, method: string, { path, headers, sensitive }: Sent, body: Buffer | undefined): Outgoing {
  return { head: { method, path, headers, sensitive }, body, trailers: (raw) => sentTrailers(enforced, raw, sensitive) }
}

async function composeWithin(
  tokens: TokenExchanges,
  enforced: Enforced,
  request: OutgoingHead,
  plan: CredentialPlan,
  held: HeldBody | undefined,
): Promise<Outgoing> {
  const { method, hadBody } = request
  const { written, swapped } = plan
  const obtained = new Map<CredentialBinding, Promise<SecretOf>>()
  // Once for all places of a request: at the end of a token's life two questions could get two answers.
  const obtain: Obtain = (binding) => {
    const secretOf = obtained.get(binding) ?? obtainSecrets(tokens, enforced, binding)
    obtained.set(binding, secretOf)
    return secretOf
  }
  let sent = withoutOwnOf(request, plan)
  let body: Buffer | undefined
  if (held) {
    body = await editBody(held, valuesOf(sent.headers, 'content-type')[0], written, enforced, obtain)
    sent = { ...sent, headers: withLength(sent.headers, hadBody, body.length) }
  }
  if (swapped.length > 0) {
    const swaps = await Promise.all(
      swapped.map(async (binding) => ({
        placeholder: placeholderOf(enforced, binding),
        places: placesOf(binding.place),
        secret: (await obtain(binding))(binding.secret),
      })),
    )
    sent = merged(sent, swapInHead(sent, swaps))
  }
  if (written) sent = merged(sent, write(method, sent, written, await obtain(written), body))
  return outgoing(enforced, method, sent, body)
}

/** A head on its way out; `sensitive` names the fields that have a secret of ours in them. */
type Sent = Head & { readonly sensitive: readonly string[] }
type SecretOf = (name: string) => Secret
type Obtain = (binding: CredentialBinding) => Promise<SecretOf>

function merged(before: Sent, after: Sent): Sent {
  return { ...after, sensitive: [...before.sensitive, ...after.sensitive] }
}

function write(method: string, head: Head, binding: CredentialBinding, secretOf: SecretOf, body: Buffer | undefined): Sent {
  const { place, also, secret } = binding
  if (place.kind !== 'aws') return applyCredential(head, { secret, place, also }, secretOf)
  const { region, service, accessKeyId, sessionToken } = place
  const keys = {
    accessKeyId: secretOf(accessKeyId),
    secretKey: secretOf(secret),
    ...(sessionToken !== undefined && { sessionToken: secretOf(sessionToken) }),
  }
  return { path: head.path, ...signAws({ method, ...head, payloadHash: payloadHashOf(body) }, keys, { region, service }) }
}

/** The values of a credential, minted where the secret itself is none that goes with requests. */
async function obtainSecrets(tokens: TokenExchanges, { secrets }: Enforced, binding: CredentialBinding): Promise<SecretOf> {
  const { id, secret, exchange } = binding
  const names = exchange?.clientSecret === undefined ? writtenNames(binding) : [...writtenNames(binding), exchange.clientSecret]
  const values = new Map(await Promise.all(names.map(async (name) => [name, await secrets.get(name)] as const)))
  const secretOf: SecretOf = (name) => mustHave(values.get(name), name)
  if (!exchange) return secretOf
  const client = exchange.clientSecret === undefined ? {} : { clientSecret: secretOf(exchange.clientSecret) }
  const minted = await tokens.get(id, exchange, { secret: secretOf(secret), ...client })
  return (name) => (name === secret ? minted : secretOf(name))
}

function mustHave(value: Secret | undefined, name: string): Secret {
  if (!value) throw new Error(`the secret ${name} was not asked for`)
  return value
}

function placeholderOf({ placeholders }: Enforced, { place }: CredentialBinding): string {
  const value = place.kind === 'placeholder' ? placeholders.values[place.name] : undefined
  if (value === undefined) throw new Error('a swap without a placeholder')
  return value
}

/** @throws body_unfit where the credential belongs into a body that is compressed */
function isBodyNeeded({ written, inBody }: CredentialPlan, headers: RawHeaders): boolean {
  if (written?.place.kind === 'aws') return needsBodyHash(headers)
  const coding = valuesOf(headers, 'content-encoding').join(', ')
  const isCoded = coding !== '' && coding.toLowerCase() !== 'identity'
  if (written?.place.kind === 'body') {
    if (!isCoded) return true
    throw new SallyportError('body_unfit', `the body is coded (${shown(coding)})`, {
      hint: 'send it as it is: the credential is written into it',
    })
  }
  // A placeholder can only be swapped in a body of these kinds; any other is looked through while it is streamed.
  return inBody.length > 0 && !isCoded && SWAPPED_TYPES.test(valuesOf(headers, 'content-type')[0] ?? '')
}

const SWAPPED_TYPES = /^application\/(?:json|[^;\s]+\+json|x-www-form-urlencoded)\s*(?:;|$)/i

/** The body with the credential in its place, and no placeholder that the policy swaps. I23 */
async function editBody(
  { bytes, swapped }: HeldBody,
  contentType: string | undefined,
  written: CredentialBinding | undefined,
  enforced: Enforced,
  obtain: Obtain,
): Promise<Buffer> {
  let body = bytes
  if (swapped.length > 0) {
    const swaps = swapped.map(async (binding) => {
      const secret = (await obtain(binding))(binding.secret)
      const places = placesOf(binding.place).flatMap((place) => (place.kind === 'body' ? [place.at] : []))
      return places.map((at) => ({ placeholder: placeholderOf(enforced, binding), at, secret }))
    })
    body = swapInBody(body, contentType, (await Promise.all(swaps)).flat())
  }
  if (written?.place.kind === 'body') body = setInBody(body, contentType, written.place.at, (await obtain(written))(written.secret))
  return body
}

/**
 * The fields behind the body. I5: what the agent puts there in the place of a credential is not for whoever merges it into the head.
 * I23: nobody swaps a placeholder there. @throws placeholder_misplaced
 */
function sentTrailers({ placeholders }: Enforced, raw: RawHeaders, sensitive: readonly string[]): string[] {
  if (placeholders.find({ path: '/', headers: raw }).length > 0) throw misplacedIn('a trailer')
  return sensitive.reduce(withoutCredentials, forwardedTrailers(raw))
}

/** The length is that of what goes out now. */
function withLength(headers: readonly string[], hadBody: boolean, bytes: number): string[] {
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() !== 'content-length') kept.push(headers[i] ?? '', headers[i + 1] ?? '')
  }
  // A length of 0 stays as well: it may be signed.
  return hadBody || bytes > 0 || kept.length < headers.length ? [...kept, 'content-length', String(bytes)] : kept
}
