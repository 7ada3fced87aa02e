/** HTTP/1.1 and HTTP/2 on either side of the gate, each by itself: whatever HTTP can say comes through in every combination. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request as requestHttp1, type IncomingMessage } from 'node:http'
import type { ClientHttp2Session, Http2ServerRequest, Http2ServerResponse, OutgoingHttpHeaders, ServerHttp2Session } from 'node:http2'
import type { Duplex, Readable, Writable } from 'node:stream'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { ServerResponse } from 'node:http'
import { answerOf, openHttp2Agent, type Answered, type Towards } from '../support/http2-agent.ts'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream, type Protocol, type StreamRequest } from '../support/http2-upstream.ts'
import { openTlsTunnel } from '../support/raw-client.ts'
import { API, CANARY, policyFor } from '../support/setting.ts'
import { createUpstreamCa, leafFor } from '../support/upstream.ts'

const parts = new AsyncDisposableStack()
const upstreams: Partial<Record<Protocol, Http2Upstream>> = {}
/** What the upstream's side of a running exchange is told. */
const seen = { paused: new EventTarget(), closed: new EventTarget() }
let gate: TestGate
let ca: string

before(async () => {
  const authority = parts.use(await createUpstreamCa())
  const tls = leafFor(authority.authority, API)
  for (const protocol of ['http/1.1', 'h2'] as const) {
    upstreams[protocol] = parts.use(await openHttp2Upstream(tls, { protocols: [protocol], answer, isRecording: false }))
  }
  const ports = [portOf('http/1.1'), portOf('h2')]
  gate = parts.use(
    await openTestGate({
      policy: policyFor(ports, { rule: 'scrub: "off"', rules: OWN_COOKIES(ports) }),
      env: { API_TOKEN: CANARY },
      upstreamCa: [authority.file],
      hosts: { [API]: ['127.0.0.1'] },
    }),
  )
  ca = await gate.caPem()
})
after(() => parts.disposeAsync())
beforeEach(() => Object.values(upstreams).forEach(({ requests }) => (requests.length = 0)))

/** Where a credential is written the agent's own cookies don't go along. */
const OWN_COOKIES = (ports: readonly number[]): string =>
  `    - {id: own, host: ${API}, ports: [${ports.join(', ')}], paths: [/cookies], action: allow, addresses: ["127.0.0.0/8"], own_credentials: pass}\n`

const portOf = (protocol: Protocol): number => upstreams[protocol]?.port ?? 0

/** What the upstreams answer, by the path. */
function answer(request: StreamRequest, response: ServerResponse): void {
  const path = request.url ?? ''
  request.on('close', () => seen.closed.dispatchEvent(new Event(path)))
  const story = STORIES[path]
  if (story) story(request, response)
  else response.writeHead(404).end()
}

