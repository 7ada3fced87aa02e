/** Where in a body a value stands: a JSON pointer (RFC 6901), split and unescaped, or a field of a form. */
export type BodyPlace = { readonly kind: 'json'; readonly pointer: readonly string[] } | { readonly kind: 'form'; readonly field: string }

/** Where a placeholder may stand to be swapped. `header` without a name: any field that services take credentials in. */
export type SwapPlace =
  | { readonly kind: 'header'; readonly header?: string }
  | { readonly kind: 'basic' }
  | { readonly kind: 'query'; readonly name: string }
  | { readonly kind: 'path' }
  | { readonly kind: 'body'; readonly at: BodyPlace }

/** A header field with a secret in it. */
export type HeaderPlace = { readonly kind: 'header'; readonly header: string; readonly prefix: string }

/** What is done to a request so that it carries a credential. */
export type CredentialPlace =
  | HeaderPlace
  | { readonly kind: 'basic'; readonly username: string }
  | { readonly kind: 'query'; readonly name: string }
  | { readonly kind: 'body'; readonly at: BodyPlace }
  /** The agent writes the worthless value of `name` (a variable of its environment) in one of the places. */
  | { readonly kind: 'placeholder'; readonly name: string; readonly shape: string; readonly places: readonly SwapPlace[] }
  /** AWS Signature Version 4: what the agent signed with a worthless key is signed anew. The two others are names of secrets. */
  | {
      readonly kind: 'aws'
      readonly region: string
      readonly service: string
      readonly accessKeyId: string
      readonly sessionToken?: string
    }

/** The secret is exchanged for access tokens (RFC 6749 §4.4, §6), which are what is written. */
export type TokenExchange = {
  readonly grant: 'client_credentials' | 'refresh_token'
  /** Absolute https URL. */
  readonly tokenUrl: string
  readonly clientId: string
  /** Name of the secret with the client's own password, for `refresh_token`; with `client_credentials` it is the credential's. */
  readonly clientSecret?: string
  readonly scope?: string
  /** Further fields of the form, as `audience`. */
  readonly parameters: Readonly<Record<string, string>>
  /** How the client proves itself (RFC 6749 §2.3.1). */
  readonly authentication: 'basic' | 'body'
  /** Private or otherwise refused ranges that the token server may have. */
  readonly addresses: readonly string[]
}

/** What one credential may be used for in a session. Bytes count bodies. */
export type Budget = {
  readonly requests?: number
  readonly requestsPerMinute?: number
  readonly bytesUp?: number
  readonly bytesUpPerMinute?: number
  readonly bytesDown?: number
  readonly bytesDownPerMinute?: number
}

/** A file that a program reads its credential from, with the placeholder in it. */
export type CredentialFile = {
  readonly kind: 'npmrc' | 'netrc' | 'pypirc' | 'docker'
  /** Host, or for `pypirc` and `docker` the URL, that the program knows the credential by. */
  readonly server: string
  readonly login?: string
}
