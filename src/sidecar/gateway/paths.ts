import { AGENT_METHODS, type AgentMethod } from '../../wire/agent-requests.ts'

/** What a gateway has besides the methods of the table. */
export const OWN_PATHS = ['/healthz', '/ca.crt', '/openapi.json', '/v1/placeholders', '/v1/files', '/v1/files/{name}'] as const

/** `VERB PATH` of all that is there, as long as these methods are, for people. */
export function pathsOf(enabled: readonly AgentMethod[]): string[] {
  const all = [
    ...OWN_PATHS.map((path) => `GET ${path}`),
    ...enabled.map((method) => `${AGENT_METHODS[method].verb} ${AGENT_METHODS[method].path}`),
  ]
  return all.map((path) => path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => name.toUpperCase()))
}

/** The HTTP methods that a path is there for; none for one that is not there. */
export function verbsAt(enabled: readonly AgentMethod[], url: string): string[] {
  const path = url.replace(/\?[^]*$/, '')
  const own = OWN_PATHS.some((one) => isAt(one, path)) ? ['GET', 'HEAD'] : []
  const verbs = enabled.flatMap((method) => (isAt(AGENT_METHODS[method].path, path) ? [AGENT_METHODS[method].verb] : []))
  return [...own, ...verbs]
}

function isAt(template: string, path: string): boolean {
  const [parts, given] = [template.split('/'), path.split('/')]
  return (
    parts.length === given.length && parts.every((part, index) => part === given[index] || (part.startsWith('{') && given[index] !== ''))
  )
}
