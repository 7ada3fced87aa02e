/**
 * A side that is slow, silent or endless costs the gate a bounded amount of memory and never the requests of others.
 * Nothing here asserts a time: what is asserted is that bytes stop, that an answer comes, and that the next request works.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { bufferBytes, MB } from '../support/memory.ts'
import { bodyOf, exchangeRaw, openTlsTunnel, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, openSetting, OTHER, policyFor } from '../support/setting.ts'
import { openRawUpstream, openServer, type Upstream } from '../support/upstream.ts'

/** What kernel and gate may hold of a stalled stream. Socket buffers on loopback grow to some megabytes a hop. */
const HELD_MAX = 48 * MB
/** The memory of buffers that the gate may take while hundreds of megabytes pass. */
const GROWTH_MAX = 96 * MB

/** A gate before a streaming upstream, and a small one under another name that says whether the gate still works. */
async function openStreaming(
  upstream: Upstream,
): Promise<{ gate: TestGate; other: Upstream; ask: () => Promise<number> } & AsyncDisposable> {
  const other = await openServer((_request, response) => void response.end('ok'))
  const gate = await openTestGate({
    policy: policyFor([upstream.port, other.port], { inject: '' }),
    hosts: { [API]: ['127.0.0.1'], [OTHER]: ['127.0.0.1'] },
  })
  return {
    gate,
    other,
    ask: async () => statusOf(await exchangeRaw(gate.port, get(OTHER, other.port))),
    async [Symbol.asyncDispose]() {
      await gate[Symbol.asyncDispose]()
      await other[Symbol.asyncDispose]()
    },
  }
}

function get(host: string, port: number, path = '/', more = 'Connection: close\r\n'): string {
  return `GET http://${host}:${port}${path} HTTP/1.1\r\nHost: ${host}:${port}\r\n${more}\r\n`
}

/** Other requests are the clock: while so many pass, a stream without backpressure would have moved hundreds of megabytes. */
async function letOthersPass(ask: () => Promise<number>, requests = 200): Promise<void> {
  for (let i = 0; i < requests; i += 1) assert.equal(await ask(), 200)
}

async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

test('a download whose reader stops: the upstream stops too, others go on, and when it reads again all of it arrives', async () => {
  const total = 300 * MB
  const chunk = Buffer.alloc(64 * 1024, 'x')
  let accepted = 0
  await using upstream = await openServer((_request, response) => {
    response.setHeader('content-length', total)
    const feed = (): void => {
      while (accepted < total && !response.writableNeedDrain) {
        response.write(chunk)
        accepted += chunk.length
      }
      if (accepted < total) response.once('drain', feed)
      else response.end()
    }
    feed()
  })
  await using streaming = await openStreaming(upstream)
  const before = bufferBytes()
  const reader = await open(streaming.gate.port)
  reader.pause()
  reader.write(get(API, upstream.port))
  await letOthersPass(streaming.ask)
  assert.ok(accepted < HELD_MAX, `the upstream could send ${accepted} bytes to a reader that reads none`)
  assert.ok(bufferBytes() - before < GROWTH_MAX)

  let received = 0
  let peak = 0
  reader.on('data', (bytes: Buffer) => {
    if (Math.floor(received / (30 * MB)) !== Math.floor((received + bytes.length) / (30 * MB)))
      peak = Math.max(peak, bufferBytes() - before)
    received += bytes.length
  })
  reader.resume()
  await once(reader, 'close')
  assert.ok(received > total && received < total + 64 * 1024, `${received} bytes with the head`)
  assert.ok(peak < GROWTH_MAX, `${peak} bytes of buffers on the way`)
})

