import { SallyportError, type RefusalCode } from '../kernel/errors.ts'
import { formatAuthority, isHostname, parseHostname, splitAuthority } from '../kernel/hostname.ts'
import { nearest } from '../kernel/nearest.ts'
import { shown } from '../kernel/shown.ts'
import { formatPlace } from './assemble.ts'
import { matchesHost } from './hosts.ts'
import { loosen, splitPathLoosely } from './lenient-paths.ts'
import {
  explainCredentials,
  type Asked,
  type CredentialExplanation,
  type ExplainedAnswers,
  type ExplainedCredential,
} from './explain-credentials.ts'
import { isInForce, OPEN_RULE } from './modes.ts'
import type { AllowedRule, Facts, Plane, Policy } from './model.ts'
import { matchesPath, pathOf, splitPath, type PathPattern } from './paths.ts'
import { parseRule, type ParsedRule } from './ranking.ts'
import { readRouteUrl } from './routes.ts'
import { whyNotByName } from './tcp-ports.ts'

/** What would happen to a request, as far as it is known without looking the name up. */
export type Explanation = {
  readonly url: string
  readonly method: string
  /** Where the gateway's route leads, for a URL of the gateway. */
  readonly upstream?: string
  readonly decision: 'allow' | 'ask' | 'deny'
  /** One sentence. */
  readonly why: string
  readonly code?: RefusalCode
  readonly hint?: string
  /** The rule that decides, where one does: `route:NAME` for a route, `open` for mode open. */
  readonly rule?: { readonly id: string; readonly at: string; readonly tls: 'intercept' | 'passthrough'; readonly plane: Plane }
  /** The credential that is written, by name. */
  readonly credential?: ExplainedCredential
  /** Those that a placeholder of the agent is swapped for. */
  readonly placeholders?: readonly ExplainedCredential[]
  /** What answers of this host are searched for, and what becomes of what is found. Absent where nothing is bound to the host. */
  readonly answers?: ExplainedAnswers
  /** What else the operator should know, as why no credential is written. */
  readonly notes: readonly string[]
  /** Every rule for the host: whether it matches, and why not. */
  readonly candidates: readonly {
    readonly id: string
    readonly at: string
    readonly action: 'allow' | 'ask' | 'deny'
    readonly matches: boolean
    readonly why: string
  }[]
}

/**
 * Explains a request by the same code that decides. A URL of the gateway (`http://sallyport:7070/route/NAME/…`) is explained
 * by where its route leads.
 * @throws usage when the URL or method is not one, or names no route
 */
export function explainRequest(policy: Policy, url: string, method: string): Explanation {
  const asked = readAsked(policy, url, method)
  const { facts, route } = asked
  const decision = route === undefined ? policy.decide(facts) : policy.decideRoute(route, facts)
  const isUnread = decision.action === 'deny' && decision.refusal.code === 'path_not_canonical'
  const candidates = policy.effective.rules
    .map(parseRule)
    .filter((rule) => matchesHost(rule.host, facts.host))
    .map((rule) => ({
      id: rule.rule.id,
      at: formatPlace(rule.rule.from),
      action: rule.rule.action,
      ...mismatch(rule, facts, policy, isUnread),
    }))
  const refusal = decision.action === 'deny' ? decision.refusal : policy.judgeName(facts.host, decision.rule)
  const common = {
    url,
    method,
    ...(route && { upstream: upstreamUrl(facts) }),
    ...describeRule(policy, decision.action === 'deny' ? decision.refusal.rule : decision.rule.id),
  }
  if (refusal !== undefined || decision.action === 'deny') {
    return {
      ...common,
      decision: 'deny',
      why: refusal?.message ?? '',
      ...(refusal && { code: refusal.code }),
      ...(refusal?.hint !== undefined && { hint: refusal.hint }),
      notes: [...caseNotes(method), ...tunnelNotes(policy, facts)],
      candidates,
    }
  }
  const { notes, ...credentials } = explainPassing(policy, asked, decision.rule)
  return {
    ...common,
    decision: decision.action,
    why: whyPassed(decision.action, decision.rule.id),
    ...credentials,
    notes: [...caseNotes(method), ...notes],
    candidates,
  }
}

