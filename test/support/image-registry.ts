import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { arch } from 'node:process'
import { gzipSync } from 'node:zlib'

/** A registry for images of one layer, on loopback: engines speak plain HTTP to 127.0.0.0/8. Reading only, API version 2. */
export type ImageRegistry = AsyncDisposable & {
  /** An image of these files, by their paths. Gives the name that an engine fetches it by. */
  add(name: string, files: Readonly<Record<string, Buffer>>): string
  /** A name of this registry that it has nothing for. */
  missing(name: string): string
  /** Layers that were fetched. */
  readonly fetched: readonly string[]
}

const MANIFEST = 'application/vnd.docker.distribution.manifest.v2+json'

export async function openImageRegistry(): Promise<ImageRegistry> {
  const manifests = new Map<string, Buffer>()
  const blobs = new Map<string, Buffer>()
  const layers = new Set<string>()
  const fetched: string[] = []
  const server = createServer(({ url = '', method }, response) => {
    const [, image = '', kind = '', reference = ''] = /^\/v2\/([a-z]+)\/(manifests|blobs)\/(.+)$/.exec(url) ?? []
    if (url === '/v2/') return void response.setHeader('docker-distribution-api-version', 'registry/2.0').end('{}')
    const found = kind === 'manifests' ? manifests.get(`${image}:${reference}`) : blobs.get(reference)
    if (found === undefined) {
      const errors = [{ code: kind === 'manifests' ? 'MANIFEST_UNKNOWN' : 'BLOB_UNKNOWN', message: 'unknown' }]
      return void response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ errors }))
    }
    if (layers.has(reference) && method === 'GET') fetched.push(reference)
    response.writeHead(200, {
      'content-type': kind === 'manifests' ? MANIFEST : 'application/octet-stream',
      'content-length': found.length,
      'docker-content-digest': digest(found),
    })
    response.end(method === 'HEAD' ? undefined : found)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const keep = (blob: Buffer): { readonly digest: string; readonly size: number } => {
    blobs.set(digest(blob), blob)
    return { digest: digest(blob), size: blob.length }
  }
  return {
    fetched,
    missing: (name) => `${host}/${name}:1`,
    add(name, files) {
      const tar = tarOf(files)
      const layer = keep(gzipSync(tar, { level: 1 }))
      layers.add(layer.digest)
      const config = keep(
        Buffer.from(
          JSON.stringify({
            architecture: arch === 'x64' ? 'amd64' : arch,
            os: 'linux',
            config: { Env: ['PATH=/'] },
            rootfs: { type: 'layers', diff_ids: [digest(tar)] },
          }),
        ),
      )
      const manifest = Buffer.from(
        JSON.stringify({
          schemaVersion: 2,
          mediaType: MANIFEST,
          config: { mediaType: 'application/vnd.docker.container.image.v1+json', ...config },
          layers: [{ mediaType: 'application/vnd.docker.image.rootfs.diff.tar.gzip', ...layer }],
        }),
      )
      for (const reference of ['1', digest(manifest)]) manifests.set(`${name}:${reference}`, manifest)
      return `${host}/${name}:1`
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function digest(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}

/** Programs of root, as POSIX ustar has them. */
function tarOf(files: Readonly<Record<string, Buffer>>): Buffer {
  const parts = Object.entries(files).flatMap(([path, content]) => {
    const header = Buffer.alloc(512)
    header.write(path, 0)
    for (const [at, value, width] of [
      [100, 0o755, 8],
      [108, 0, 8],
      [116, 0, 8],
      [124, content.length, 12],
      [136, 0, 12],
    ] as const)
      header.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at)
    header.write('        0', 148)
    header.write('ustar\x0000', 257)
    const sum = header.reduce((total, byte) => total + byte, 0)
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
    return [header, content, Buffer.alloc((512 - (content.length % 512)) % 512)]
  })
  return Buffer.concat([...parts, Buffer.alloc(1_024)])
}
