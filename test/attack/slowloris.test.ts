/**
 * An agent that says what it has to say byte by byte is given up after its time, by every way in and at every stage: the upstream
 * hears nothing, and others are served meanwhile. Most limits are lowered for this process; nothing here asserts a time, and all of
 * it happens at the same time.
 */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { clientHello, serverNameExtension } from '../support/client-hello.ts'
import { APPROACHES, ask } from '../support/every-client.ts'
import { CARRYING, dialPort, EVERY_WAY, openEveryWay, routeTo, type EveryWay } from '../support/every-way.ts'
import { frame, headers, TYPE } from '../support/http2-frames.ts'
import { fateOf, getOf, speakFrames } from '../support/http2-agent.ts'
import { openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { readToEnd, statusOf } from '../support/raw-client.ts'

Object.assign(LIMITS, { recognitionMs: 500, tlsHandshakeMs: 500, keepAliveMs: 500, bodyIdleMs: 800 })

const API = 'api.example.com'
const POLICY = `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, addresses: ["127.0.0.0/8"]}
routes:
  - {name: ${routeTo('https', API)}, upstream: "https://${API}", addresses: ["127.0.0.0/8"]}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let upstream: Http2Upstream
/** Targets of requests that came to their end. */
const whole: string[] = []

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [API]))
  upstream = parts.use(
    await openHttp2Upstream(setting.tls(API), {
      place: setting.at(API, 443),
      answer: (request, response) => {
        request.on('end', () => {
          // A stream that is reset ends as well, but is not complete.
          if (request.complete && !request.aborted) whole.push(request.url ?? '')
          response.end('ok')
        })
      },
    }),
  )
})
after(() => parts.disposeAsync())

/** Writes a byte now and then until the other side has had enough, and gives what it said. */
async function drip(socket: Socket, bytes: Buffer): Promise<string> {
  let at = 0
  const timer = setInterval(() => {
    if (socket.writable) socket.write(bytes.subarray(at, (at += 1)))
    at %= bytes.length
  }, 40)
  const said = await readToEnd(socket)
  clearInterval(timer)
  return said
}

const HELLO = clientHello([serverNameExtension(API)])
const headOf = (target: string, authority = API): Buffer =>
  Buffer.from(`GET ${target} HTTP/1.1\r\nHost: ${authority}\r\nX: ${'y'.repeat(2_000)}`)
const arrived = (path: string): boolean => upstream.requests.some(({ url }) => url === path)

async function serves(): Promise<void> {
  assert.equal((await ask(setting, { way: 'CONNECT', version: 'HTTP/2' }, { host: API })).status, 200)
}

const STAGES: Readonly<Record<string, () => Promise<Socket>>> = {
  'the head of a CONNECT': () => dialPort(setting.gate.port),
  'the greeting of SOCKS': () => dialPort(setting.gate.ports.socks),
  'a request to a route': () => dialPort(setting.gate.ports.gateway),
  'the ClientHello without a proxy': () => dialPort(setting.gate.ports.secure),
  'the head without a proxy': () => dialPort(setting.gate.ports.plain),
  'the ClientHello in a tunnel': () => setting.dial('CONNECT', API, 443),
  'the head in a tunnel by SOCKS': () => setting.dial('SOCKS5', API, 80),
}

describe('all at once', { concurrency: true }, () => {
  for (const [n, [stage, open]] of Object.entries(STAGES).entries()) {
    test(`${stage} byte by byte ends the connection, others are served meanwhile, and the upstream hears nothing of it`, async () => {
      const isSocks = stage === 'the greeting of SOCKS'
      const ended = drip(
        await open(),
        stage.includes('Hello') ? HELLO : isSocks ? Buffer.alloc(256, 1).fill(5, 0, 1).fill(255, 1, 2) : headOf(`/stage-${n}`),
      )
      await serves()
      const said = await ended
      // Nothing, 408, a TLS alert, or a reply of SOCKS.
      assert.ok(said === '' || statusOf(said) === 408 || said.charCodeAt(0) === 21 || said.charCodeAt(0) === 5, said.slice(0, 40))
      assert.equal(arrived(`/stage-${n}`), false)
    })
  }

  for (const [n, way] of EVERY_WAY.entries()) {
    test(`${way}: a head byte by byte in TLS is 408 or the end, and nothing of it arrives`, async () => {
      const { socket, target, authority } = await setting.open(way, 'https', API)
      const said = await drip(socket, headOf(target(`/head-${n}`), authority))
      assert.ok(said === '' || statusOf(said) === 408, said.slice(0, 40))
      assert.equal(arrived(`/head-${n}`), false)
    })
  }

  for (const [n, way] of CARRYING.entries()) {
    test(`${way}, HTTP/2: a head in CONTINUATION frames, a byte now and then, ends the connection, and nothing of it arrives`, async () => {
      using agent = speakFrames(await setting.dialTls(way, API, 443, { ALPNProtocols: ['h2'] }))
      agent.send(headers(1, getOf(API, `/slow-${n}`), 0))
      const timer = setInterval(() => agent.send(frame(TYPE.CONTINUATION, 0, 1, Buffer.from([0]))), 40)
      await agent.closed()
      clearInterval(timer)
      assert.equal(arrived(`/slow-${n}`), false)
    })
  }

  for (const [n, { way, version }] of APPROACHES.entries()) {
    test(`${way}, ${version}: a body that stops in the middle ends its request, which never is whole at the upstream`, async () => {
      const path = `/half-${n}`
      if (version === 'HTTP/1.1') {
        const { socket, target, authority } = await setting.open(way, 'https', API)
        socket.write(`POST ${target(path)} HTTP/1.1\r\nHost: ${authority}\r\nContent-Length: 100\r\n\r\nhalf`)
        const said = await readToEnd(socket)
        assert.ok(said === '' || statusOf(said) >= 400, said.slice(0, 40))
      } else {
        const carrying = CARRYING.find((one) => one === way) ?? assert.fail()
        using agent = speakFrames(await setting.dialTls(carrying, API, 443, { ALPNProtocols: ['h2'] }))
        const head = [...getOf(API, path).slice(1), [':method', 'POST']] as [string, string][]
        agent.send(headers(1, head), frame(TYPE.DATA, 0, 1, Buffer.from('half')))
        assert.match(await fateOf(agent), /^(?:reset|the connection ends|upstream_timeout|answered)$/)
      }
      assert.equal(arrived(path), true)
      assert.equal(whole.includes(path), false)
      await serves()
    })
  }
})
