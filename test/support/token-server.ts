import { createTokenExchanges, type TokenExchanges, type TokenPost } from '../../src/credential/token-exchange.ts'
import type { TokenExchange } from '../../src/wire/credential.ts'
import { createAddresses } from '../../src/sidecar/upstream/addresses.ts'
import { createTokenClient } from '../../src/sidecar/upstream/token-client.ts'
import { createUpstreams } from '../../src/sidecar/upstream/upstreams.ts'
import type { ServerResponse } from 'node:http'
import { policyOf } from './policy.ts'
import { HOST, leafOf, TRUST } from './upstream-client.ts'
import { openUpstream, type Place, type Recorded, type Upstream } from './upstream.ts'

/** Who may have tokens of a server, and by what proof. */
export type TokenClient = {
  readonly id: string
  readonly password?: string
  readonly proof: 'basic' | 'body' | 'none'
  /** The one that is good now; without it the client may have tokens in its own name. */
  refreshToken?: string
}

export type TokenServer = Upstream & {
  readonly port: number
  readonly url: string
  /** Access and refresh tokens that were given, in order. */
  readonly issued: string[]
  /** Why the last request was refused. */
  readonly refusals: string[]
  /** What the next grants say besides the token; `undefined` leaves a field out. */
  grant: Record<string, unknown>
  /** Replaces the answer: a fault. */
  fault: ((response: ServerResponse, request: Recorded) => void) | undefined
  /** Answers wait for it. */
  until: Promise<unknown> | undefined
}

/** Where a server is, when not on any port of loopback, and whose certificate it has. */
export type ServerPlace = { readonly tls: { cert: string; key: string }; readonly place: Place }

/**
 * A token server by RFC 6749 over TLS, that takes nothing that is not written as the RFC says: content type, form, client
 * authentication of §2.3.1 with both parts form-encoded, grants of §4.4 and §6. With `isRotating` each refresh gives a new
 * refresh token and ends the one before.
 */
export async function openTokenServer(
  client: TokenClient,
  isRotating = false,
  host = HOST,
  { tls, place }: Partial<ServerPlace> = {},
): Promise<TokenServer> {
  const issued: string[] = []
  const refusals: string[] = []
  const answer = (request: Recorded, response: ServerResponse): void => {
    if (server.fault) return server.fault(response, request)
    const refusal = refusalOf(request, client)
    const json = (status: number, value: object): void =>
      void response
        .writeHead(status, { 'content-type': 'application/json;charset=UTF-8', 'cache-control': 'no-store' })
        .end(JSON.stringify(value))
    if (refusal !== undefined) {
      refusals.push(refusal)
      return json(refusal === 'invalid_client' ? 401 : 400, { error: refusal })
    }
    const mint = (kind: string): string => {
      issued.push(`${kind}-canary-${issued.length + 1}`)
      return issued.at(-1) ?? ''
    }
    const access = mint('access')
    if (isRotating) client.refreshToken = mint('refresh')
    json(200, {
      access_token: access,
      token_type: 'Bearer',
      expires_in: 3600,
      ...(isRotating && { refresh_token: client.refreshToken }),
      ...server.grant,
    })
  }
  const upstream = await openUpstream(
    (request, response) => void (server.until ?? Promise.resolve()).then(() => answer(request, response)),
    tls ?? leafOf(host),
    place,
  )
  const more = {
    url: `https://${HOST}:${upstream.port}/oauth/token?tenant=a`,
    issued,
    refusals,
    grant: {},
    fault: undefined,
    until: undefined,
  }
  const server = Object.assign(upstream, more) as TokenServer
  return server
}

function refusalOf({ method, url, rawHeaders, body }: Recorded, client: TokenClient): string | undefined {
  const values = (name: string): string[] => rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name)
  if (method !== 'POST' || url !== '/oauth/token?tenant=a') return 'invalid_request'
  if (values('content-type').join() !== 'application/x-www-form-urlencoded' || values('accept').join() !== 'application/json')
    return 'invalid_request'
  const form = new Map<string, string>()
  for (const pair of body.toString().split('&')) {
    const [name = '', value = ''] = pair.split('=').map((part) => decodeURIComponent(part.replaceAll('+', ' ')))
    if (form.has(name)) return 'invalid_request' // RFC 6749 §3.2
    form.set(name, value)
  }
  const basic = values('authorization')
  const [, encoded = ''] = /^Basic ([A-Za-z0-9+/]+=*)$/.exec(basic.join()) ?? []
  const said = Buffer.from(encoded, 'base64')
    .toString()
    .split(':')
    .map((part) => decodeURIComponent(part.replaceAll('+', ' ')))
  const inBody = [form.get('client_id'), form.get('client_secret')]
  const isProven =
    client.proof === 'basic'
      ? said.length === 2 && said[0] === client.id && said[1] === client.password && inBody.every((value) => value === undefined)
      : basic.length === 0 && inBody[0] === client.id && inBody[1] === client.password
  if (!isProven) return 'invalid_client'
  if (client.refreshToken === undefined) return form.get('grant_type') === 'client_credentials' ? undefined : 'unsupported_grant_type'
  if (form.get('grant_type') !== 'refresh_token') return 'unsupported_grant_type'
  return form.get('refresh_token') === client.refreshToken ? undefined : 'invalid_grant'
}

/** The gate's own part before token servers, as it is put together there, with a clock that is set by hand. */
export type TokenGate = AsyncDisposable & {
  readonly post: TokenPost
  readonly exchanges: TokenExchanges
  readonly clock: { ms: number }
  readonly stop: AbortController
  /** A policy that replaces the one before: connections of that carry nothing new. */
  reload(): void
  readonly connections: { readonly size: number }
  /** Names that were looked up. */
  readonly lookedUp: string[]
}

export function openTokenGate(): TokenGate {
  const policy = policyOf({ rules: [{ id: 'r', host: 'api.example.com' }] })
  const clock = { ms: Date.UTC(2026, 0, 1) }
  const stop = new AbortController()
  const upstreams = createUpstreams(TRUST)
  const lookedUp: string[] = []
  const addresses = createAddresses(
    (host) => {
      lookedUp.push(host)
      return Promise.resolve(['127.0.0.1'])
    },
    { isListener: () => false, isBeside: () => false },
    { elapsed: () => 0 },
  )
  let generation = 0
  const post = createTokenClient({ enforcement: () => ({ policy, generation }), addresses, upstreams, signal: stop.signal })
  return {
    post,
    exchanges: createTokenExchanges(post, { now: () => clock.ms }),
    clock,
    stop,
    reload() {
      generation += 1
      upstreams.retire(generation)
    },
    connections: upstreams,
    lookedUp,
    [Symbol.asyncDispose]: () => upstreams[Symbol.asyncDispose](),
  }
}

/** An exchange at a server that may lie on loopback. */
export function exchangeAt(url: string, more: Partial<TokenExchange> = {}): TokenExchange {
  return {
    grant: 'client_credentials',
    tokenUrl: url,
    clientId: 'client',
    parameters: {},
    authentication: 'basic',
    addresses: ['127.0.0.1/32'],
    ...more,
  }
}
