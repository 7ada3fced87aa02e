import { named, type Findings, type ParsedRoute } from './coverage.ts'
import { coversHost, hostsOverlap, parseHostPattern, type HostPattern } from './hosts.ts'
import { sayOf } from './lints.ts'
import { isInForce } from './modes.ts'
import type { EffectiveCredential, EffectiveRule, NetworkMode } from './model.ts'
import { parsePathPattern, pathsOverlap, type PathPattern } from './paths.ts'
import { parsed, type ParsedRule } from './ranking.ts'

/** What credentials can be written into. */
export type Ways = { readonly rules: readonly ParsedRule[]; readonly routes: readonly ParsedRoute[]; readonly mode: NetworkMode }

/** A credential must be able to be written at all. */
export function checkReach(
  credential: EffectiveCredential,
  { rules, routes, mode }: Ways,
  inDoubt: (pattern: HostPattern) => boolean,
  { errors, warnings }: Findings,
): void {
  const own = routes.filter(({ route }) => route.credential === credential.id)
  let anyMethod: string | undefined
  for (const domain of credential.domains) {
    const pattern = parseHostPattern(domain)
    if (typeof pattern === 'string') continue
    const reaching = rules.filter(({ rule, host }) => rule.action !== 'deny' && isInForce(rule, mode) && hostsOverlap(host, pattern))
    const web = reaching.filter(({ rule }) => rule.protocol !== 'tcp')
    if (!inDoubt(pattern) && !own.some(({ upstream }) => coversHost(pattern, { kind: 'exact', host: upstream.host }))) {
      const blind = blindWay(reaching, web, mode)
      if (reaching.length === 0 && mode !== 'open')
        warnings.push(sayOf('credential', credential, `no rule allows ${domain}, so it is never written there`))
      if (blind !== undefined)
        errors.push(sayOf('credential', credential, `${domain} is reached through ${named(blind.rule)} only, and ${blind.why}`))
    }
    const wide = web.find(({ rule, methods }) => rule.action === 'allow' && methods === undefined && rule.tls === 'intercept')
    anyMethod ??=
      wide === undefined ? (mode === 'open' && web.length === 0 ? 'network.mode is open' : undefined) : `${named(wide.rule)} has no methods`
  }
  if (credential.methods === undefined && anyMethod !== undefined)
    warnings.push(sayOf('credential', credential, `it goes on requests of any method: ${anyMethod}`))
}

/** The rule that leads to a host where no rule leads that can be looked into. */
function blindWay(
  reaching: readonly ParsedRule[],
  web: readonly ParsedRule[],
  mode: NetworkMode,
): { readonly rule: EffectiveRule; readonly why: string } | undefined {
  const [first] = web
  if (first !== undefined)
    return web.every(({ rule }) => rule.tls === 'passthrough')
      ? { rule: first.rule, why: 'nothing can be written into a passthrough tunnel: use tls: intercept' }
      : undefined
  const [tcp] = reaching
  if (tcp === undefined || mode === 'open') return undefined
  return { rule: tcp.rule, why: 'nothing can be written into a tcp connection: use protocol: http' }
}

/** A route must lead somewhere, with the credential that it names. */
export function checkRoute(
  { route, upstream }: ParsedRoute,
  credentials: readonly EffectiveCredential[],
  { rules, mode }: Ways,
  { errors, warnings }: Findings,
): void {
  const self = { id: route.name, from: route.from }
  const credential = credentials.find(({ id }) => id === route.credential)
  if (credential !== undefined) {
    const { id, domains, paths } = credential
    const isBound = domains.some((domain) =>
      coversHost(parsed<HostPattern>(parseHostPattern(domain)), { kind: 'exact', host: upstream.host }),
    )
    if (!isBound)
      errors.push(
        sayOf('route', self, `credential "${id}" is for ${domains.join(', ')}, not for ${upstream.host}: add it to inject.domains`),
      )
    const below = parsed<PathPattern>(parsePathPattern(`${upstream.basePath}/**`))
    if (paths?.every((text) => !pathsOverlap(parsed<PathPattern>(parsePathPattern(text)), below)) === true)
      warnings.push(sayOf('route', self, `credential "${id}" is never written: none of its paths is below ${upstream.basePath}`))
  }
  const leads = ({ rule, host, ports }: ParsedRule): boolean =>
    rule.action !== 'deny' &&
    rule.protocol !== 'tcp' &&
    isInForce(rule, mode) &&
    coversHost(host, { kind: 'exact', host: upstream.host }) &&
    ports.has(upstream.port)
  if (mode === 'none' && route.plane === 'agent' && !rules.some(leads))
    warnings.push(sayOf('route', self, `it leads nowhere: network.mode is none, and no rule of the harness allows ${upstream.host}`))
}