function readAsked(policy: Policy, url: string, method: string): Asked {
  const named = readRouteUrl(url)
  if (named === undefined) return { facts: readUrl(url, method), route: undefined }
  const route = policy.routes.find(({ name }) => name === named.name)
  if (route === undefined) {
    const names = policy.routes.map(({ name }) => name)
    const near = nearest(named.name, names)
    throw new SallyportError('usage', `there is no route "${shown(named.name)}"${near === undefined ? '' : `: did you mean "${near}"?`}`, {
      hint: names.length === 0 ? 'the policy has no routes' : `its routes are ${names.join(', ')}`,
    })
  }
  const { scheme, host, port, basePath } = route
  const path = `${basePath}${named.rest}`
  return { facts: { scheme, host, port, method: readMethod(method), path: path.startsWith('/') ? path : `/${path}` }, route }
}

function upstreamUrl({ scheme, host, port, path }: Facts): string {
  return `${scheme}://${formatAuthority(host, port, scheme === 'http' ? 80 : 443)}${path}`
}

/** What decides: a rule, a route, or the mode. */
function describeRule({ effective }: Policy, id: string | undefined): Pick<Explanation, 'rule'> {
  const rule = effective.rules.find((entry) => entry.id === id)
  if (rule !== undefined) return { rule: { id: rule.id, at: formatPlace(rule.from), tls: rule.tls, plane: rule.plane } }
  const route = effective.routes.find(({ name }) => `route:${name}` === id)
  if (route !== undefined) return { rule: { id: `route:${route.name}`, at: formatPlace(route.from), tls: 'intercept', plane: route.plane } }
  const { from } = effective.mode
  if (id === OPEN_RULE.id && from !== undefined) return { rule: { id, at: formatPlace(from), tls: 'intercept', plane: 'agent' } }
  return {}
}

function whyPassed(action: 'allow' | 'ask', id: string): string {
  if (action === 'ask') return `rule "${id}" asks the operator first`
  if (id === OPEN_RULE.id) return 'network.mode: open lets public hosts through that no rule is about'
  return id.startsWith('route:') ? `route "${id.slice('route:'.length)}" leads there` : `rule "${id}" allows it`
}

/** That a connection would pass where a request does not. */
function tunnelNotes(policy: Policy, { host, port }: Facts): string[] {
  const tunnel = policy.decideTunnel(host, port)
  if (tunnel.action === 'deny' || tunnel.carries === 'http') return []
  const does = tunnel.action === 'ask' ? 'asks the operator first about' : 'lets through'
  const why = whyNotByName(policy, host, port)
  const ways = why === undefined ? 'opened by name without a proxy, or with CONNECT or SOCKS' : 'opened with CONNECT or SOCKS'
  return [
    `rule "${tunnel.rule.id}" ${does} a tcp connection to ${formatAuthority(host, port)}, ${ways}`,
    ...(why === undefined ? [] : [`programs that know no proxy do not arrive there: ${why}`]),
  ]
}

/** RFC 9110 §9.1: methods are case-sensitive. Compared as it is given, but it was probably not meant so. */
function caseNotes(method: string): string[] {
  const upper = method.toUpperCase()
  return method === upper
    ? []
    : [`methods are upper-case and compared as they are given: "${method}" is not "${upper}"; ask with --method ${upper}`]
}

/** What holds for a request that passes, and its credentials. */
function explainPassing(policy: Policy, asked: Asked, rule: AllowedRule): CredentialExplanation {
  const { facts, route } = asked
  const notes: string[] = []
  if (facts.scheme === 'http' && rule.upgrade) notes.push(`plain http leaves as https${facts.port === 80 ? ' on port 443' : ''}`)
  if (rule.addresses.length > 0)
    notes.push(`it may lead to ${rule.addresses.map((range) => range.text).join(', ')}, besides public addresses`)
  const isUnseen = facts.scheme === 'https' && route === undefined && isBlind(policy, facts)
  if (isUnseen) notes.push('TLS is passed through: nobody looks at what is inside')
  const explained = explainCredentials(policy, asked, rule, isUnseen)
  return { ...explained, notes: [...notes, ...explained.notes] }
}

