import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { pino } from 'pino'
import { openAudit } from '../../src/audit/audit.ts'
import { system } from '../../src/kernel/system.ts'
import { createAuthority } from '../../src/pki/pki.ts'
import { createCredentialUse } from '../../src/sidecar/credential-use.ts'
import { enforce } from '../../src/sidecar/enforcement.ts'
import { createAddresses } from '../../src/sidecar/upstream/addresses.ts'
import { createConnections } from '../../src/sidecar/inbound/connections.ts'
import { createContexts } from '../../src/sidecar/inbound/contexts.ts'
import { createHandle } from '../../src/sidecar/egress/handle.ts'
import { createFront } from '../../src/sidecar/inbound/front.ts'
import { createAsking } from '../../src/sidecar/egress/asking.ts'
import { createExchanges } from '../../src/sidecar/egress/exchange.ts'
import { createLease } from '../../src/sidecar/egress/lease.ts'
import { createLive } from '../../src/sidecar/egress/live.ts'
import { createLoad } from '../../src/sidecar/egress/load.ts'
import { createResolve, type AskDns } from '../../src/sidecar/upstream/resolve.ts'
import { createUpstreams, type Upstreams } from '../../src/sidecar/upstream/upstreams.ts'
import { policyOf } from './policy.ts'
import { readEvents } from './audit.ts'

export type TestEgress = AsyncDisposable & {
  readonly port: number
  readonly socksPort: number
  /** The session's authority, for clients inside a tunnel. */
  readonly ca: string
  /** Every question to the DNS, as `NAME FAMILY`. */
  readonly asked: string[]
  /** The clock of the resolver. */
  readonly clock: { ms: number }
  audit(): Promise<Record<string, unknown>[]>
}

/** The gate's own parts on a real listener, before a DNS that the test makes up. */
export async function openTestEgress(options: {
  policy: string
  answer: (host: string, family: 4 | 6) => readonly { address: string; ttl: number }[]
  env?: Record<string, string>
  upstreamCa?: string
  /** Stands for the dialling of tunnels. */
  dial?: Upstreams['dial']
}): Promise<TestEgress> {
  await using parts = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-test-'))
  parts.defer(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'audit.jsonl')
  const policy = policyOf(options.policy)
  const log = pino({ level: 'silent' })
  const audit = parts.use(await openAudit({ file, session: 'test' }, system, log))
  const asked: string[] = []
  const clock = { ms: Date.now() }
  const ask: AskDns = async (host, family) => {
    asked.push(`${host} ${family}`)
    return options.answer(host, family)
  }
  const resolve = createResolve({ fixed: new Map(), hostsFile: join(folder, 'no-hosts'), ask }, { now: () => clock.ms })
  const addresses = createAddresses(resolve, { isListener: () => false, isBeside: () => false }, system)
  const real = parts.use(createUpstreams(createSecureContext({ ca: options.upstreamCa })))
  const upstreams: Upstreams = options.dial ? { ...real, dial: options.dial } : real
  const authority = createAuthority('test', system)
  const enforced = enforce(policy, { env: options.env ?? {}, placeholderSeed: 'test-seed', system }, 0)
  const exchanges = createExchanges({ audit, log, system })
  const asking = parts.use(createAsking(undefined, log, system))
  const shared = {
    enforcement: () => enforced,
    exchanges,
    asking,
    lease: createLease(),
    live: createLive(() => enforced),
    addresses,
    upstreams,
    load: createLoad(),
    log,
  }
  const front = createFront({
    ...shared,
    handle: createHandle({ ...shared, ...createCredentialUse({ ...shared, audit, system }) }),
    contexts: createContexts(authority, system),
    connections: createConnections(),
    isResolver: false,
    system,
  })
  const server = front.createProxy()
  const socks = front.createSocks()
  for (const listener of [server, socks]) {
    await new Promise<void>((done) => listener.listen(0, '127.0.0.1', () => done()))
    parts.defer(() => new Promise<void>((done) => listener.close(() => done())))
  }
  parts.defer(() => front.destroy())
  const all = parts.move()
  return {
    port: (server.address() as AddressInfo).port,
    socksPort: (socks.address() as AddressInfo).port,
    ca: authority.certificatePem,
    asked,
    clock,
    audit: () => readEvents(file),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
