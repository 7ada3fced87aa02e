import type { ServerResponse } from 'node:http'
import { createSecureContext, type TlsOptions } from 'node:tls'
import { openTestGate, type TestGate, type TestGateOptions } from './gate.ts'
import { createUpstreamCa, leafFor, openUpstream, type Recorded, type Upstream } from './upstream.ts'

export const API = 'api.example.com'
export const OTHER = 'other.example.com'
/** The value that must never be seen outside the upstream it is for. */
export const CANARY = 'canary-7f3a9c5e1b'

/**
 * What most tests of the gate need: a gate, and behind it one TLS and one plain upstream, each reached under two names that
 * are allowed. `CANARY` is written into the Authorization of the first name's requests.
 */
export type Setting = AsyncDisposable & {
  readonly gate: TestGate
  readonly secure: Upstream
  readonly plain: Upstream
  readonly ca: string
}

export type SettingOptions = {
  answer?: (request: Recorded, response: ServerResponse) => void
  /** Lines added to the rule of the API host, such as `tls: passthrough`. */
  rule?: string
  /** Lines added to `rules`. */
  rules?: string
  /** Replaces the inject line of the credential. */
  inject?: string
  source?: string
  gate?: Partial<TestGateOptions>
  /** The TLS upstream has a certificate for the other name too. */
  isBoth?: boolean
}

export async function openSetting(options: SettingOptions = {}): Promise<Setting> {
  await using parts = new AsyncDisposableStack()
  const upstreamCa = parts.use(await createUpstreamCa())
  const answer = options.answer ?? ((_request, response) => void response.end('ok'))
  const leaf = leafFor(upstreamCa.authority, API)
  const SNICallback: TlsOptions['SNICallback'] = (name, done) =>
    done(null, createSecureContext(name === OTHER ? leafFor(upstreamCa.authority, OTHER) : leaf))
  const secure = parts.use(await openUpstream(answer, { ...leaf, ...(options.isBoth === true && { SNICallback }) }))
  const plain = parts.use(await openUpstream(answer))
  const gate = parts.use(
    await openTestGate({
      policy: policyFor([secure.port, plain.port], options),
      env: { API_TOKEN: CANARY },
      upstreamCa: [upstreamCa.file],
      hosts: { [API]: ['127.0.0.1'], [OTHER]: ['127.0.0.1'] },
      ...options.gate,
    }),
  )
  const ca = await gate.caPem()
  const all = parts.move()
  return { gate, secure, plain, ca, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

export function policyFor(ports: readonly number[], options: SettingOptions = {}): string {
  const extra = (options.rule ?? '').split('\n').filter(Boolean)
  return `version: 1
network:
  mode: restricted
  rules:
    - id: api
      host: ${API}
      ports: [${ports.join(', ')}]
      action: allow
      addresses: ["127.0.0.0/8"]
${extra.map((line) => `      ${line}\n`).join('')}    - id: other
      host: ${OTHER}
      ports: [${ports.join(', ')}]
      action: allow
      addresses: ["127.0.0.0/8"]
${options.rules ?? ''}${
    options.inject === ''
      ? ''
      : `credentials:
  - id: api-token
    secret: API_TOKEN
    inject: ${options.inject ?? `{domains: [${API}], header: Authorization, prefix: "Bearer "}`}
secrets:
  - {name: API_TOKEN, source: "${options.source ?? 'env:API_TOKEN'}", resources: [inject]}
`
  }`
}
