/** I10: agents' requests are read as Node's own server reads them, however they are cut. */
import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { dialLocal, openHttp1Agents, openNodeServer, readAndAnswer, type Http1Agents, type ReadRequest } from '../support/http1-agents.ts'
import { readToEnd } from '../support/raw-client.ts'
import { REFUSED, REFUSED_BODIES, SMUGGLED } from '../support/smuggling.ts'

const parts = new AsyncDisposableStack()
let agents: Http1Agents
let nodePort = 0
let ours: ReadRequest[] = []
/** In the order in which they came; `undefined` until they are whole. */
let theirs: (ReadRequest | undefined)[] = []

before(async () => {
  agents = parts.use(
    await openHttp1Agents(async (agent) => {
      if (agent.head.isUpgrade !== true) return readAndAnswer(agent, ours)
      ours.push({ head: headOf(agent.head.method, agent.head.url, true, true, agent.head.rawHeaders), body: '', trailers: [] })
      agent.abort()
    }),
  )
  const node = parts.use(await openNodeServer((request, response) => void readNode(request, () => response.end('ok'))))
  nodePort = node.port
  node.server.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
    theirs.push({ head: headOfNode(request, true), body: '', trailers: [] })
    socket.destroy()
  })
  node.server.on('connect', (_request: unknown, socket: Duplex) => socket.destroy())
})
after(() => parts.disposeAsync())

function headOf(method: string, url: string, isModern: boolean, isUpgrade: boolean, fields: readonly string[]): readonly unknown[] {
  return [method, url, isModern, isUpgrade, ...fields]
}

function headOfNode(request: IncomingMessage, isUpgrade = false): readonly unknown[] {
  return headOf(request.method ?? '', request.url ?? '', request.httpVersion === '1.1', isUpgrade, request.rawHeaders)
}

async function readNode(request: IncomingMessage, answer: () => void): Promise<void> {
  const all = theirs
  const at = all.push(undefined) - 1
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  } catch {
    return
  }
  // We read no other, and nothing behind it.
  if (!/^1\.[01]$/.test(request.httpVersion)) return void all.splice(at)
  all[at] = { head: headOfNode(request), body: Buffer.concat(chunks).toString('latin1'), trailers: request.rawTrailers }
  answer()
}

/** Sends bytes in pieces, each when the one before was read, and gives what came back. */
async function send(port: number, pieces: readonly Buffer[]): Promise<string> {
  const socket = await dialLocal(port)
  const answer = readToEnd(socket)
  for (const piece of pieces) {
    await new Promise((resolve) => socket.write(piece, resolve))
    await new Promise(setImmediate)
  }
  socket.end()
  return answer
}

async function bothRead(bytes: string): Promise<void> {
  ours = []
  theirs = []
  const piece = [Buffer.from(bytes, 'latin1')]
  await Promise.all([send(agents.port, piece), send(nodePort, piece)])
  assert.deepEqual(
    ours,
    theirs.filter((one) => one !== undefined),
    JSON.stringify(bytes),
  )
}

const written = (text: string): string => text.replaceAll('TARGET', 'http://a').replaceAll('HOST', 'a')

for (const [why, head, body = ''] of REFUSED) {
  test(`I10 ${why}: the requests that are read are those that Node's own server reads`, async () => {
    await bothRead(written(`${head}\r\n${body}${SMUGGLED}`))
    await bothRead(written(`${SMUGGLED}${head}\r\n${body}${SMUGGLED}`))
  })
}
for (const [why, body] of REFUSED_BODIES) {
  test(`I10 a chunked body with ${why}: the requests that are read are those that Node's own server reads`, () =>
    bothRead(written(`${SMUGGLED}POST TARGET HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n${body}${SMUGGLED}`)))
}