test('an upload whose reader stops: the agent is held back, others go on, and when it reads again every byte arrives', async () => {
  const total = 200 * MB
  const chunk = Buffer.alloc(64 * 1024, 'y')
  let reading: () => void = () => {}
  const mayRead = new Promise<void>((resolve) => (reading = resolve))
  const sum = createHash('sha256')
  let peak = 0
  let arrived = 0
  const before = bufferBytes()
  await using upstream = await openRawUpstream((socket) => {
    socket.pause()
    void mayRead.then(() => {
      let head = true
      socket.on('data', (bytes: Buffer) => {
        const body = head ? bytes.subarray(bytes.indexOf('\r\n\r\n') + 4) : bytes
        head = false
        if (Math.floor(arrived / (20 * MB)) !== Math.floor((arrived + body.length) / (20 * MB)))
          peak = Math.max(peak, bufferBytes() - before)
        arrived += body.length
        sum.update(body)
        if (arrived === total) socket.end('HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
      })
      socket.resume()
    })
  })
  await using streaming = await openStreaming(upstream)
  const agent = await open(streaming.gate.port)
  agent.write(
    `PUT http://${API}:${upstream.port}/ HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\nContent-Length: ${total}\r\nConnection: close\r\n\r\n`,
  )
  const expected = createHash('sha256')
  let sent = 0
  const feed = (): void => {
    while (sent < total && !agent.writableNeedDrain) {
      agent.write(chunk)
      expected.update(chunk)
      sent += chunk.length
    }
  }
  agent.on('drain', feed)
  feed()
  await letOthersPass(streaming.ask)
  assert.ok(sent < HELD_MAX, `the agent could send ${sent} bytes to an upstream that reads none`)
  reading()
  assert.match(await readToEnd(agent), /^HTTP\/1\.1 201 /)
  assert.equal(sum.digest('hex'), expected.digest('hex'))
  assert.ok(peak < GROWTH_MAX, `${peak} bytes of buffers on the way`)
})

test('an upstream that answers before the upload ends: the answer arrives, and the connection is not stuck afterwards', async () => {
  await using upstream = await openRawUpstream((socket) => {
    socket.once('data', () => socket.write('HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig'))
    socket.on('end', () => socket.end())
  })
  await using streaming = await openStreaming(upstream)
  const agent = await open(streaming.gate.port)
  const total = 20 * MB
  agent.write(`PUT http://${API}:${upstream.port}/ HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\nContent-Length: ${total}\r\n\r\n`)
  agent.write(Buffer.alloc(100_000))
  const [answer] = (await once(agent, 'data')) as [Buffer]
  assert.match(answer.toString(), /^HTTP\/1\.1 413 /)
  // A client may go on sending what it announced. Either it is taken off the wire, or the connection ends.
  const over = Promise.race([once(agent, 'close'), once(agent, 'data')])
  agent.write(Buffer.alloc(total - 100_000))
  agent.write(get(OTHER, streaming.other.port))
  await over
  assert.equal(await streaming.ask(), 200)
  agent.destroy()
})

for (const { why, bytes } of [
  { why: 'one header of 1 MB', bytes: `X: ${'y'.repeat(MB)}\r\n` },
  { why: '100,000 headers', bytes: 'X: y\r\n'.repeat(100_000) },
  { why: 'as many small headers as fit into a head', bytes: 'X:\r\n'.repeat(7_000) },
  { why: 'a Host of 1 MB', bytes: `Host: ${'h'.repeat(MB)}\r\n` },
]) {
  test(`${why}: refused on the proxy port and in TLS, nothing is forwarded, and the next request works`, async () => {
    await using setting = await openSetting()
    const { gate, secure, plain, ca } = setting
    const onPort = await exchangeRaw(gate.port, `GET http://${API}:${plain.port}/ HTTP/1.1\r\n${bytes}Connection: close\r\n\r\n`)
    const tunnel = await openTlsTunnel(gate.port, API, secure.port, ca)
    tunnel.write(`GET / HTTP/1.1\r\n${bytes}Connection: close\r\n\r\n`)
    for (const answer of [onPort, await readToEnd(tunnel)]) {
      // The rest of a long head on its way may break the connection before the answer is read.
      assert.ok(answer === '' || statusOf(answer) === 431, answer.slice(0, 80))
      if (answer !== '') assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'head_too_large')
    }
    assert.deepEqual([...secure.requests, ...plain.requests], [])
    const refused = (await gate.audit()).filter((event) => event['code'] === 'head_too_large' && event['event'] === 'decided')
    assert.equal(refused.length, 2)
    assert.equal(statusOf(await exchangeRaw(gate.port, get(API, plain.port))), 200)
  })
}