function isBlind(policy: Policy, facts: Facts): boolean {
  const tunnel = policy.decideTunnel(facts.host, facts.port)
  return tunnel.action === 'allow' && tunnel.carries === 'http' && tunnel.rule.tls === 'passthrough'
}

function mismatch(
  { rule, ports, methods, paths }: ParsedRule,
  facts: Facts,
  { effective: { mode: said }, at }: Policy,
  isUnread: boolean,
): { matches: boolean; why: string } {
  const mode = said.value
  if (rule.expiresAt !== undefined && (at === undefined || at >= rule.expiresAt))
    return { matches: false, why: `its time is over: it ended at ${new Date(rule.expiresAt).toISOString()}` }
  if (rule.restricted !== true && !isInForce(rule, mode)) return { matches: false, why: `network.mode: ${mode} leaves it without effect` }
  if (!ports.has(facts.port)) return { matches: false, why: `port ${facts.port} is not among ${rule.ports.join(', ')}` }
  if (rule.protocol === 'tcp') return { matches: false, why: 'it is about tcp connections, not about HTTP requests' }
  if (methods && !methods.has(facts.method))
    return { matches: false, why: `method ${facts.method} is not among ${[...methods].join(', ')}` }
  if (paths === undefined) return { matches: true, why: 'host, port and method match' }
  if (isUnread) return { matches: false, why: 'its paths are not compared with a path that could be read in two ways' }
  const path = pathOf(facts.path)
  const readings = rule.action === 'allow' ? [splitPath(path)] : [splitPath(path), ...splitPathLoosely(path)]
  const readingsOf = (pattern: PathPattern): PathPattern[] => (rule.action === 'allow' ? [pattern] : [pattern, ...loosen(pattern)])
  const hit = paths.find((pattern) => readingsOf(pattern).some((read) => readings.some((reading) => matchesPath(read, reading))))
  return hit === undefined
    ? { matches: false, why: `path "${path}" matches none of ${paths.map(({ text }) => text).join(', ')}` }
    : { matches: true, why: `path "${hit.text}" matches` }
}

/** The URL as it would come on the wire: nothing is repaired, as a repaired URL would explain another request. */
function readUrl(url: string, method: string): Facts {
  // A WebSocket opens with a request (RFC 6455 §3): ws and wss are http and https to every rule.
  const match = /^(https?|wss?):\/\/([^/?#\\]*)([^#]*)/i.exec(url)
  const [, schemeText = '', authority = '', rest = ''] = match ?? []
  const split = splitAuthority(authority)
  const host = split && parseHostname(split.host)
  // I1: what stands before an "@" may be a password, wherever it ends. A path may have one as well, behind a host that can be read.
  if ((match ? authority : url).includes('@') || (!isReadable(host) && url.includes('@'))) {
    throw new SallyportError('usage', 'the URL has a user name or password before an "@"', {
      hint: 'leave out what stands before the "@": such URLs are refused, and credentials are written by the policy',
    })
  }
  if (!match)
    throw new SallyportError('usage', `"${url}" is not an http or https URL`, {
      hint: 'write it whole, as in https://api.github.com/user; of other TCP ask by https://HOST:PORT/: the answer says whether a connection passes',
    })
  const scheme = /^(?:http|ws)$/i.test(schemeText) ? 'http' : 'https'
  if (split === undefined || host === undefined)
    throw new SallyportError('usage', `"${authority}" is not host or host:port`, { hint: 'write for example api.github.com:443' })
  if (!isHostname(host)) {
    throw new SallyportError('usage', `the host of "${url}" is refused: ${host.problem}`, {
      hint: host.canonical === undefined ? 'write the host as a request would name it' : `write "${host.canonical}"`,
    })
  }
  const path = rest.startsWith('/') ? rest : `/${rest}`
  return { scheme, host, port: split.port ?? (scheme === 'http' ? 80 : 443), method: readMethod(method), path }
}

function readMethod(method: string): string {
  if (/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(method)) return method
  throw new SallyportError('usage', `"${method}" is not a method`, { hint: 'write for example --method POST' })
}

function isReadable(host: ReturnType<typeof parseHostname> | undefined): boolean {
  return host !== undefined && isHostname(host)
}