const STORIES: Readonly<Record<string, (request: StreamRequest, response: ServerResponse) => void>> = {
  '/plain': (request, response) => {
    request.resume()
    request.on('end', () => response.writeHead(200, { 'x-one': 'caf\xe9', 'Content-Type': 'text/plain' }).end('plain answer'))
  },
  '/echo': (request, response) => {
    response.writeHead(200)
    request.pipe(response)
  },
  '/trailers': (request, response) => {
    response.writeHead(200, { trailer: 'x-late' })
    request.on('data', (chunk: Buffer) => response.write(chunk))
    request.on('end', () => {
      response.addTrailers({ 'x-late': `got ${String(request.trailers['x-sent'] ?? 'nothing')}`, __proto__x: 'y', 'grpc-status': '0' })
      response.end()
    })
  },
  '/204': (_request, response) => void response.writeHead(204).end(),
  '/304': (_request, response) => void response.writeHead(304, { etag: '"1"' }).end(),
  '/205': (_request, response) => void response.writeHead(205).end(),
  '/range': (_request, response) => void response.writeHead(206, { 'content-range': 'bytes 2-4/10', 'content-length': 3 }).end('cde'),
  '/hints': (_request, response) => {
    response.writeEarlyHints({ link: ['</a.css>; rel=preload', '</b.js>; rel=preload'] })
    response.writeHead(200).end('hinted')
  },
  '/early': (_request, response) => void response.writeHead(413, { 'content-length': 8 }).end('too much'),
  '/cookies': (request, response) => {
    response.setHeader('set-cookie', ['a=1; Path=/', 'b=2'])
    response.end(request.headers.cookie ?? '')
  },
  '/alt': (request, response) => {
    const session = (request as Http2ServerRequest).stream?.session as ServerHttp2Session | undefined
    session?.altsvc('h3=":443"', `https://${API}`)
    session?.origin('https://other.example.com')
    response.writeHead(200, { 'alt-svc': 'h3=":443"; ma=86400' }).end('stay')
  },
  '/events': (request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    request.on('data', (chunk: Buffer) => response.write(`data: after ${chunk.toString()}\n\n`))
    request.on('end', () => response.end())
  },
  '/wait': () => {},
  '/head-then-nothing': (_request, response) => response.writeHead(200).flushHeaders(),
  '/break': (_request, response) => {
    response.writeHead(200, { 'content-length': 100 })
    response.write('half')
    const { stream } = response as unknown as Http2ServerResponse
    setImmediate(() => (stream ? stream.close(2) : response.destroy()))
  },
}

/** One request as the agent makes it: its body goes in, its answer comes out. */
type Asking = {
  readonly body: Writable
  readonly answered: Promise<Answered>
  readonly head: Promise<Readable>
  readonly cancel: () => void
}
type Agent = AsyncDisposable & {
  /** Frames that tell of other ways to the service. */
  readonly told: string[]
  ask(method: string, path: string, headers?: OutgoingHttpHeaders, hasBody?: boolean): Asking
}

async function openAgent(protocol: Protocol, targetPort: number): Promise<Agent> {
  const to: Towards = { port: gate.port, host: API, targetPort, ca }
  return protocol === 'h2' ? http2Agent(await openHttp2Agent(to)) : http1Agent(to)
}

function http2Agent(session: ClientHttp2Session): Agent {
  const told: string[] = []
  session.on('altsvc', (value) => told.push(value)).on('origin', (origins) => told.push(...origins))
  return {
    told,
    ask(method, path, fields = {}, hasBody = false) {
      const stream = session.request({ ':method': method, ':path': path, ...fields }, { endStream: !hasBody, waitForTrailers: hasBody })
      const head = new Promise<Readable>((resolve) => stream.once('response', () => resolve(stream)))
      stream.once('wantTrailers', () => stream.sendTrailers({ 'x-sent': 'from the agent' }))
      return { body: stream, answered: answerOf(stream), head, cancel: () => stream.close(8) }
    },
    async [Symbol.asyncDispose]() {
      session.destroy()
    },
  }
}

async function http1Agent(to: Towards): Promise<Agent> {
  const sockets: Duplex[] = []
  const open = async (): Promise<Duplex> => {
    const socket = await openTlsTunnel(to.port, to.host, to.targetPort, to.ca)
    sockets.push(socket)
    return socket
  }
  let next = await open()
  return {
    told: [],
    ask(method, path, fields = {}, hasBody = false) {
      const socket = next
      const request = requestHttp1({
        method,
        path,
        headers: { host: `${to.host}:${to.targetPort}`, ...(hasBody && { trailer: 'x-sent', 'transfer-encoding': 'chunked' }), ...fields },
        createConnection: () => socket,
      })
      request.on('error', () => {})
      if (hasBody) request.addTrailers({ 'x-sent': 'from the agent' })
      else request.end()
      const head = new Promise<IncomingMessage>((resolve) => request.once('response', resolve))
      return { body: request, head, answered: http1AnswerOf(request, head), cancel: () => void request.destroy() }
    },
    async [Symbol.asyncDispose]() {
      next = undefined as never
      for (const socket of sockets) socket.destroy()
    },
  }
}

