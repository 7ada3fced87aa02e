import { nearest } from '../kernel/nearest.ts'
import { formatPlace } from './assemble.ts'
import type { Diagnostic, EffectiveCredential, EffectivePolicy, EffectiveRoute, EffectiveSecret, SecretGrant } from './model.ts'

/** Every secret with what may use it: what its `resources` say, else the credentials that refer to it, with their routes. */
export function grantSecrets(policy: EffectivePolicy): SecretGrant[] {
  return policy.secrets.map(({ name, source, ttlMs, resources }) => {
    const users = policy.credentials.filter((credential) => secretsOf(credential).includes(name))
    const written = resources ?? (users.length === 0 ? [] : ['inject'])
    // A route carries what is injected anywhere.
    const routes = written.includes('inject') ? policy.routes.filter((route) => users.some(({ id }) => id === route.credential)) : []
    return {
      name,
      source,
      ...(ttlMs !== undefined && { ttlMs }),
      uses: [...new Set([...written, ...routes.map((route) => `route:${route.name}`)])],
    }
  })
}

/** Whether a secret is one that the gate writes. What is for methods and tools only never gets to it. */
export function isForGate({ uses }: Pick<SecretGrant, 'uses'>): boolean {
  return uses.some(isUseOfGate)
}

export function isUseOfGate(use: string): boolean {
  return use === 'inject' || use.startsWith('route:')
}

/** Ids of credentials with a secret that leaves out `inject`: only routes that name them carry them. */
export function routeOnlyOf(policy: EffectivePolicy): ReadonlySet<string> {
  const withheld = new Set(policy.secrets.filter(isWithheld).map(({ name }) => name))
  return new Set(
    policy.credentials
      .filter((credential) => credential.ofServer !== undefined || secretsOf(credential).some((name) => withheld.has(name)))
      .map(({ id }) => id),
  )
}

/**
 * What `resources` contradict: credentials and routes that use a secret which is not for them, and routes that do not exist.
 * @param mayLackRoutes some route could not be read
 */
export function findResourceProblems(policy: EffectivePolicy, mayLackRoutes: boolean): Diagnostic[] {
  const secrets = new Map(policy.secrets.map((secret) => [secret.name, secret]))
  const errors: Diagnostic[] = []
  for (const credential of policy.credentials) {
    for (const secret of secretsOf(credential).flatMap((name) => secrets.get(name) ?? [])) {
      if (isWithheld(secret)) errors.push(...misuses(credential, secret, policy.routes, mayLackRoutes))
    }
  }
  const unknown = mayLackRoutes ? [] : policy.secrets.flatMap((secret) => unknownRoutes(secret, policy.routes))
  const idle = policy.secrets.flatMap(({ name, source, ttlMs, from }) =>
    ttlMs !== undefined && (source.kind === 'env' || source.kind === 'file' || source.kind === 'vault')
      ? [
          {
            ...from,
            message: `secret "${name}": ttl has no effect on "${source.kind}:", which is read without a program or a server: remove it`,
          },
        ]
      : [],
  )
  return [...errors, ...unknown, ...idle]
}

function isWithheld({ resources }: EffectiveSecret): boolean {
  return resources !== undefined && !resources.includes('inject')
}

function misuses(
  credential: EffectiveCredential,
  secret: EffectiveSecret,
  routes: readonly EffectiveRoute[],
  mayLackRoutes: boolean,
): Diagnostic[] {
  const users = routes.filter((route) => route.credential === credential.id)
  const { resources = [] } = secret
  const where = `secret "${secret.name}" (${formatPlace(secret.from)})`
  if (users.length === 0 && !mayLackRoutes)
    return [{ ...credential.from, message: `credential "${credential.id}": the resources of ${where} leave out inject: add it there` }]
  return users
    .filter((route) => !resources.includes(`route:${route.name}`))
    .map((route) => ({
      ...route.from,
      message: `route "${route.name}": the resources of ${where}, which credential "${credential.id}" uses, leave it out: add route:${route.name} there`,
    }))
}

function unknownRoutes({ name, resources = [], from }: EffectiveSecret, routes: readonly EffectiveRoute[]): Diagnostic[] {
  const known = new Set(routes.map((route) => route.name))
  return resources
    .flatMap((text) => (text.startsWith('route:') ? [text.slice('route:'.length)] : []))
    .filter((route) => !known.has(route))
    .map((route) => {
      const near = nearest(route, known)
      return { ...from, message: `secret "${name}": there is no route "${route}"${near === undefined ? '' : `: did you mean "${near}"?`}` }
    })
}

/** Every secret that a credential uses, each once. */
function secretsOf({ secret, place, also, exchange }: EffectiveCredential): string[] {
  const named = [
    secret,
    ...also.map((field) => field.secret),
    ...(place.kind === 'aws' ? [place.accessKeyId, place.sessionToken] : []),
    exchange?.clientSecret,
  ]
  return [...new Set(named.filter((name) => name !== undefined))]
}
