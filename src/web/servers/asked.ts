import { go } from '../shell/route.ts'

export type OpenDialog = { readonly kind: 'form'; readonly name?: string } | { readonly kind: 'test' | 'remove'; readonly name: string }

/** Which session is meant, as the daemon is asked. */
export function askedOf(query: URLSearchParams): string {
  return new URLSearchParams(
    [...query].filter(([name, value]) => ['workspace', 'role', 'harness'].includes(name) && value !== ''),
  ).toString()
}

/** Another session is meant. */
export function ask(query: URLSearchParams, changes: Readonly<Record<string, string>>): void {
  const next = Object.fromEntries([...new Map([...query, ...Object.entries(changes)])].filter(([, value]) => value !== ''))
  go('servers', [], next)
}
