import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2'
import type { Duplex } from 'node:stream'
import { CARRYING, EVERY_WAY, NotCarried, type EveryWay, type Scheme, type Way } from './every-way.ts'
import { answerOf } from './http2-agent.ts'
import { readToEnd } from './raw-client.ts'

export const VERSIONS = ['HTTP/1.1', 'HTTP/2'] as const
export type Version = (typeof VERSIONS)[number]

/** One way in, and what the agent speaks on it. */
export type Approach = { readonly way: Way; readonly version: Version }

/** Every way in with every version that it carries: requests at the proxy and at a route are HTTP/1.1. */
export const APPROACHES: readonly Approach[] = [
  ...EVERY_WAY.map((way) => ({ way, version: 'HTTP/1.1' as const })),
  ...CARRYING.map((way) => ({ way, version: 'HTTP/2' as const })),
]

export function named({ way, version }: Approach): string {
  return `${way}, ${version}`
}

export type Fields = readonly (readonly [name: string, value: string])[]

export type Asked = {
  readonly host: string
  readonly method?: string
  readonly path?: string
  /** Fields besides Host, as they are. */
  readonly fields?: Fields
  readonly body?: string | Buffer
  /** Only HTTP/1.1 has the other one. Default: https. */
  readonly scheme?: Scheme
}

export type Got = {
  /** 0 where there was no answer. */
  readonly status: number
  /** The code of a refusal. */
  readonly code: string | undefined
  /** Names and values in turn. */
  readonly headers: readonly string[]
  readonly body: Buffer
  readonly trailers: readonly string[]
  /** All that came, decrypted; of HTTP/2 what its frames said. */
  readonly bytes: Buffer
  /** Whether the answer ended as it should. */
  readonly isWhole: boolean
  /** What the way itself said instead, as `HTTP 403`, `SOCKS 2`, `alert 49`, `closed`. */
  readonly refused?: string
}

/** One request by one approach, on a connection of its own. Never rejects for what the gate says. */
export async function ask(setting: EveryWay, { way, version }: Approach, asked: Asked): Promise<Got> {
  try {
    return version === 'HTTP/2' ? await askHttp2(setting, way, asked) : await askHttp1(setting, way, asked)
  } catch (error) {
    if (!(error instanceof NotCarried)) throw error
    const bytes = Buffer.from(error.body)
    return { ...NOTHING, code: codeIn(bytes), body: bytes, bytes, refused: error.said }
  }
}

const NOTHING: Got = {
  status: 0,
  code: undefined,
  headers: [],
  body: Buffer.alloc(0),
  trailers: [],
  bytes: Buffer.alloc(0),
  isWhole: false,
}

async function askHttp1(setting: EveryWay, way: Way, asked: Asked): Promise<Got> {
  const { method = 'GET', path = '/', fields = [], body, scheme = 'https', host } = asked
  const { socket, target, authority } = await setting.open(way, scheme, host)
  const length: Fields = body === undefined || hasFraming(fields) ? [] : [['Content-Length', String(Buffer.byteLength(body))]]
  const lines = [...fields, ...length].map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.write(`${method} ${target(path)} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n${lines}\r\n`, 'latin1')
  if (body !== undefined) socket.write(body)
  return readAnswer(Buffer.from(await readToEnd(socket), 'latin1'))
}

const hasFraming = (fields: Fields): boolean => fields.some(([name]) => /^(content-length|transfer-encoding)$/i.test(name))

async function askHttp2(setting: EveryWay, way: Way, asked: Asked): Promise<Got> {
  const { method = 'GET', path = '/', fields = [], body, host } = asked
  if (way === 'absolute form' || way === 'route') throw new Error(`${way} carries no HTTP/2`)
  const session = openSession(host, await setting.dialTls(way, host, 443, { ALPNProtocols: ['h2'] }))
  const head: Record<string, string | string[]> = { ':method': method, ':path': path }
  for (const [name, value] of fields) {
    const lower = name.toLowerCase()
    head[lower] = lower in head ? [head[lower] ?? [], value].flat() : value
  }
  const stream = session.request(head, { endStream: body === undefined })
  if (body !== undefined) stream.end(body)
  const answer = await answerOf(stream)
  session.destroy()
  const interim = answer.interim.map((early) => Object.entries(early).map(([name, value]) => `${name}: ${String(value)}`))
  const said = [...interim.flat(), ...answer.headers, ...answer.trailers].join('\n')
  return {
    ...answer,
    code: codeIn(answer.bytes),
    body: answer.bytes,
    bytes: Buffer.concat([Buffer.from(said, 'latin1'), Buffer.from('\n'), answer.bytes]),
    isWhole: answer.rstCode === 0 && answer.status !== 0,
  }
}

export function openSession(host: string, socket: Duplex): ClientHttp2Session {
  const session = connectHttp2(`https://${host}`, { createConnection: () => socket })
  session.on('error', () => {})
  return session
}

/** Reads an answer of HTTP/1.1 to a request that was the last of its connection. Interim answers stay in `bytes` alone. */
export function readAnswer(bytes: Buffer): Got {
  let rest = bytes
  for (;;) {
    const end = rest.indexOf('\r\n\r\n')
    if (end < 0) return { ...NOTHING, bytes, body: rest }
    const [first = '', ...lines] = rest.subarray(0, end).toString('latin1').split('\r\n')
    rest = rest.subarray(end + 4)
    const status = Number(first.split(' ')[1])
    if (status >= 100 && status < 200 && status !== 101) continue
    const headers = fieldsOf(lines)
    const at = (name: string): string | undefined =>
      headers[headers.findIndex((field, i) => i % 2 === 0 && field.toLowerCase() === name) + 1]
    const has = (name: string): boolean => headers.some((field, i) => i % 2 === 0 && field.toLowerCase() === name)
    const read = has('transfer-encoding')
      ? dechunk(rest)
      : { body: rest, trailers: [], isWhole: !has('content-length') || Number(at('content-length')) === rest.length }
    return { status, headers, ...read, code: codeIn(read.body), bytes }
  }
}

function fieldsOf(lines: readonly string[]): string[] {
  return lines.flatMap((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()])
}

function dechunk(bytes: Buffer): { body: Buffer; trailers: string[]; isWhole: boolean } {
  const parts: Buffer[] = []
  for (let at = 0; ;) {
    const end = bytes.indexOf('\r\n', at)
    const size = end < 0 ? Number.NaN : Number.parseInt(bytes.toString('latin1', at, end), 16)
    if (Number.isNaN(size)) return { body: Buffer.concat(parts), trailers: [], isWhole: false }
    if (size === 0) {
      const trailers = bytes
        .toString('latin1', end + 2)
        .split('\r\n')
        .filter(Boolean)
      return { body: Buffer.concat(parts), trailers: fieldsOf(trailers), isWhole: true }
    }
    parts.push(bytes.subarray(end + 2, end + 2 + size))
    at = end + 4 + size
  }
}

function codeIn(body: Buffer): string | undefined {
  try {
    const { code } = JSON.parse(body.toString()) as { code?: unknown }
    return typeof code === 'string' ? code : undefined
  } catch {
    return undefined
  }
}

/** The value of a field, or undefined. */
export function fieldOf(headers: readonly string[], name: string): string | undefined {
  const at = headers.findIndex((field, i) => i % 2 === 0 && field.toLowerCase() === name)
  return at < 0 ? undefined : headers[at + 1]
}
