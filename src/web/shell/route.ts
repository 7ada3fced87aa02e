import { computed, signal } from '@preact/signals'

/** Where the page is: `#/view/rest?query`. In the fragment, so that the daemon serves one document. */
export type Route = { readonly view: string; readonly rest: readonly string[]; readonly query: URLSearchParams }

const hash = signal(shownHash())
addEventListener('hashchange', () => (hash.value = shownHash()))

export const route = computed(() => routeOf(hash.value))

export function routeOf(text: string): Route {
  const [path = '', query = ''] = text.replace(/^#\/?/, '').split('?', 2)
  const [view = '', ...rest] = path
    .split('/')
    .filter((part) => part !== '')
    .map(decoded)
  return { view: view === '' ? 'inbox' : view, rest, query: new URLSearchParams(query) }
}

export function hrefOf(view: string, rest: readonly string[] = [], query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(query).toString()
  return `#/${[view, ...rest].map(encodeURIComponent).join('/')}${search === '' ? '' : `?${search}`}`
}

export function go(view: string, rest: readonly string[] = [], query: Readonly<Record<string, string>> = {}): void {
  location.hash = hrefOf(view, rest, query)
}

/** A ticket to log in with names no view: it is taken out of the address without an event. */
function shownHash(): string {
  return location.hash.startsWith('#ticket=') ? '' : location.hash
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