/** Pieces of requests, whole and broken. */
const FRAGMENTS = [
  [
    'GET / HTTP/1.1\r\n',
    'POST /p HTTP/1.1\r\n',
    'GET / HTTP/1.0\r\n',
    'PUT  /two HTTP/1.1\r\n',
    'HEAD * HTTP/1.1\r\n',
    'BREW / HTTP/1.1\r\n',
  ],
  ['Host: a\r\n', 'Connection: close\r\n', 'Connection: keep-alive, Upgrade\r\n', 'Upgrade: websocket\r\n', 'Upgrade: h2c\r\n'],
  ['Content-Length: 4\r\n', 'Content-Length: 0\r\n', 'content-length:4 \r\n', 'Content-Length: 04\r\n', 'Content-Length: 4x\r\n'],
  ['Transfer-Encoding: chunked\r\n', 'transfer-encoding: CHUNKED\t\r\n', 'Transfer-Encoding: gzip, chunked\r\n', 'TE: chunked\r\n'],
  ['X: y\r\n', 'X:\r\n', 'X: \xe9 \x80\t\r\n', 'X : y\r\n', ' y\r\n', 'X: \x7f\r\n', 'Expect: 100-continue\r\n', 'Trailer: X\r\n'],
  ['\r\n', '\n', '\r', '\r\n\r\n', 'body', '4\r\nbody\r\n', '0\r\n\r\n', '0\r\nX: y \r\n\r\n', '4;a="b"\r\nbody\r\n', '2\r\n', '\0'],
].flat()

test('I10 whatever is sent, whole or broken: the requests that are read are those that Node’s own server reads', async () => {
  const bytes = fc.array(fc.constantFrom(...FRAGMENTS), { minLength: 1, maxLength: 14 }).map((fragments) => fragments.join(''))
  const valid = fc.constantFrom('', 'GET / HTTP/1.1\r\nHost: a\r\n', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  await fc.assert(
    fc.asyncProperty(valid, bytes, (start, rest) => bothRead(start + rest)),
    { numRuns: 3_000 },
  )
})

const token = fc.string({ unit: fc.constantFrom(...Array.from('abcXYZ019-_.!~')), minLength: 1, maxLength: 12 }).map((name) => `x-${name}`)
const value = fc.string({ unit: fc.constantFrom(...Array.from('abc XYZ019:;,="\\\t\x80\xff')), maxLength: 40 }).map((text) => text.trim())
const fields = fc.array(fc.tuple(token, value), { maxLength: 4 }).map((pairs) => pairs.flat())
const bodyText = fc.string({ unit: fc.constantFrom('\r', '\n', '0', 'a', 'G', '\0', '\xff'), maxLength: 60 })
const request = fc.record({
  method: fc.constantFrom('GET', 'POST', 'DELETE', 'PATCH', 'M-SEARCH', 'OPTIONS'),
  target: fc.constantFrom('/', '/a?b=c', 'http://a.example/x', '*'),
  fields,
  framing: fc.constantFrom('none', 'length', 'chunked'),
  body: fc.array(
    bodyText.filter((text) => text !== ''),
    { maxLength: 3 },
  ),
  trailers: fields,
})

function lines(raw: readonly string[]): string {
  return raw.map((part, i) => (i % 2 === 0 ? `${part}: ` : `${part}\r\n`)).join('')
}

/** A request as it is written, and as it is to be read. */
function write(one: typeof request extends fc.Arbitrary<infer T> ? T : never, isLast: boolean): { bytes: string; read: ReadRequest } {
  const whole = one.framing === 'none' ? '' : one.body.join('')
  const framing = { none: [], length: ['Content-Length', String(whole.length)], chunked: ['Transfer-Encoding', 'chunked'] }[one.framing]
  const head = ['Host', 'a', ...one.fields, ...framing, ...(isLast ? ['Connection', 'close'] : [])]
  const chunks = one.body.map((text) => `${text.length.toString(16)}\r\n${text}\r\n`).join('')
  const isChunked = one.framing === 'chunked'
  return {
    bytes: `${one.method} ${one.target} HTTP/1.1\r\n${lines(head)}\r\n${isChunked ? `${chunks}0\r\n${lines(one.trailers)}\r\n` : whole}`,
    read: { head: headOf(one.method, one.target, true, false, head), body: whole, trailers: isChunked ? one.trailers : [] },
  }
}

test('I10 requests are read the same however they are cut, and each has its answer', async () => {
  const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 5 }), cuts, async (requests, places) => {
      const all = requests.map((one, i) => write(one, i === requests.length - 1))
      const bytes = Buffer.from(all.map((one) => one.bytes).join(''), 'latin1')
      const at = [0, ...places.map((place) => Math.floor(place * bytes.length)).toSorted((a, b) => a - b), bytes.length]
      ours = []
      const answer = await send(
        agents.port,
        at.slice(1).map((end, i) => bytes.subarray(at[i], end)),
      )
      assert.deepEqual(
        ours,
        all.map((one) => one.read),
      )
      assert.equal(answer.match(/HTTP\/1\.1 200 OK/g)?.length, all.length)
    }),
    { numRuns: 300 },
  )
})
