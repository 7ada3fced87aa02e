import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { openUpstream, type Place, type Upstream } from './upstream.ts'

export type PackageSource = {
  readonly name: string
  readonly version: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly files: Readonly<Record<string, string>>
}

/**
 * A registry of npm packages on loopback, known to its clients as `host`. Without the header `authorization` every answer is
 * 401, as of a private one.
 */
export function openPackageRegistry(
  packages: readonly PackageSource[],
  options: { host: string; authorization: string; tls: { cert: string; key: string }; place: Place },
): Promise<Upstream> {
  const tarballs = new Map(packages.map((source) => [`/${source.name}/-/${source.name}-${source.version}.tgz`, tarball(source)]))
  return openUpstream(
    (request, response) => {
      const authorization = request.rawHeaders[request.rawHeaders.findIndex((name) => name.toLowerCase() === 'authorization') + 1]
      if (authorization !== options.authorization) return void response.writeHead(401).end()
      const bytes = tarballs.get(request.url)
      if (bytes !== undefined) return void response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(bytes)
      const asked = packages.find(({ name }) => request.url === `/${name}`)
      if (asked === undefined) return void response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"not found"}')
      const path = `/${asked.name}/-/${asked.name}-${asked.version}.tgz`
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(packument(asked, `https://${options.host}${path}`, tarballs.get(path) ?? Buffer.alloc(0))))
    },
    options.tls,
    options.place,
  )
}

function packument({ name, version, dependencies }: PackageSource, url: string, bytes: Buffer): object {
  const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
  return {
    name,
    'dist-tags': { latest: version },
    versions: { [version]: { name, version, dependencies, dist: { tarball: url, integrity } } },
  }
}

function tarball({ name, version, dependencies, files }: PackageSource): Buffer {
  const all = { 'package.json': JSON.stringify({ name, version, dependencies, type: 'module', exports: './index.js' }), ...files }
  const entries = Object.entries(all).map(([file, text]) => entry(`package/${file}`, Buffer.from(text)))
  return gzipSync(Buffer.concat([...entries, Buffer.alloc(1024)]))
}

/** One file of a ustar archive (POSIX.1-1988, pax "ustar Interchange Format"). */
function entry(path: string, content: Buffer): Buffer {
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`
  const header = Buffer.alloc(512)
  header.write(path, 0)
  header.write(octal(0o644, 7), 100)
  header.write(octal(0, 7), 108)
  header.write(octal(0, 7), 116)
  header.write(octal(content.length, 11), 124)
  header.write(octal(0, 11), 136)
  header.write('        0', 148) // the checksum counts as spaces; then a regular file
  header.write('ustar\x0000', 257)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${octal(sum, 6)} `, 148)
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)])
}
