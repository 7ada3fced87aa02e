import type { Secret } from '../kernel/secret.ts'

/** Where in a request a credential is written. */
export type CredentialPlace =
  | { readonly kind: 'header'; readonly header: string; readonly prefix: string }
  | { readonly kind: 'basic'; readonly username: string }

/** Name of the header field that carries the credential. */
export function fieldOf(place: CredentialPlace): string {
  return place.kind === 'basic' ? 'Authorization' : place.header
}

/** The value of that field. I1: the only place in the product where a secret becomes part of a request. */
export function valueFor(place: CredentialPlace, secret: Secret): string {
  switch (place.kind) {
    case 'header':
      return `${place.prefix}${secret.reveal()}`
    case 'basic':
      // RFC 7617 §2: UTF-8 is what servers that say so expect, and ASCII is the same in it.
      return `Basic ${Buffer.from(`${place.username}:${secret.reveal()}`).toString('base64')}`
  }
}
