import { randomUUID } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { openAudit } from '../audit/audit.ts'
import { openSecrets } from '../credential/credential.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { formatAuthority } from '../kernel/hostname.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import { system as realSystem, type System } from '../kernel/system.ts'
import { createAuthority, openAuthority, publishAuthority } from '../pki/pki.ts'
import type { Policy } from '../policy/policy.ts'
import { createAddresses } from './upstream/addresses.ts'
import { createContexts } from './inbound/contexts.ts'
import { createHandle } from './egress/handle.ts'
import { createHttpFront } from './inbound/http-front.ts'
import { createResolve } from './upstream/resolve.ts'
import { createUpstreams } from './upstream/upstreams.ts'

export type Endpoint = { readonly host: string; readonly port: number }

export type SidecarConfig = {
  readonly version: string
  readonly session: string
  readonly workspace?: string
  readonly policy: Policy
  readonly http: readonly Endpoint[]
  readonly gateway: readonly Endpoint[]
  /** Folder for the public part of the CA. */
  readonly caDir: string
  /** Folder that keeps the CA with its key over restarts; without it the CA lives in memory. */
  readonly caPersist?: string
  /** PEM files of further authorities that upstreams may be certified by. */
  readonly upstreamCa: readonly string[]
  /** Addresses that the operator gives for names. */
  readonly fixedAddresses: ReadonlyMap<string, readonly string[]>
  readonly audit: string
  /** When given, connections from other addresses are closed at once. */
  readonly allowsClient?: (address: string) => boolean
  readonly env: Readonly<Record<string, string | undefined>>
}

export type Sidecar = AsyncDisposable & {
  /** Bound addresses, in the order of the configuration. */
  readonly http: readonly string[]
  readonly gateway: readonly string[]
  readonly caFile: string
  readonly auditFile: string
  /** Stops accepting, lets running exchanges end within `LIMITS.drainMs`. */
  drain(): Promise<void>
}

/**
 * Builds the gate's parts in order, and takes them down in reverse. It listens when this resolves.
 * @throws secret_missing, secret_invalid, ca_invalid, ca_file_invalid, audit_open_failed, listen_failed
 */
export async function openSidecar(config: SidecarConfig, log: Log, system: System = realSystem): Promise<Sidecar> {
  await using parts = new AsyncDisposableStack()
  const { policy } = config
  const secrets = openSecrets(policy.secrets, config.env, system)
  const { trust, publicRoots } = await loadTrust(config.upstreamCa)
  const authority =
    config.caPersist === undefined ? createAuthority(config.session, system) : await openAuthority(config.caPersist, config.session, system)
  await mkdir(config.caDir, { recursive: true })
  await publishAuthority(config.caDir, authority, publicRoots)

  const audit = parts.use(
    await openAudit(
      { file: config.audit, session: config.session, ...(config.workspace !== undefined && { workspace: config.workspace }) },
      system,
      log,
    ),
  )
  await audit.append({ event: 'started', version: config.version, policy: policy.digest })
  parts.defer(() =>
    audit.append({ event: 'stopped' }).catch((error: unknown) => log.error({ code: codeOf(error) }, 'the end could not be audited')),
  )

  const ports = new Set<number>()
  const addresses = createAddresses(policy, createResolve({ fixed: config.fixedAddresses }, system), () => ports, system)
  const upstreams = parts.use(createUpstreams(trust))
  const handle = createHandle({ policy, audit, secrets, addresses, upstreams, log, system })
  const front = createHttpFront({ policy, audit, addresses, log, system, handle, contexts: createContexts(authority, system) })

  const servers: Server[] = []
  const listen = async (server: Server, endpoint: Endpoint): Promise<string> => {
    parts.defer(async () => {
      const closed = closeServer(server)
      server.closeAllConnections()
      front.destroy() // tunnels are no longer the server's own, and it waits for them
      await closed
    })
    servers.push(server)
    const { allowsClient } = config
    if (allowsClient) server.prependListener('connection', (socket) => void (allowsClient(socket.remoteAddress ?? '') || socket.destroy()))
    const address = await bind(server, endpoint)
    ports.add(address.port)
    return formatAuthority(address.address, address.port)
  }
  const http = await inOrder(config.http, (endpoint) => listen(front.createListener(), endpoint))
  const gateway = await inOrder(config.gateway, async (endpoint) => {
    // Loaded where it is asked for: its framework is a tenth of an idle gate's memory.
    const { createGateway } = await import('./gateway/gateway.ts')
    const server = createGateway(authority.certificatePem)
    await server.ready()
    server.server.maxConnections = LIMITS.gatewayConnectionsMax
    return listen(server.server, endpoint)
  })

  const running = parts.move()
  return {
    http,
    gateway,
    caFile: join(config.caDir, 'ca.crt'),
    auditFile: config.audit,
    async drain() {
      const closed = servers.map((server) => closeServer(server))
      const deadline = system.elapsed() + LIMITS.drainMs
      while (front.connections > 0 && system.elapsed() < deadline) {
        front.drain()
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      front.destroy()
      for (const server of servers) server.closeAllConnections()
      await Promise.all(closed)
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

export function newSessionId(): string {
  return randomUUID()
}

/**
 * The roots that upstreams are verified against: the system's, else Node's own, plus the operator's files.
 * @throws ca_file_invalid
 */
async function loadTrust(files: readonly string[]): Promise<{ trust: SecureContext; publicRoots: string[] }> {
  const system = getCACertificates('system')
  const publicRoots = system.length > 0 ? system : getCACertificates('bundled')
  const extra: string[] = []
  for (const file of files) {
    const pem = await readFile(file, 'utf8').catch((cause: unknown) => {
      throw new SallyportError('ca_file_invalid', `${file} cannot be read (${codeOf(cause)})`, { hint: 'give a readable PEM file', cause })
    })
    const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    if (certificates.length === 0 && pem.trim() !== '') {
      throw new SallyportError('ca_file_invalid', `${file} holds no certificate`, { hint: 'give a file of PEM certificates' })
    }
    extra.push(...certificates)
  }
  try {
    return { trust: createSecureContext({ ca: [...publicRoots, ...extra], minVersion: 'TLSv1.2' }), publicRoots }
  } catch (cause) {
    throw new SallyportError('ca_file_invalid', `a certificate in ${files.join(', ')} cannot be read`, { cause })
  }
}

async function bind(server: Server, endpoint: Endpoint): Promise<AddressInfo> {
  const where = formatAuthority(endpoint.host, endpoint.port)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new SallyportError('listen_failed', `cannot listen on ${where} (${codeOf(cause)})`, {
          hint: 'choose a free port of an address that this machine has',
          cause,
        }),
      ),
    )
    server.listen({ host: endpoint.host, port: endpoint.port, backlog: 4096 }, resolve)
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new SallyportError('listen_failed', `cannot listen on ${where}`)
  return address
}

/** Stops listening. Resolves when the last connection is gone. */
function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeIdleConnections()
  })
}

async function inOrder<T, R>(items: readonly T[], each: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (const item of items) results.push(await each(item))
  return results
}
