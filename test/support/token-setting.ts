import type { ServerResponse } from 'node:http'
import { system } from '../../src/kernel/system.ts'
import { openEveryWay, type EveryWay } from './every-way.ts'
import { APPROACHES, ask, type Approach, type Asked, type Got } from './every-client.ts'
import { openTokenServer, type TokenClient, type TokenServer } from './token-server.ts'
import { openUpstream, type Recorded, type Upstream } from './upstream.ts'

export const API = 'api.example.com'
export const OTHER = 'other.example.com'
const LOGIN = 'login.example.com'
/** What only the token server may see. */
export const PASSWORD = 'password-canary-51f0'
export const REFRESH = 'refresh-canary-first'

export type TokenSettingOptions = {
  /** How clients prove themselves. Default: basic. */
  readonly proof?: TokenClient['proof']
  /** The grant is `refresh_token`, and `REFRESH` is what is good first. */
  readonly isRefreshing?: boolean
  /** Each refresh gives a new refresh token. */
  readonly isRotating?: boolean
  readonly policy?: TokenPolicy
  /** Whose certificate the token server has, when not its own. */
  readonly certifiedAs?: string
}

export type TokenPolicy = {
  /** Replaces what the credential is written into. */
  readonly inject?: string
  /** Added to `oauth2`. */
  readonly oauth2?: string
  /** Ranges that the token server may have; empty for none. */
  readonly addresses?: string
  /** Lines added to `rules`. */
  readonly rules?: string
  readonly hasCredential?: boolean
}

/** A gate with all its ways in, a token server, and an API that takes only the token that was issued last. */
export type TokenSetting = AsyncDisposable & {
  readonly every: EveryWay
  readonly tokens: TokenServer
  readonly api: Upstream
  /** Milliseconds that the gate's clock is ahead. */
  readonly clock: { aheadMs: number }
  /** What the API answers whom it takes. */
  answer: (request: Recorded, response: ServerResponse) => void
  /** A GET of the API by CONNECT, unless said otherwise. */
  get(asked?: Partial<Asked>, approach?: Approach): Promise<Got>
  setPolicy(policy?: TokenPolicy): Promise<void>
  /** What the agent, the audit and the log must not have, and have. `texts` are what the agent saw. */
  leaks(...texts: string[]): Promise<string[]>
}

export async function openTokenSetting(options: TokenSettingOptions = {}): Promise<TokenSetting> {
  const { proof = 'basic', isRefreshing = false, isRotating = false, certifiedAs = LOGIN } = options
  await using parts = new AsyncDisposableStack()
  const clock = { aheadMs: 0 }
  const policyText = (policy: TokenPolicy = {}): string => textOf({ ...options.policy, ...policy }, { proof, isRefreshing })
  const every = parts.use(
    await openEveryWay(policyText(), [API, OTHER, LOGIN], {
      env: { PASSWORD, REFRESH },
      system: { ...system, now: () => Date.now() + clock.aheadMs },
    }),
  )
  const client: TokenClient = {
    id: 'client',
    proof,
    ...(proof !== 'none' && { password: PASSWORD }),
    ...(isRefreshing && { refreshToken: REFRESH }),
  }
  const place = { tls: every.tls(certifiedAs), place: every.at(LOGIN, 443) }
  const tokens = parts.use(await openTokenServer(client, isRotating, LOGIN, place))
  const isTaken = ({ url, rawHeaders }: Recorded): boolean => {
    const newest = tokens.issued.findLast((token) => token.startsWith('access')) ?? ''
    return newest !== '' && (rawHeaders.includes(`Bearer ${newest}`) || url.endsWith(`access_token=${newest}`))
  }
  const respond = (request: Recorded, response: ServerResponse): void => {
    if (isTaken(request)) setting.answer(request, response)
    else response.writeHead(401).end('who are you?')
  }
  const api = parts.use(await openUpstream(respond, every.tls(API), every.at(API, 443)))
  parts.use(await openUpstream(undefined, every.tls(OTHER), every.at(OTHER, 443)))
  const all = parts.move()
  const setting: TokenSetting = {
    every,
    tokens,
    api,
    clock,
    answer: (_request, response) => void response.end('ok'),
    get: (asked = {}, approach = { way: 'CONNECT', version: 'HTTP/1.1' }) => ask(every, approach, { host: API, ...asked }),
    async setPolicy(policy = {}) {
      if (!(await every.gate.setPolicy(policyText(policy)))) throw new Error(`the policy was not taken: ${every.gate.log()}`)
    },
    async leaks(...texts) {
      const seen = [...texts, await every.gate.auditText(), every.gate.log()].join('\n')
      return [PASSWORD, REFRESH, ...tokens.issued].filter((value) => seen.includes(value))
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
  return setting
}

/** Every way in that an agent has, over and over, to so many. */
export function approaches(count: number): Approach[] {
  return Array.from({ length: count }, (_, i) => APPROACHES[i % APPROACHES.length] as Approach)
}

type Grant = { readonly proof: TokenClient['proof']; readonly isRefreshing: boolean }

function textOf(policy: TokenPolicy, { proof, isRefreshing }: Grant): string {
  const {
    inject = 'header: Authorization, prefix: "Bearer "',
    oauth2 = '',
    addresses = '"127.0.0.0/8"',
    rules = '',
    hasCredential = true,
  } = policy
  const opened = 'addresses: ["127.0.0.0/8"]'
  const exchange = [
    `grant: ${isRefreshing ? 'refresh_token' : 'client_credentials'}`,
    `token_url: "https://${LOGIN}/oauth/token?tenant=a"`,
    'client_id: client',
    ...(proof === 'body' ? ['authentication: body'] : []),
    ...(isRefreshing && proof !== 'none' ? ['client_secret: PASSWORD'] : []),
    ...(addresses === '' ? [] : [`addresses: [${addresses}]`]),
    ...(oauth2 === '' ? [] : [oauth2]),
  ]
  const secret = isRefreshing ? 'REFRESH' : 'PASSWORD'
  const names = isRefreshing && proof !== 'none' ? ['REFRESH', 'PASSWORD'] : [secret]
  return `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, ${opened}}
    - {id: other, host: ${OTHER}, action: allow, ${opened}}
${rules}routes:
  - {name: https-api, upstream: "https://${API}", ${hasCredential ? 'credential: api, ' : ''}${opened}}
${
  hasCredential
    ? `credentials:
  - {id: api, secret: ${secret}, inject: {domains: [${API}], ${inject}}, oauth2: {${exchange.join(', ')}}}
secrets:
${names.map((name) => `  - {name: ${name}, source: "env:${name}"}\n`).join('')}`
    : ''
}`
}
