import type { ServerResponse } from 'node:http'
import { createUpstreamCa, leafFor, openUpstream, type Recorded, type Upstream } from './upstream.ts'

type Version = { data: Record<string, unknown> | null; deletedAt: string; destroyed: boolean }

/** A server that answers as HashiCorp documents it: key-value store of version 2 at `secret/`, wrapping, namespaces. */
export type VaultServer = AsyncDisposable & {
  readonly address: string
  readonly caFile: string
  readonly upstream: Upstream
  readonly token: string
  /** Versions of each secret by path, the first is version 1. */
  readonly secrets: Map<string, Version[]>
  /** Wrapping tokens and the token in each; one that is unwrapped is gone. */
  readonly wrapped: Map<string, string>
  /** Answers in the place of the real one. */
  fault: ((request: Recorded, response: ServerResponse) => void) | undefined
  put(path: string, data: Record<string, unknown>): void
}

export type VaultServerOptions = { readonly namespace?: string; readonly host?: string; readonly isPlain?: boolean }

export async function openVaultServer({ namespace, host = '127.0.0.1', isPlain = false }: VaultServerOptions = {}): Promise<VaultServer> {
  const ca = await createUpstreamCa()
  const tls = isPlain ? undefined : leafFor(ca.authority, host)
  const token = 'hvs.the-token-of-the-operator'
  const secrets = new Map<string, Version[]>()
  const wrapped = new Map<string, string>()
  const upstream = await openUpstream((request, response) => {
    if (server.fault !== undefined) return server.fault(request, response)
    const { status, body } = answer(request)
    response.writeHead(status, { 'content-type': 'application/json' }).end(body === undefined ? '' : JSON.stringify(body))
  }, tls)
  const server: VaultServer = {
    address: `${isPlain ? 'http' : 'https'}://127.0.0.1:${upstream.port}`,
    caFile: ca.file,
    upstream,
    token,
    secrets,
    wrapped,
    fault: undefined,
    put: (path, data) => void secrets.set(path, [...(secrets.get(path) ?? []), { data, deletedAt: '', destroyed: false }]),
    async [Symbol.asyncDispose]() {
      await upstream[Symbol.asyncDispose]()
      await ca[Symbol.asyncDispose]()
    },
  }
  return server

  function answer(request: Recorded): { status: number; body?: unknown } {
    const headers = headersOf(request)
    const given = headers['x-vault-token'] ?? ''
    if ((headers['x-vault-namespace'] ?? '') !== (namespace ?? '')) return refuse(403, 'permission denied')
    const url = new URL(request.url, 'https://vault')
    if (request.method === 'POST' && url.pathname === '/v1/sys/wrapping/unwrap') {
      const inside = wrapped.get(given)
      wrapped.delete(given)
      return inside === undefined
        ? refuse(400, 'wrapping token is not valid or does not exist')
        : { status: 200, body: { request_id: 'r', lease_duration: 0, data: null, auth: { client_token: inside, lease_duration: 3600 } } }
    }
    if (given !== token) return refuse(403, 'permission denied')
    const [, kind, path = ''] = /^\/v1\/secret\/(data|metadata)\/?(.*)$/.exec(decodeURIComponent(url.pathname)) ?? []
    if (kind === 'metadata' && request.method === 'GET' && url.searchParams.get('list') === 'true') return list(path)
    return kind === 'data' ? stored(request, headers, url, path) : refuse(404, 'no handler for route')
  }

  function stored({ method, body }: Recorded, headers: Record<string, string>, url: URL, path: string): { status: number; body?: unknown } {
    const versions = secrets.get(path) ?? []
    const latest = versions.at(-1)
    const sent = body.length === 0 ? {} : (JSON.parse(body.toString()) as { options?: { cas?: number }; data?: Record<string, unknown> })
    switch (method) {
      case 'GET': {
        const number = Number(url.searchParams.get('version') ?? versions.length)
        const version = versions[number - 1]
        if (version === undefined) return { status: 404, body: { errors: [] } }
        const metadata = { version: number, deletion_time: version.deletedAt, destroyed: version.destroyed }
        const isGone = version.deletedAt !== '' || version.destroyed
        return { status: isGone ? 404 : 200, body: { data: { data: isGone ? null : version.data, metadata } } }
      }
      case 'PATCH': {
        if (headers['content-type'] !== 'application/merge-patch+json') return refuse(415, 'unsupported media type')
        if (latest?.data === undefined || latest.data === null) return { status: 404, body: { errors: [] } }
        const merged = Object.fromEntries(Object.entries({ ...latest.data, ...sent.data }).filter(([, value]) => value !== null))
        server.put(path, merged)
        return { status: 200, body: { data: { version: versions.length + 1 } } }
      }
      case 'POST': {
        if (sent.options?.cas !== undefined && sent.options.cas !== versions.length)
          return refuse(400, 'check-and-set parameter did not match the current version')
        server.put(path, sent.data ?? {})
        return { status: 200, body: { data: { version: versions.length + 1 } } }
      }
      default:
        return refuse(405, 'unsupported operation')
    }
  }

  function list(path: string): { status: number; body?: unknown } {
    const prefix = path === '' || path.endsWith('/') ? path : `${path}/`
    const below = [...secrets.keys()].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length))
    const keys = [...new Set(below.map((key) => (key.includes('/') ? key.slice(0, key.indexOf('/') + 1) : key)))]
    return keys.length === 0 ? { status: 404, body: { errors: [] } } : { status: 200, body: { data: { keys: keys.toSorted() } } }
  }

  function refuse(status: number, error: string): { status: number; body: unknown } {
    return { status, body: { errors: [error] } }
  }
}

/** Names in lower case; of a repeated field the last. */
export function headersOf({ rawHeaders }: Recorded): Record<string, string> {
  const headers: Record<string, string> = {}
  for (let i = 0; i < rawHeaders.length; i += 2) headers[(rawHeaders[i] ?? '').toLowerCase()] = rawHeaders[i + 1] ?? ''
  return headers
}
