/**
 * Answers that are looked into cost a bounded amount of memory too, whatever they expand to and however slowly they are read, and
 * nobody else's requests. Other requests are the clock: nothing here asserts a time. What an answer may expand to is lowered for
 * this process.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { after, before, test } from 'node:test'
import { brotliCompressSync, constants, createGunzip, createGzip, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { LIMITS } from '../../src/kernel/limits.ts'
import { APPROACHES, ask, named, openSession, type Approach } from '../support/every-client.ts'
import { CARRYING, openEveryWay, routeTo, type EveryWay } from '../support/every-way.ts'
import { openHttp2Upstream, type StreamRequest } from '../support/http2-upstream.ts'
import { leakIn } from '../support/leaks.ts'
import { bufferBytes, MB } from '../support/memory.ts'

Object.assign(LIMITS, { expandedBytesMax: 8 * MB })

const SECRET = 'k9Zq-Vx7wTjm4RyPbN8'
const [OLD, NEW, OTHER] = ['old.example.com', 'new.example.com', 'other.example.com'] as const
const LOOPBACK = 'addresses: ["127.0.0.0/8"]'
const POLICY = `version: 1
network:
  rules:
${[OLD, NEW, OTHER].map((host) => `    - {id: ${host.split('.')[0]}, host: ${host}, action: allow, ${LOOPBACK}}\n`).join('')}routes:
${[OLD, NEW].map((host) => `  - {name: ${routeTo('https', host)}, upstream: "https://${host}", credential: token, ${LOOPBACK}}\n`).join('')}credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${OLD}, ${NEW}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`
/** What kernel, gate and compressors may hold of a stalled stream, and what buffers may take while hundreds of megabytes pass. */
const HELD_MAX = 48 * MB
const GROWTH_MAX = 96 * MB
const BOMB_BYTES = 200 * MB

const parts = new AsyncDisposableStack()
let setting: EveryWay
let answer: (request: StreamRequest, response: ServerResponse) => void = (_request, response) => void response.end('ok')

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [OLD, NEW, OTHER], { env: { API_TOKEN: SECRET } }))
  for (const host of [OLD, NEW]) {
    const protocols = host === OLD ? (['http/1.1'] as const) : (['h2'] as const)
    const answerNow = (request: StreamRequest, response: ServerResponse): void => answer(request, response)
    parts.use(await openHttp2Upstream(setting.tls(host), { protocols, answer: answerNow, place: setting.at(host, 443) }))
  }
  parts.use(await openHttp2Upstream(setting.tls(OTHER), { place: setting.at(OTHER, 443) }))
})
after(() => parts.disposeAsync())

async function serves(): Promise<void> {
  assert.equal((await ask(setting, { way: 'CONNECT', version: 'HTTP/1.1' }, { host: OTHER })).status, 200)
}

