/** @grpc/grpc-js through the proxy that its environment names, and straight to the transparent port. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import { credentials, status, type ServiceError } from '@grpc/grpc-js'
import { openGrpcClient, openGrpcUpstream, type GrpcUpstream, type Text } from '../support/grpc-upstream.ts'
import { openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { BEARER, CANARY, openPlaces, type Ways } from '../support/ways.ts'

const HOST = 'grpc.example.com'
/** Speaks HTTP/1.1 alone. */
const OLD = 'old.example.com'
const DENIED = 'denied.example.net'

const parts = new AsyncDisposableStack()
let upstream: GrpcUpstream
let old: Http2Upstream
let ways: Ways

before(async () => {
  const places = parts.use(await openPlaces())
  upstream = parts.use(await openGrpcUpstream(places.tls(HOST), places.at(HOST, 443)))
  old = parts.use(await openHttp2Upstream(places.tls(OLD), { protocols: ['http/1.1'], place: places.at(OLD, 443) }))
  ways = parts.use(
    await places.open({
      hosts: { [HOST]: { inject: BEARER, rule: 'methods: [POST]' }, [OLD]: { inject: BEARER } },
      rules: `    - {id: never, host: ${HOST}, paths: ["/sallyport.test.Echo/Never"], action: deny}\n`,
      denied: [DENIED],
    }),
  )
})
after(() => parts.disposeAsync())

type Client = ReturnType<typeof openGrpcClient>

const WAYS: Readonly<Record<string, (host: string) => Client>> = {
  'the proxy of its environment': (host) => {
    process.env['grpc_proxy'] = ways.proxy.url
    const client = openGrpcClient(`${host}:443`, credentials.createSsl(Buffer.from(ways.ca)))
    delete process.env['grpc_proxy']
    return client
  },
  'the transparent port': (host) =>
    openGrpcClient(ways.transparent.https, credentials.createSsl(Buffer.from(ways.ca)), {
      'grpc.ssl_target_name_override': host,
      'grpc.default_authority': host,
      'grpc.enable_http_proxy': 0,
    }),
}

function lastCall(): { method: string; authorization: readonly unknown[] } | undefined {
  const call = upstream.calls.at(-1)
  return call && { method: call.method, authorization: call.metadata.get('authorization') }
}

function failed(expected: { code: status; details?: RegExp }): (error: ServiceError) => boolean {
  return (error) => {
    assert.equal(error.code, expected.code, error.message)
    if (expected.details) assert.match(error.details, expected.details)
    return true
  }
}

for (const [way, open] of Object.entries(WAYS)) {
  describe(`gRPC by ${way}`, () => {
    let client: Client
    before(() => void (client = open(HOST)))
    after(() => client[Symbol.dispose]())

    test('a unary call comes back with early metadata and trailers, and the upstream saw the credential', async () => {
      const data = randomBytes(1_000_000)
      const { message, metadata, trailers } = await client.unary('Say', client.text('hello', data))
      assert.equal(message.text, 'hello')
      assert.ok(message.data.equals(data))
      assert.deepEqual(metadata.get('x-head'), ['early'])
      assert.deepEqual(trailers.get('x-echo'), ['Say'])
      assert.deepEqual(lastCall(), { method: 'Say', authorization: [`Bearer ${CANARY}`] })
      assert.ok(!JSON.stringify([metadata.getMap(), trailers.getMap()]).includes(CANARY))
    })

    test('a server’s stream of 200 messages arrives whole and in order', async () => {
      const got: string[] = []
      let bytes = 0
      const call = client.repeat(client.text('200', Buffer.alloc(20_000)))
      call.on('data', ({ text, data }: Text) => {
        got.push(text)
        bytes += data.length
      })
      await once(call, 'end')
      assert.deepEqual(
        got,
        Array.from({ length: 200 }, (_, n) => String(n + 1)),
      )
      assert.equal(bytes, 4_000_000)
      assert.deepEqual(lastCall(), { method: 'Repeat', authorization: [`Bearer ${CANARY}`] })
    })

    test('a client’s stream of 200 messages arrives whole and in order', async () => {
      const texts = Array.from({ length: 200 }, (_, n) => String(n))
      const { message } = await client.join(texts.map((text) => client.text(text, Buffer.alloc(20_000))))
      assert.equal(message.text, `${texts.join(',')} 4000000`)
      assert.deepEqual(lastCall(), { method: 'Join', authorization: [`Bearer ${CANARY}`] })
    })

    test('in a call of two streams each side answers the other while both are open', async () => {
      const call = client.talk()
      const answers: string[] = []
      call.on('data', ({ text }: Text) => void answers.push(text))
      for (const word of ['one', 'two', 'three']) {
        call.write(client.text(word))
        await once(call, 'data') // nothing is sent on before the answer is here
      }
      call.end()
      await once(call, 'end')
      assert.deepEqual(answers, ['one!', 'two!', 'three!'])
      assert.deepEqual(lastCall(), { method: 'Talk', authorization: [`Bearer ${CANARY}`] })
    })

    test('a status without an answer comes with its details and metadata', async () => {
      await assert.rejects(client.unary('Refuse', client.text('x')), (error: ServiceError) => {
        assert.deepEqual(error.metadata.get('x-echo'), ['Refuse'])
        return failed({ code: status.FAILED_PRECONDITION, details: /^not today: 100 %, ü$/ })(error)
      })
    })

    test('a deadline ends the call here, and the upstream hears of it', async () => {
      const cancelled = upstream.nextCancelled()
      await assert.rejects(client.unary('Wait', client.text('x'), 500), failed({ code: status.DEADLINE_EXCEEDED }))
      await cancelled
    })

    test('a method that is denied is PERMISSION_DENIED, and no call arrives', async () => {
      const count = upstream.calls.length
      await assert.rejects(client.unary('Never', client.text('x')), failed({ code: status.PERMISSION_DENIED }))
      assert.equal(upstream.calls.length, count)
    })

    test('40 calls at once on one connection each get their own answer', async () => {
      const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => client.unary('Say', client.text(`call ${n}`))))
      assert.deepEqual(
        answers.map(({ message }) => message.text),
        Array.from({ length: 40 }, (_, n) => `call ${n}`),
      )
    })
  })

  test(`gRPC by ${way} to a host that no rule allows is UNAVAILABLE`, async () => {
    using client = open(DENIED)
    await assert.rejects(client.unary('Say', client.text('x'), 3_000), failed({ code: status.UNAVAILABLE }))
  })

  test(`gRPC by ${way} to an upstream without HTTP/2 ends with a status, not with silence`, async () => {
    const count = old.requests.length
    using client = open(OLD)
    await assert.rejects(client.unary('Say', client.text('x')), (error: ServiceError) => error.code !== status.DEADLINE_EXCEEDED)
    assert.ok(old.requests.length <= count + 1, 'the call was sent more than once')
  })
}
