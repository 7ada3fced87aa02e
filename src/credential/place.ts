import type { Secret } from '../kernel/secret.ts'

/** Where in a request a credential is written. */
export type CredentialPlace =
  | { readonly kind: 'header'; readonly header: string; readonly prefix: string }
  | { readonly kind: 'basic'; readonly username: string }

/** The header field that carries the secret. The only place in the product where a secret becomes part of a request. */
export function writeCredential(place: CredentialPlace, secret: Secret): { field: string; value: string } {
  switch (place.kind) {
    case 'header':
      return { field: place.header, value: `${place.prefix}${secret.reveal()}` }
    case 'basic':
      // RFC 7617 §2: UTF-8 is what servers that say so expect, and ASCII is the same in it.
      return { field: 'Authorization', value: `Basic ${Buffer.from(`${place.username}:${secret.reveal()}`).toString('base64')}` }
  }
}
