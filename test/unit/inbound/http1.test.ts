import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import type { Agent } from '../../../src/sidecar/egress/agent.ts'
import { eventually } from '../../support/eventually.ts'
import { dialLocal, openHttp1Agents, openNodeServer } from '../../support/http1-agents.ts'
import { heapBytes } from '../../support/memory.ts'
import { bodyOf, exchangeRaw, readToEnd, statusOf } from '../../support/raw-client.ts'

type Answer = { status: number; headers: string[]; body: string }

const ANSWERS: Readonly<Record<string, Answer>> = {
  'a length': { status: 200, headers: ['X', 'y', 'content-length', '5'], body: 'hello' },
  'no length': { status: 404, headers: ['Date', 'today', 'X', 'y'], body: 'hello' },
  'neither body nor length': { status: 200, headers: ['date', 'today'], body: '' },
  'a status without a body': { status: 204, headers: ['X', 'y'], body: '' },
  'a length of what is not sent': { status: 304, headers: ['Content-Length', '5', 'ETag', '"x"'], body: 'hello' },
  'a status that resets a form': { status: 205, headers: [], body: '' },
}

const CONNECTIONS = ['', 'Connection: close\r\n', 'Connection: keep-alive\r\n', 'Expect: 100-continue\r\n']

for (const [what, { status, headers, body }] of Object.entries(ANSWERS)) {
  test(`an answer with ${what} is the same bytes as Node's own server writes, but that nothing is sent in chunks to HTTP/1.0`, async () => {
    await using agents = await openHttp1Agents(async (agent) => {
      agent.start(status, 'Said', headers)
      agent.write(Buffer.from(body))
      agent.end([])
    })
    await using node = await openNodeServer(() => {})
    for (const event of ['request', 'checkContinue'])
      node.server.removeAllListeners(event).on(event, (_request, response) => {
        response.writeHead(status, 'Said', headers).write(body)
        response.end()
      })
    for (const method of ['GET', 'HEAD'])
      for (const version of ['1.1', '1.0'])
        for (const connection of CONNECTIONS) {
          const [ours, theirs] = await Promise.all(
            [agents.port, node.port].map(async (port) => {
              const socket = await dialLocal(port)
              socket.write(`${method} / HTTP/${version}\r\nHost: a\r\n${connection}\r\n`)
              // Its end shows whether the connection was kept.
              const answer = readToEnd(socket)
              await once(socket, 'data')
              socket.write('BAD\r\n\r\n')
              return (await answer).replace(/HTTP\/1\.1 400 [^]*/, 'kept').replace(/^Date: .{3}, .*GMT\r\n/m, 'Date: now\r\n')
            }),
          )
          assert.equal(ours, theirs, `${method} ${version} ${connection}`)
        }
  })
}

/** An engine that answers every request so, and how often each connection was written to. */
async function openAnswering(answer: (agent: Agent) => void) {
  const writes: number[] = []
  const agents = await openHttp1Agents(
    async (agent) => answer(agent),
    (socket) => {
      const at = writes.push(0) - 1
      for (const method of ['_write', '_writev']) {
        const original = Reflect.get(socket, method) as (...args: unknown[]) => void
        const counted = (...args: unknown[]): void => {
          writes[at] = (writes[at] ?? 0) + 1
          original.apply(socket, args)
        }
        Reflect.set(socket, method, counted)
      }
    },
  )
  return { agents, writes, [Symbol.asyncDispose]: () => agents[Symbol.asyncDispose]() }
}