test('a request line of 1 MB is refused like a header of that size', async () => {
  await using setting = await openSetting()
  const answer = await exchangeRaw(setting.gate.port, get(API, setting.plain.port, `/${'p'.repeat(MB)}`))
  assert.ok(answer === '' || statusOf(answer) === 431)
  assert.deepEqual(setting.plain.requests, [])
})

test('a head that comes too slowly is ended with 408, on the proxy port, in a plain tunnel and inside TLS', async () => {
  await using setting = await openSetting()
  const { gate, secure, plain, ca } = setting
  const onPort = await open(gate.port)
  onPort.write(`GET http://${API}:${plain.port}/ HTTP/1.1\r\nHost: ${API}`)
  const { socket: inPlain } = await openTunnel(gate.port, `${API}:${plain.port}`)
  inPlain.write('GET / HTTP/1.1\r\nHos')
  const inTls = await openTlsTunnel(gate.port, API, secure.port, ca)
  inTls.write('GET / HTTP/1.1\r\nHos')
  const silent = await open(gate.port)
  // One byte now and then must not keep it open.
  const drip = setInterval(() => {
    for (const socket of [onPort, inPlain, inTls]) if (socket.writable) socket.write('x')
  }, 1_000)
  const answers = await Promise.all([readToEnd(onPort), readToEnd(inPlain), readToEnd(inTls), readToEnd(silent)])
  clearInterval(drip)
  for (const answer of answers.slice(0, 3)) {
    assert.equal(statusOf(answer), 408)
    assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'head_timeout')
  }
  assert.deepEqual([...secure.requests, ...plain.requests], [])
  assert.equal(statusOf(await exchangeRaw(gate.port, get(API, plain.port))), 200)
})

test('500 idle connections and 100 open tunnels do not keep a request from its answer', async () => {
  await using setting = await openSetting()
  const { gate, secure, plain, ca } = setting
  const sockets = await Promise.all(Array.from({ length: 500 }, () => open(gate.port)))
  const tunnels = await Promise.all(Array.from({ length: 100 }, () => openTlsTunnel(gate.port, API, secure.port, ca)))
  assert.equal(statusOf(await exchangeRaw(gate.port, get(API, plain.port))), 200)
  for (const socket of [...sockets, ...tunnels]) socket.destroy()
})

test('a tunnel that its agent ends without a byte is closed, not kept', async () => {
  await using setting = await openSetting()
  const { socket } = await openTunnel(setting.gate.port, `${API}:${setting.secure.port}`)
  socket.end()
  socket.resume()
  await once(socket, 'close')
})

test('1xx answers without end are cut off with 502, and cost the others nothing', async () => {
  let ended: () => void = () => {}
  const gone = new Promise<void>((resolve) => (ended = resolve))
  await using upstream = await openRawUpstream((socket) => {
    const flood = (): void => {
      while (!socket.destroyed && socket.write('HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n'.repeat(100)));
    }
    socket.once('data', flood)
    socket.on('drain', flood)
    socket.once('close', ended)
  })
  await using streaming = await openStreaming(upstream)
  const answer = await exchangeRaw(streaming.gate.port, get(API, upstream.port))
  // Early hints are passed on, up to the bound; then comes the one answer.
  const last = answer.slice(answer.lastIndexOf('HTTP/1.1 '))
  assert.equal(statusOf(last), 502)
  assert.equal((JSON.parse(bodyOf(last)) as { code: string }).code, 'upstream_invalid')
  await gone
  assert.equal(await streaming.ask(), 200)
})

test('a decompression bomb passes as it is: byte for byte, and never unpacked here', async () => {
  const bomb = gzipSync(Buffer.alloc(200 * MB), { level: 9 })
  await using upstream = await openServer((_request, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': bomb.length }).end(bomb),
  )
  await using streaming = await openStreaming(upstream)
  const before = bufferBytes()
  const answer = await exchangeRaw(streaming.gate.port, get(API, upstream.port))
  assert.match(answer, /content-encoding: gzip/i)
  assert.equal(Buffer.compare(Buffer.from(bodyOf(answer), 'latin1'), bomb), 0)
  assert.ok(bufferBytes() - before < 16 * MB)
})