async function http1AnswerOf(request: ReturnType<typeof requestHttp1>, head: Promise<IncomingMessage>): Promise<Answered> {
  const interim: Record<string, unknown>[] = []
  const body: Buffer[] = []
  request.on('information', ({ statusCode, headers }) => interim.push({ ':status': statusCode, ...headers }))
  const ended = new Promise((resolve) => request.once('close', resolve))
  const response = await Promise.race([head, ended.then(() => undefined)])
  const none = { status: 0, headers: [], body: '', bytes: Buffer.alloc(0), trailers: [], interim, rstCode: 1, isHeadAll: false }
  if (!response) return none
  response.on('error', () => {})
  response.on('data', (chunk: Buffer) => body.push(chunk))
  if (!response.destroyed) await once(response, 'close').catch(() => {})
  return {
    status: response.statusCode ?? 0,
    headers: response.rawHeaders,
    body: Buffer.concat(body).toString(),
    bytes: Buffer.concat(body),
    trailers: response.rawTrailers,
    interim,
    rstCode: response.complete ? 0 : 1,
    isHeadAll: false,
  }
}

const field = (answered: Answered, name: string): string | undefined => headerOf({ rawHeaders: answered.headers }, name)

for (const here of ['http/1.1', 'h2'] as const) {
  for (const there of ['http/1.1', 'h2'] as const) {
    describe(`${here} from the agent, ${there} to the upstream:`, () => {
      let agent: Agent
      beforeEach(async () => void (agent = await openAgent(here, portOf(there))))
      const close = async (): Promise<void> => agent[Symbol.asyncDispose]()
      const last = (): Http2Upstream['requests'][number] | undefined => upstreams[there]?.requests.at(-1)
      const it = (title: string, run: () => Promise<void>): void =>
        void test(title, async () => {
          await run()
          await close()
        })

      it('a GET goes and comes back as it is, with the credential of its host', async () => {
        const answered = await agent.ask('GET', '/plain', { authorization: 'Bearer mine', 'x-mine': 'caf\xe9' }).answered
        assert.deepEqual([answered.status, answered.body, field(answered, 'x-one')], [200, 'plain answer', 'caf\xe9'])
        assert.equal(last()?.protocol, there)
        assert.equal(headerOf(last(), 'authorization'), `Bearer ${CANARY}`)
        assert.equal(headerOf(last(), 'x-mine'), 'caf\xe9')
        assert.ok(!JSON.stringify(answered).includes(CANARY))
      })

      it('8 MB go up and come down at the same time, whole', async () => {
        const data = randomBytes(8_000_000)
        const { body, head } = agent.ask('POST', '/echo', {}, true)
        body.end(data)
        const hash = createHash('sha256')
        let bytes = 0
        for await (const chunk of await head) {
          hash.update(chunk as Buffer)
          bytes += (chunk as Buffer).length
        }
        assert.equal(bytes, data.length)
        assert.equal(hash.digest('hex'), createHash('sha256').update(data).digest('hex'))
      })

      it('a stream in both directions goes on as each side answers the other', async () => {
        const { body, head, answered } = agent.ask('POST', '/events', {}, true)
        body.write('0')
        const events = await head
        for (let n = 1; n < 5; n++) {
          const [chunk] = (await once(events, 'data')) as [Buffer]
          assert.equal(chunk.toString(), `data: after ${n - 1}\n\n`)
          body.write(String(n)) // only now
        }
        body.end()
        assert.equal((await answered).rstCode, 0)
      })

      it('an answer’s head comes before its body has anything', async () => {
        const { head, cancel, answered } = agent.ask('GET', '/head-then-nothing')
        await head
        cancel()
        await answered
      })

      it('trailers of the answer come, any name of them, and those of the request go where HTTP/2 carries them', async () => {
        const { body, answered } = agent.ask('POST', '/trailers', {}, true)
        body.end('with trailers')
        const got = await answered
        assert.equal(got.body, 'with trailers')
        const trailers = { rawHeaders: got.trailers }
        assert.equal(headerOf(trailers, 'x-late'), there === 'h2' ? 'got from the agent' : 'got nothing')
        assert.equal(headerOf(trailers, '__proto__x'), 'y')
        assert.equal(headerOf(trailers, 'grpc-status'), '0')
      })

      for (const [method, path, status] of [
        ['HEAD', '/plain', 200],
        ['GET', '/204', 204],
        ['GET', '/205', 205],
        ['GET', '/304', 304],
        ['DELETE', '/204', 204],
      ] as const) {
        it(`${method} ${path} is answered ${status} without a body, and the connection goes on`, async () => {
          const answered = await agent.ask(method, path).answered
          assert.deepEqual([answered.status, answered.body, answered.rstCode], [status, '', 0])
        })
      }

      it('a part of a file is asked for and comes as one', async () => {
        const answered = await agent.ask('GET', '/range', { range: 'bytes=2-4' }).answered
        assert.deepEqual([answered.status, answered.body, field(answered, 'content-range')], [206, 'cde', 'bytes 2-4/10'])
        assert.equal(headerOf(last(), 'range'), 'bytes=2-4')
      })

      it('Expect: 100-continue is answered, and the body then goes', async () => {
        const { body, answered } = agent.ask('POST', '/echo', { expect: '100-continue' }, true)
        const continued = new Promise((resolve) => (body as Duplex).once('continue', resolve))
        if (here === 'http/1.1') (body as unknown as { flushHeaders(): void }).flushHeaders()
        await continued
        body.end('now')
        assert.equal((await answered).body, 'now')
        assert.equal(headerOf(last(), 'expect'), undefined)
      })

      it('103 with its links comes before the answer', async () => {
        const answered = await agent.ask('GET', '/hints').answered
        assert.equal(answered.body, 'hinted')
        assert.equal(answered.interim.length, 1)
        assert.equal(answered.interim[0]?.[':status'], 103)
        assert.match(String(answered.interim[0]?.['link']), /a\.css.*b\.js/)
      })

      it('an answer in the middle of an upload comes, and the upload stops without a fault', async () => {
        const { body, answered } = agent.ask('POST', '/early', {}, true)
        body.on('error', () => {})
        body.write(Buffer.alloc(300_000))
        const got = await answered
        assert.deepEqual([got.status, got.body, got.rstCode], [413, 'too much', 0])
        body.destroy()
      })

      it('cookies go up as one field, and two that are set stay two', async () => {
        const cookie = here === 'h2' ? ['a=1', 'b=2', 'c=3'] : 'a=1; b=2; c=3'
        const answered = await agent.ask('GET', '/cookies', { cookie }).answered
        assert.equal(answered.body, 'a=1; b=2; c=3')
        const set = answered.headers.filter((_value, i) => answered.headers[i - 1]?.toLowerCase() === 'set-cookie')
        assert.deepEqual(set, ['a=1; Path=/', 'b=2'])
      })

      it('no other way to the service is told: Alt-Svc, ALTSVC and ORIGIN stay here', async () => {
        const answered = await agent.ask('GET', '/alt').answered
        assert.equal(answered.body, 'stay')
        assert.equal(field(answered, 'alt-svc'), undefined)
        assert.deepEqual(agent.told, [])
      })

      it('an agent that gives up has its request given up at the upstream', async () => {
        const closed = once(seen.closed, '/wait')
        const { cancel } = agent.ask('GET', '/wait')
        while (last() === undefined) await new Promise(setImmediate)
        cancel()
        await closed
      })

      it('an answer that breaks off at the upstream breaks off for the agent, and is never made whole', async () => {
        const { answered } = agent.ask('GET', '/break')
        const got = await answered
        assert.notEqual(got.rstCode, 0)
        assert.ok(got.body === 'half' || got.status === 502, got.body)
      })
    })
  }
}
