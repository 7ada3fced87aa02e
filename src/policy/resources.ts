import { nearest } from '../kernel/nearest.ts'

/** Methods of the gateway that can carry a secret. */
const METHODS = ['secret.request', 'secret.use_in', 'host.run'] as const
const NAMES: Readonly<Record<string, RegExp>> = { route: /^[a-z0-9-]{1,64}$/, tool: /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/ }

/** What may use a secret, as a policy writes it. */
export type Resource = { readonly kind: 'inject' } | { readonly kind: 'route' | 'method' | 'tool'; readonly name: string }

/** Reads `inject`, `route:NAME`, `method:NAME` or `tool:NAME`. A string is why it is refused. */
export function parseResource(text: string): Resource | string {
  if (text === 'inject') return { kind: 'inject' }
  const [, kind = '', name = ''] = /^(route|method|tool):([^]*)$/.exec(text) ?? []
  if (kind === '') {
    const near = nearest(text, ['inject', ...METHODS.map((method) => `method:${method}`)])
    return `resource "${text}" must be inject, route:NAME, method:NAME or tool:NAME${near === undefined ? '' : `: did you mean "${near}"?`}`
  }
  if (kind === 'method') {
    if (METHODS.some((method) => method === name)) return { kind, name }
    const near = nearest(name, METHODS)
    return `resource "${text}" names no method that uses secrets: ${near === undefined ? `there are ${METHODS.join(', ')}` : `did you mean "method:${near}"?`}`
  }
  return NAMES[kind]?.test(name) === true
    ? { kind: kind === 'route' ? 'route' : 'tool', name }
    : `resource "${text}" must name ${kind === 'route' ? 'a route of the policy' : 'a tool: letters, digits, ".", "_" and "-", 64 at most'}`
}