for (const { what, headers, bytes } of [
  { what: 'with a length', headers: ['Content-Length', '1024'], bytes: [1_024] },
  { what: 'in chunks', headers: [], bytes: [100, 200, 300] },
  { what: 'that is larger than what goes with its head', headers: ['Content-Length', '50000'], bytes: [50_000] },
]) {
  test(`an answer ${what} goes out in one write`, async () => {
    await using setting = await openAnswering((agent) => {
      agent.start(200, 'OK', headers)
      for (const count of bytes) agent.write(Buffer.alloc(count, 'x'))
      agent.end([])
    })
    const answer = await exchangeRaw(setting.agents.port, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    assert.equal(
      answer.match(/x/g)?.length,
      bytes.reduce((sum, count) => sum + count, 0),
    )
    assert.deepEqual(setting.writes, [1])
  })
}

for (const { what, name, value } of [
  { what: 'a line of its own in a value', name: 'X', value: 'a\r\nEvil: 1' },
  { what: 'a bare line feed in a value', name: 'X', value: 'a\nb' },
  { what: 'a NUL in a value', name: 'X', value: 'a\0' },
  { what: 'a character beyond latin1', name: 'X', value: 'a\u0100' },
  { what: 'a colon in a name', name: 'X:', value: 'a' },
  { what: 'a line of its own in a name', name: 'X\r\nEvil', value: 'a' },
  { what: 'no name', name: '', value: 'a' },
]) {
  test(`an answer with ${what} cannot begin, and the agent can still be told so`, async () => {
    let thrown: unknown
    await using agents = await openHttp1Agents(async (agent) => {
      try {
        agent.start(200, 'OK', [name, value])
      } catch (error) {
        thrown = error
      }
      assert.equal(agent.isAnswered, false)
      agent.refuse(502, {}, 'no')
    })
    const answer = await exchangeRaw(agents.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    assert.ok(thrown instanceof Error)
    assert.equal(statusOf(answer), 502)
    assert.doesNotMatch(answer, /evil/i)
  })
}

test('trailers go out behind chunks only, and one that cannot be written breaks the answer', async () => {
  await using agents = await openHttp1Agents(async (agent) => {
    agent.start(200, 'OK', agent.head.url === '/length' ? ['Content-Length', '1'] : [])
    agent.write(Buffer.from('x'))
    try {
      agent.end(agent.head.url === '/bad' ? ['X', 'a\r\nb'] : ['X-Sum', '1'])
    } catch {
      agent.abort()
    }
  })
  const ask = (path: string): Promise<string> => exchangeRaw(agents.port, `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
  assert.match(await ask('/chunks'), /1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n$/)
  assert.match(await ask('/length'), /\r\n\r\nx$/)
  assert.doesNotMatch(await ask('/bad'), /0\r\n/)
})

test('a small part of a body does not wait for the next', async () => {
  let more: (() => void) | undefined
  await using agents = await openHttp1Agents(async (agent) => {
    agent.start(200, 'OK', [])
    agent.write(Buffer.from('first'))
    more = () => agent.end([])
  })
  const socket = await dialLocal(agents.port)
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  const [bytes] = (await once(socket, 'data')) as [Buffer]
  assert.match(bytes.toString(), /5\r\nfirst\r\n$/)
  more?.()
  assert.match(String((await once(socket, 'data'))[0]), /^0\r\n\r\n$/)
  socket.destroy()
})

test('an answer that ends with its connection and breaks off is reset: its end must not look like one', async () => {
  await using agents = await openHttp1Agents(async (agent) => {
    agent.start(200, 'OK', [])
    agent.write(Buffer.from('half'))
    setImmediate(() => agent.abort())
  })
  const socket = await dialLocal(agents.port)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  let code: string | undefined
  socket.on('error', (error: NodeJS.ErrnoException) => (code = error.code))
  socket.resume()
  socket.write('GET / HTTP/1.0\r\n\r\n')
  await closed
  assert.equal(code, 'ECONNRESET')
})

test('an agent that asks and asks and reads no answers is not answered beyond what waits for it, and then has every answer', async () => {
  const size = 60_000
  const count = { asked: 0, answered: 0 }
  await using agents = await openHttp1Agents(async (agent) => {
    count.answered += 1
    agent.start(200, 'OK', ['Content-Length', String(size)])
    agent.write(Buffer.alloc(size, 'x'))
    agent.end([])
  })
  const socket = await dialLocal(agents.port)
  socket.pause()
  const isStuck = (): boolean => count.answered < count.asked && agents.sockets[0]?.writableNeedDrain === true
  while (count.asked < 400 && !isStuck()) {
    // One by one: how many may wait is another limit.
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    count.asked += 1
    for (let turns = 0; turns < 20 && count.answered < count.asked; turns++) await new Promise(setImmediate)
  }
  const [gate] = agents.sockets
  assert.ok(gate)
  assert.ok(gate.writableLength < 2 * (gate.writableHighWaterMark + size), `${gate.writableLength} bytes wait`)
  assert.ok(count.answered < count.asked)
  let bytes = 0
  socket.on('data', (chunk: Buffer) => (bytes += chunk.length)).resume()
  await eventually(() => assert.ok(bytes > count.asked * size))
  assert.equal(count.answered, count.asked)
  socket.destroy()
})

test('heads that wait behind an answer take as much memory as one head may, then the connection ends', async () => {
  await using agents = await openHttp1Agents(() => new Promise(() => {}))
  const request = `GET / HTTP/1.1\r\nHost: a\r\nX: ${'y'.repeat(12_000)}\r\n\r\n`
  assert.ok(request.length * 4 > LIMITS.headBytesMax)
  assert.equal(await exchangeRaw(agents.port, request.repeat(5)), '')
})

test('a CONNECT hands over the connection with what came behind it, and nothing more of it is read as HTTP', async () => {
  await using agents = await openHttp1Agents(async () => assert.fail('a request'))
  const answer = await exchangeRaw(agents.port, 'CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nGET / HTTP/1.1\r\n\r\n')
  assert.equal(answer, 'HTTP/1.1 200 OK\r\n\r\nGET / HTTP/1.1\r\n\r\n')
  assert.deepEqual(agents.connects, ['a:443'])
})

for (const { what, bytes, code } of [
  { what: 'half a head and then the end', bytes: 'GET / HTTP/1.1\r\nHos', code: 'request_malformed' },
  { what: 'half a method and then the end', bytes: 'GE', code: 'request_malformed' },
  { what: 'a head that is too long', bytes: `GET / HTTP/1.1\r\nX: ${'y'.repeat(LIMITS.headBytesMax)}\r\n\r\n`, code: 'head_too_large' },
  { what: 'no HTTP', bytes: '\0\r\n\r\n', code: 'request_malformed' },
  { what: 'HTTP/2 without TLS', bytes: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', code: 'upgrade_refused' },
]) {
  test(`${what}: ${code}, once, and the connection ends`, async () => {
    await using agents = await openHttp1Agents(async () => assert.fail('a request'))
    const socket = await dialLocal(agents.port)
    socket.end(bytes)
    const answer = await readToEnd(socket)
    assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, code)
    assert.deepEqual(agents.refused, [code])
  })
}

test('a drain ends a connection that waits for a next request, and none that has not sent its first, or waits for an answer', async () => {
  await using agents = await openHttp1Agents(async (agent) => {
    if (agent.head.url === '/wait') return
    agent.start(204, '', [])
    agent.end([])
  })
  const [fresh, idle, busy] = await Promise.all([1, 2, 3].map(() => dialLocal(agents.port)))
  assert.ok(fresh && idle && busy)
  idle.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  busy.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(idle, 'data')
  await eventually(() => assert.equal(agents.sockets.filter(({ bytesRead }) => bytesRead > 0).length, 2))
  agents.http1.closeIdle()
  assert.equal(await readToEnd(idle), '')
  assert.deepEqual([fresh.destroyed, busy.destroyed], [false, false])
  for (const socket of [fresh, busy]) socket.destroy()
})

test('connections that are kept open hold as much memory after many requests as after one', async () => {
  await using agents = await openHttp1Agents(async (agent) => {
    agent.start(200, 'OK', ['Content-Length', '2'])
    agent.write(Buffer.from('ok'))
    agent.end([])
  })
  const request = `POST / HTTP/1.1\r\nHost: a\r\nX: ${'y'.repeat(500)}\r\nContent-Length: 3\r\n\r\nabc`
  const open = await Promise.all(Array.from({ length: 200 }, () => dialLocal(agents.port)))
  const askAll = (): Promise<unknown> =>
    Promise.all(
      open.map(async (socket) => {
        const answered = once(socket, 'data')
        socket.write(request)
        await answered
      }),
    )
  for (let i = 0; i < 5; i++) await askAll()
  const before = heapBytes()
  for (let i = 0; i < 20; i++) await askAll()
  const grown = (heapBytes() - before) / open.length
  assert.ok(grown < 1_000, `${grown} bytes a connection`)
  for (const socket of open) socket.destroy()
})

test('what an agent sends behind a request that ends its connection is not read, and does not cost it the answer', async () => {
  const urls: string[] = []
  await using agents = await openHttp1Agents(async (agent) => {
    urls.push(agent.head.url)
    await new Promise(setImmediate)
    agent.start(200, 'OK', ['Content-Length', '2'])
    agent.write(Buffer.from('ok'))
    agent.end([])
  })
  const answer = await exchangeRaw(
    agents.port,
    `GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n${'x'.repeat(200_000)}`,
  )
  assert.match(answer, /ok$/)
  assert.deepEqual(urls, ['/1'])
})

test('an agent that ends its side before it has its answer is gone, as one is that resets', async () => {
  const gone: string[] = []
  await using agents = await openHttp1Agents(async (agent) => {
    agent.onGone(() => gone.push(agent.head.url))
  })
  const leave: Readonly<Record<string, (socket: Socket) => void>> = {
    '/end': (socket) => void socket.end(),
    '/reset': (socket) => void socket.resetAndDestroy(),
    '/close': (socket) => void socket.destroy(),
  }
  for (const [path, go] of Object.entries(leave)) {
    const socket = await dialLocal(agents.port)
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    await eventually(() => assert.ok(agents.sockets.at(-1)?.bytesRead))
    go(socket)
    socket.resume()
    await eventually(() => assert.equal(gone.at(-1), path))
  }
  assert.equal(gone.length, 3)
})

test('what is no request is told behind the answers that are due before it, and ends the connection', async () => {
  let answer: (() => void) | undefined
  await using agents = await openHttp1Agents(async (agent) => {
    if (agent.head.url === '/1') await new Promise<void>((resolve) => (answer = resolve))
    agent.start(200, 'OK', ['Content-Length', '2'])
    agent.write(Buffer.from(agent.head.url))
    agent.end([])
  })
  const socket = await dialLocal(agents.port)
  const said = readToEnd(socket)
  const requests = ['/1', '/2'].map((url) => `GET ${url} HTTP/1.1\r\nHost: a\r\n\r\n`).join('')
  socket.write(`${requests}\0\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n`)
  await eventually(() => assert.ok(answer))
  assert.deepEqual(agents.refused, [])
  answer?.()
  assert.match(await said, /\/1HTTP\/1\.1 200 [^]*\/2HTTP\/1\.1 400 /)
  assert.deepEqual(agents.refused, ['request_malformed'])
})
