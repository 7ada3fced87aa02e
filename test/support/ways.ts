import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { cleanEnvironment, runProgram, startProxy, type Ended, type Environment, type RunningProxy } from './command.ts'
import { readEvents } from './audit.ts'
import { createUpstreamCa, leafFor, type Place } from './upstream.ts'

/** The value that must never be seen outside the upstream it is for. */
export const CANARY = 'canary-2b8d41f06c'

export type WaysOptions = {
  /** The hosts that are allowed, each with lines for its rule and how `CANARY` is written into its requests. */
  readonly hosts: Readonly<Record<string, { readonly rule?: string; readonly inject?: string }>>
  /** Hosts that the gate could find and no rule is about. */
  readonly denied?: readonly string[]
  /** Lines added to `rules`. */
  readonly rules?: string
  /** Lines added to the policy. */
  readonly more?: string
  readonly args?: readonly string[]
}

export type Ways = AsyncDisposable & {
  readonly proxy: RunningProxy
  /** host:port of each way in. */
  readonly socks: string
  readonly dns: string
  readonly transparent: { readonly http: string; readonly https: string }
  readonly gateway: string
  /** What a program of the agent knows: whom to trust, and nothing of a proxy. */
  readonly env: Environment
  readonly ca: string
  /** Runs a program as the agent would, and sees to it that no secret is in what it prints. */
  run(argv: readonly string[], more?: Environment, cwd?: string): Promise<Ended>
  audit(): Promise<Record<string, unknown>[]>
}

/** Where the upstreams of one test file are: each host has a loopback address of its own, and there the ports 443 and 80. */
export type Places = AsyncDisposable & {
  at(host: string, port: number): Place
  tls(host: string): { cert: string; key: string }
  /** A gate with all its ways in, as a process, that finds every one of its hosts here. */
  open(options: WaysOptions): Promise<Ways>
}

export async function openPlaces(): Promise<Places> {
  const upstreamCa = await createUpstreamCa()
  const network = `127.${randomInt(16, 255)}.${randomInt(0, 255)}`
  const hosts: string[] = []
  const addressOf = (host: string): string => {
    if (!hosts.includes(host)) hosts.push(host)
    return `${network}.${hosts.indexOf(host) + 1}`
  }
  return {
    at: (host, port) => ({ host: addressOf(host), port }),
    tls: (host) => leafFor(upstreamCa.authority, host),
    open: (options) => openWays(options, addressOf, upstreamCa.file),
    [Symbol.asyncDispose]: () => upstreamCa[Symbol.asyncDispose](),
  }
}

async function openWays(options: WaysOptions, addressOf: (host: string) => string, upstreamCa: string): Promise<Ways> {
  const proxy = await startProxy({
    policy: policyOf(options),
    args: [
      '--socks',
      '127.0.0.1:0',
      '--dns',
      '127.0.0.1:0',
      '--transparent',
      '127.0.0.1:0,127.0.0.1:0',
      '--gateway',
      '127.0.0.1:0',
      '--upstream-ca',
      upstreamCa,
      ...[...Object.keys(options.hosts), ...(options.denied ?? [])].flatMap((host) => ['--resolve', `${host}=${addressOf(host)}`]),
      ...(options.args ?? []),
    ],
    env: { TOKEN: CANARY },
  })
  const { socks, dns, transparent: [http, https] = [], gateway, ca } = proxy.ready
  if (!socks || !dns || !http || !https || !gateway) throw new Error(`a way in is missing: ${JSON.stringify(proxy.ready)}`)
  const env = {
    ...cleanEnvironment(proxy.home),
    CURL_CA_BUNDLE: ca,
    SSL_CERT_FILE: ca,
    GIT_SSL_CAINFO: ca,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    NODE_EXTRA_CA_CERTS: ca,
  }
  return {
    proxy,
    socks,
    dns,
    transparent: { http, https },
    gateway,
    ca: await readFile(ca, 'utf8'),
    env,
    async run(argv, more = {}, cwd) {
      const ended = await runProgram(argv, { ...env, ...more }, cwd)
      assert.ok(!(ended.stdout + ended.stderr).includes(CANARY), 'a secret came back to the agent')
      return ended
    },
    audit: () => readEvents(proxy.ready.audit),
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  }
}

function policyOf({ hosts, rules = '', more = '' }: WaysOptions): string {
  const allowed = Object.entries(hosts).map(
    ([host, { rule = '' }], n) => `    - {id: host-${n}, host: ${host}, action: allow, addresses: ["127.0.0.0/8"]${rule && `, ${rule}`}}\n`,
  )
  const credentials = Object.entries(hosts).flatMap(([host, { inject }], n) =>
    inject === undefined ? [] : [`  - {id: credential-${n}, secret: TOKEN, inject: {domains: [${host}], ${inject}}}\n`],
  )
  return `version: 1
network:
  rules:
${allowed.join('')}${rules}credentials:
${credentials.join('') || '  []\n'}secrets:
${credentials.length > 0 ? '  - {name: TOKEN, source: "env:TOKEN"}\n' : '  []\n'}${more}`
}

/** A bearer token in Authorization. */
export const BEARER = 'header: Authorization, prefix: "Bearer "'

export function portOf(endpoint: string): number {
  return Number(endpoint.split(':').at(-1))
}
