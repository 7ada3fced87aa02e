import { isHostname, parseHostname, splitAuthority } from '../kernel/hostname.ts'
import { SallyportError, type RefusalCode } from '../kernel/errors.ts'
import { formatPlace } from './assemble.ts'
import { matchesHost } from './hosts.ts'
import { loosen, splitPathLoosely } from './lenient-paths.ts'
import type { Facts, Policy } from './model.ts'
import { matchesPath, pathOf, splitPath, type PathPattern } from './paths.ts'
import { parseRule, type ParsedRule } from './ranking.ts'

/** What would happen to a request, as far as it is known without looking the name up. */
export type Explanation = {
  readonly url: string
  readonly method: string
  readonly decision: 'allow' | 'ask' | 'deny'
  /** One sentence. */
  readonly why: string
  readonly code?: RefusalCode
  readonly hint?: string
  /** The rule that decides, where one does. */
  readonly rule?: { readonly id: string; readonly at: string; readonly tls: 'intercept' | 'passthrough' }
  /** The credential that is written, by name. */
  readonly credential?: { readonly id: string; readonly secret: string; readonly at: string }
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
 * Explains a request by the same code that decides.
 * @throws usage when the URL or method is not one
 */
export function explainRequest(policy: Policy, url: string, method: string): Explanation {
  const facts = readUrl(url, method)
  const decision = policy.decide(facts)
  const isUnread = decision.action === 'deny' && decision.refusal.code === 'path_not_canonical'
  const candidates = policy.effective.rules
    .map(parseRule)
    .filter((rule) => matchesHost(rule.host, facts.host))
    .map((rule) => ({ id: rule.rule.id, at: formatPlace(rule.rule.from), action: rule.rule.action, ...mismatch(rule, facts, isUnread) }))
  const refusal = decision.action === 'deny' ? decision.refusal : policy.judgeName(facts.host, decision.rule)
  const decider = decision.action === 'deny' ? decision.refusal.rule : decision.rule.id
  const rule = policy.effective.rules.find((entry) => entry.id === decider)
  const shown = rule && { rule: { id: rule.id, at: formatPlace(rule.from), tls: rule.tls } }
  if (refusal !== undefined || decision.action === 'deny') {
    return {
      url,
      method,
      decision: 'deny',
      why: refusal?.message ?? '',
      ...(refusal && { code: refusal.code }),
      ...(refusal?.hint !== undefined && { hint: refusal.hint }),
      ...shown,
      notes: caseNotes(method),
      candidates,
    }
  }
  const { written, notes } = explainCredential(policy, facts, decision.rule)
  return {
    url,
    method,
    decision: decision.action,
    why: decision.action === 'ask' ? `rule "${decision.rule.id}" asks the operator first` : `rule "${decision.rule.id}" allows it`,
    ...shown,
    ...written,
    notes: [...caseNotes(method), ...notes],
    candidates,
  }
}

/** RFC 9110 §9.1: methods are case-sensitive. Compared as it is given, but it was probably not meant so. */
function caseNotes(method: string): string[] {
  const upper = method.toUpperCase()
  return method === upper
    ? []
    : [`methods are upper-case and compared as they are given: "${method}" is not "${upper}"; ask with --method ${upper}`]
}

function explainCredential(
  policy: Policy,
  facts: Facts,
  rule: { id: string; tls: string; upgrade: boolean; plaintext: boolean; addresses: readonly { text: string }[] },
) {
  const notes: string[] = []
  if (facts.scheme === 'http' && rule.upgrade) notes.push(`plain http leaves as https${facts.port === 80 ? ' on port 443' : ''}`)
  if (rule.addresses.length > 0)
    notes.push(`it may lead to ${rule.addresses.map((range) => range.text).join(', ')}, besides public addresses`)
  const credential = policy.credentialFor(facts)
  if (credential === undefined) return { notes: [...notes, 'no credential is bound to it'] }
  if (facts.scheme === 'http' && !rule.upgrade && !rule.plaintext) {
    return { notes: [...notes, `credential "${credential.id}" is not written over plain http: add upgrade: https to rule "${rule.id}"`] }
  }
  if (facts.scheme === 'https' && isBlind(policy, facts)) {
    return { notes: [...notes, `credential "${credential.id}" is not written: rule "${rule.id}" passes TLS through`] }
  }
  const from = policy.effective.credentials.find((entry) => entry.id === credential.id)?.from
  return { written: { credential: { id: credential.id, secret: credential.secret, at: from ? formatPlace(from) : '' } }, notes }
}

function isBlind(policy: Policy, facts: Facts): boolean {
  const tunnel = policy.decideTunnel(facts.host, facts.port)
  return tunnel.action === 'allow' && tunnel.rule.tls === 'passthrough'
}

function mismatch({ rule, ports, methods, paths }: ParsedRule, facts: Facts, isUnread: boolean): { matches: boolean; why: string } {
  if (!ports.has(facts.port)) return { matches: false, why: `port ${facts.port} is not among ${rule.ports.join(', ')}` }
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
  const match = /^(https?):\/\/([^/?#\\]*)([^#]*)/i.exec(url)
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
    throw new SallyportError('usage', `"${url}" is not an http or https URL`, { hint: 'write it whole, as in https://api.github.com/user' })
  const scheme = schemeText.toLowerCase() === 'http' ? 'http' : 'https'
  if (split === undefined || host === undefined)
    throw new SallyportError('usage', `"${authority}" is not host or host:port`, { hint: 'write for example api.github.com:443' })
  if (!isHostname(host)) {
    throw new SallyportError('usage', `the host of "${url}" is refused: ${host.problem}`, {
      hint: host.canonical === undefined ? 'write the host as a request would name it' : `write "${host.canonical}"`,
    })
  }
  if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(method))
    throw new SallyportError('usage', `"${method}" is not a method`, { hint: 'write for example --method POST' })
  return { scheme, host, port: split.port ?? (scheme === 'http' ? 80 : 443), method, path: rest.startsWith('/') ? rest : `/${rest}` }
}

function isReadable(host: ReturnType<typeof parseHostname> | undefined): boolean {
  return host !== undefined && isHostname(host)
}
