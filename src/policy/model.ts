import type { Hostname } from '../kernel/hostname.ts'
import type { Refusal } from '../kernel/errors.ts'
import type { AddressRange } from './addresses.ts'

/** What is known of a request, canonical. */
export type Facts = {
  readonly scheme: 'http' | 'https'
  readonly host: Hostname
  readonly port: number
  readonly method: string
  /** Raw request target: path and query as they came. */
  readonly path: string
}

/** What the rule that allows a request says about it. */
export type AllowedRule = {
  readonly id: string
  readonly tls: 'intercept' | 'passthrough'
  /** Plain http leaves as https (port 80 becomes 443). */
  readonly upgrade: boolean
  /** Credentials may go over plain http. */
  readonly plaintext: boolean
  /** Refused ranges that this rule may reach all the same. */
  readonly addresses: readonly AddressRange[]
}

export type Decision = { readonly action: 'allow'; readonly rule: AllowedRule } | { readonly action: 'deny'; readonly refusal: Refusal }

/** Where a secret's value comes from. The value itself is never part of a policy. */
export type SecretSource =
  | { readonly kind: 'env'; readonly variable: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'exec'; readonly argv: readonly string[] }

export type SecretDeclaration = { readonly name: string; readonly source: SecretSource }

export type CredentialBinding = {
  readonly id: string
  /** Name of a declared secret. */
  readonly secret: string
  readonly place:
    | { readonly kind: 'header'; readonly header: string; readonly prefix: string }
    | { readonly kind: 'basic'; readonly username: string }
}

/** A place in a policy file. `line` and `column` count from 1; 0 is the file as a whole. */
export type Place = { readonly file: string; readonly line: number; readonly column: number }

/** One finding about a policy file. `message` holds the offending value and, where there is one, the right spelling. */
export type Diagnostic = Place & { readonly message: string }

export type Policy = {
  /** Strictest matching rule wins: deny over ask over allow, intercept over passthrough. No match is a denial. */
  decide(facts: Facts): Decision
  /**
   * For CONNECT, where the requests inside are not known yet: allow if one of them could be allowed. `rule.tls` is
   * `intercept` whenever some matching rule has to look inside; each request inside is then decided on its own.
   */
  decideTunnel(host: Hostname, port: number): Decision
  /** Judges all addresses of a host together: one refused address refuses all. `own` are this machine's addresses. */
  judgeAddresses(host: Hostname, rule: AllowedRule, addresses: readonly string[], own: readonly string[]): Refusal | undefined
  /** Refuses special-use and metadata names before any look-up, unless the rule lists `addresses`. */
  judgeName(host: Hostname, rule: AllowedRule): Refusal | undefined
  /** The most specific credential bound to this request. Callers see to the scheme. */
  credentialFor(facts: Facts): CredentialBinding | undefined
  readonly secrets: readonly SecretDeclaration[]
  readonly credentials: readonly CredentialBinding[]
  readonly warnings: readonly Diagnostic[]
  /** Every part with the place it came from. */
  readonly effective: EffectivePolicy
  /** SHA-256 in hex over what the policy says, wherever it is written. */
  readonly digest: string
}

export type EffectiveRule = {
  readonly id: string
  readonly host: string
  readonly ports: readonly number[]
  readonly protocol: 'http'
  readonly methods?: readonly string[]
  readonly paths?: readonly string[]
  readonly action: 'allow' | 'ask' | 'deny'
  readonly tls: 'intercept' | 'passthrough'
  readonly upgrade?: 'https'
  readonly plaintext: 'accept' | 'refuse'
  readonly addresses: readonly string[]
  readonly from: Place
}

export type EffectiveCredential = CredentialBinding & {
  readonly domains: readonly string[]
  readonly methods?: readonly string[]
  readonly paths?: readonly string[]
  readonly from: Place
}

export type EffectiveSecret = SecretDeclaration & { readonly resources?: readonly string[]; readonly from: Place }

/** All layers put together, in the order in which they were read. */
export type EffectivePolicy = {
  /** Every file that was read, in order. */
  readonly files: readonly string[]
  readonly mode: { readonly value: 'restricted'; readonly from?: Place }
  readonly rules: readonly EffectiveRule[]
  readonly credentials: readonly EffectiveCredential[]
  readonly secrets: readonly EffectiveSecret[]
}
