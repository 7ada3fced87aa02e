import { formatPlace } from './assemble.ts'
import { describeAlso, describeBudget, describeExchange, describePlace } from './describe.ts'
import type { AllowedRule, CredentialBinding, Facts, Policy, Route, ScrubMode } from './model.ts'

/** A request, and the route that it came by. */
export type Asked = { readonly facts: Facts; readonly route: Route | undefined }

export type ExplainedCredential = {
  readonly id: string
  /** Name of the secret. */
  readonly secret: string
  /** Kind and place in words, as "header Authorization" or "placeholder GH_TOKEN in header, basic". */
  readonly place: string
  /** Header fields that are written with it. */
  readonly also?: readonly string[]
  /** Where the access token comes from. */
  readonly oauth2?: string
  /** What it may be used for in a session. */
  readonly budget?: string
  readonly at: string
}

export type ExplainedAnswers = {
  readonly scrub: ScrubMode
  /** Names of secrets that requests to the host may carry. */
  readonly secrets: readonly string[]
  /** Ids of credentials whose access tokens they may carry. */
  readonly accessTokens?: readonly string[]
}

export type CredentialExplanation = {
  readonly credential?: ExplainedCredential
  readonly placeholders?: readonly ExplainedCredential[]
  readonly answers?: ExplainedAnswers
  readonly notes: readonly string[]
}

/** What of credentials goes with an allowed request and what of its answer is written over, or why none. */
export function explainCredentials(policy: Policy, { facts, route }: Asked, rule: AllowedRule, isUnseen: boolean): CredentialExplanation {
  const isNone = route !== undefined && route.credential === undefined
  const written = isNone ? undefined : policy.credentialFor(facts, route?.credential)
  const swapped = isNone ? [] : policy.placeholdersFor(facts, route?.credential)
  const explain = (binding: CredentialBinding): ExplainedCredential => explainOne(policy, binding)
  const reason = reasonToWithhold(facts, route, rule, isUnseen)
  const notes = isUnseen ? [] : ownNotes(rule)
  const answers = isUnseen ? undefined : explainAnswers(policy, facts, rule)
  const common = { ...(answers && { answers }) }
  if (written === undefined && swapped.length === 0) {
    const none = isNone ? `route "${route.name}" names no credential, so none is written` : 'no credential is bound to it'
    return { ...common, notes: [none, ...notes] }
  }
  if (reason !== undefined) {
    const bound = written === undefined ? swapped : [written, ...swapped]
    return { ...common, notes: [...bound.map((binding) => notUsed(binding, reason)), ...notes] }
  }
  return {
    ...(written && { credential: explain(written) }),
    ...(swapped.length > 0 && { placeholders: swapped.map(explain) }),
    ...common,
    notes,
  }
}

function explainOne(policy: Policy, binding: CredentialBinding): ExplainedCredential {
  const { id, secret, place, also, exchange, budget } = binding
  const from = policy.effective.credentials.find((entry) => entry.id === id)?.from
  return {
    id,
    secret,
    place: describePlace(place),
    ...(also.length > 0 && { also: also.map(describeAlso) }),
    ...(exchange && { oauth2: describeExchange(exchange) }),
    ...(budget && { budget: describeBudget(budget) }),
    at: from ? formatPlace(from) : '',
  }
}

/** Why what is bound to a request does not go with it, if so. */
function reasonToWithhold({ scheme }: Facts, route: Route | undefined, rule: AllowedRule, isUnseen: boolean): string | undefined {
  if (scheme === 'http' && !rule.upgrade && !rule.plaintext) {
    const remedy = route === undefined ? `add upgrade: https to rule "${rule.id}"` : `use an https upstream for route "${route.name}"`
    return `over plain http: ${remedy}`
  }
  return isUnseen ? `: rule "${rule.id}" passes TLS through` : undefined
}

function notUsed({ id, place }: CredentialBinding, reason: string): string {
  const what = place.kind === 'placeholder' ? `placeholder ${place.name} is not swapped` : `credential "${id}" is not written`
  return reason.startsWith(':') ? `${what}${reason}` : `${what} ${reason}`
}

function explainAnswers(policy: Policy, { host }: Facts, { scrub }: AllowedRule): ExplainedAnswers | undefined {
  const bound = policy.credentialsOf(host)
  if (bound.length === 0) return undefined
  const minted = bound.filter(({ exchange }) => exchange !== undefined).map(({ id }) => id)
  return { scrub, secrets: [...new Set(bound.flatMap(sentSecrets))], ...(minted.length > 0 && { accessTokens: minted }) }
}

/** The secrets that go out with requests. A key that signs never does, and what is exchanged goes to the token server alone. */
function sentSecrets({ secret, place, also, exchange }: CredentialBinding): string[] {
  const own = place.kind === 'aws' ? [place.accessKeyId, place.sessionToken] : [exchange === undefined ? secret : undefined]
  return [...own, ...also.map((field) => field.secret)].filter((name) => name !== undefined)
}

function ownNotes({ ownCredentials }: AllowedRule): string[] {
  switch (ownCredentials) {
    case undefined:
      return []
    case 'drop':
      return ['credentials that the agent sends itself are dropped']
    case 'deny':
      return ['a request with a credential of its own is refused']
    case 'pass':
      return ['credentials that the agent sends itself are passed on, in place of one that would be written']
  }
}