const zeroes = Buffer.alloc(BOMB_BYTES)
const BOMBS: Readonly<Record<string, () => Buffer>> = {
  gzip: () => gzipSync(zeroes, { level: 9 }),
  deflate: () => deflateSync(zeroes, { level: 9 }),
  br: () => brotliCompressSync(zeroes, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  zstd: () => zstdCompressSync(zeroes),
  'gzip, gzip': () => gzipSync(gzipSync(zeroes, { level: 9 }), { level: 9 }),
}

const FEW = APPROACHES.filter(
  ({ way, version }) => way === 'absolute form' || way === 'route' || (way === 'CONNECT' && version === 'HTTP/2'),
)

for (const [coding, make] of Object.entries(BOMBS)) {
  test(`a bomb in ${coding} is broken off, to agents and from upstreams of both versions: it never takes more memory than its bound`, async () => {
    const bomb = make()
    assert.ok(bomb.length < BOMB_BYTES / 150)
    answer = (_request, response) => void response.writeHead(200, { 'content-encoding': coding }).end(bomb)
    const start = bufferBytes()
    for (const approach of FEW) {
      for (const host of [OLD, NEW]) {
        const { isWhole, code, body } = await ask(setting, approach, { host })
        assert.ok(!isWhole || code === 'answer_not_scrubbable', named(approach))
        assert.ok(body.length < MB)
        assert.ok(bufferBytes() - start < GROWTH_MAX, named(approach))
      }
    }
    await serves()
  })
}

const CHUNK_BYTES = 64 * 1024
/** A body of so many chunks, of which one in 500 has the secret in it: fewer than are borne. */
const TOTAL_CHUNKS = 1_500
const PLAIN = Buffer.alloc(CHUNK_BYTES, 'no secret in this one, ')
const MARKED = Buffer.concat([Buffer.from(`${SECRET} and more`), PLAIN], CHUNK_BYTES)

type Stalled = { readonly stream: Readable; close(): void }

/** A GET whose answer nobody reads yet. */
async function stall({ way, version }: Approach, host: string): Promise<Stalled> {
  if (version === 'HTTP/2') {
    const carrying = CARRYING.find((one) => one === way) ?? assert.fail()
    const session = openSession(host, await setting.dialTls(carrying, host, 443, { ALPNProtocols: ['h2'] }))
    const stream = session.request({ ':path': '/', 'accept-encoding': 'gzip' })
    stream.on('error', () => {})
    await once(stream, 'response')
    return { stream, close: () => session.destroy() }
  }
  const { socket, target, authority } = await setting.open(way, 'https', host)
  socket.pause()
  socket.write(`GET ${target('/')} HTTP/1.1\r\nHost: ${authority}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n`)
  return { stream: socket, close: () => socket.destroy() }
}

const IDENTITY = ['identity'] as const
const BOTH = ['identity', 'gzip'] as const
for (const { way, version, codings } of [
  { way: 'absolute form', version: 'HTTP/1.1', codings: BOTH },
  { way: 'transparent', version: 'HTTP/1.1', codings: IDENTITY },
  { way: 'route', version: 'HTTP/1.1', codings: IDENTITY },
  { way: 'SOCKS5', version: 'HTTP/2', codings: BOTH },
] as const) {
  for (const coding of codings) {
    test(`${way}, ${version}: a reader of ${coding} that stops holds up the upstream, others go on, and when it reads again all arrives`, async () => {
      let taken = 0
      answer = (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/plain', ...(coding === 'gzip' && { 'content-encoding': 'gzip' }) })
        const to: Duplex | ServerResponse = coding === 'gzip' ? createGzip({ level: 0 }) : response
        if (to !== response) (to as Duplex).pipe(response)
        const more = (): void => {
          while (taken < TOTAL_CHUNKS) {
            taken += 1
            if (!to.write(taken % 500 === 1 ? MARKED : PLAIN)) return void to.once('drain', more)
          }
          to.end()
        }
        more()
      }
      const start = bufferBytes()
      const stalled = await stall({ way, version }, way === 'transparent' ? NEW : OLD)
      const { stream } = stalled
      for (let i = 0; i < 30; i++) await serves()
      assert.ok(taken * CHUNK_BYTES < HELD_MAX, `${taken} chunks were taken for a reader that reads none`)
      assert.ok(bufferBytes() - start < GROWTH_MAX)
      let bytes = 0
      let peak = 0
      let kept = Buffer.alloc(0)
      const body: Readable = coding === 'gzip' && version === 'HTTP/2' ? stream.pipe(createGunzip()) : stream
      body.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (kept.length < 4 * MB) kept = Buffer.concat([kept, chunk])
        if (bytes % (20 * MB) < chunk.length) peak = Math.max(peak, bufferBytes() - start)
      })
      body.resume()
      await once(body, 'end')
      stalled.close()
      assert.ok(coding === 'gzip' && version === 'HTTP/1.1' ? bytes > 0 : bytes >= TOTAL_CHUNKS * CHUNK_BYTES, String(bytes))
      assert.equal(taken, TOTAL_CHUNKS)
      assert.ok(peak < GROWTH_MAX, `${peak} bytes of buffers on the way`)
      assert.equal(kept.includes(SECRET), false)
      assert.equal(leakIn(kept.subarray(0, 4_096), SECRET), undefined)
    })
  }
}
