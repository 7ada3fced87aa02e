import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { exchangeAt, openTokenGate, openTokenServer, type TokenServer } from '../../support/token-server.ts'
import { HOST, leafOf } from '../../support/upstream-client.ts'
import { openUpstream } from '../../support/upstream.ts'

const CLIENT = { id: 'client', password: 'password-canary', proof: 'basic' } as const
const SECRETS = { secret: new Secret('CLIENT', 'password-canary') }
const BASIC = Buffer.from('client:password-canary').toString('base64')

/** Rejects with an error that names this cause, and nothing that was sent or answered. */
async function assertFails(token: Promise<unknown>, says: RegExp): Promise<void> {
  await assert.rejects(token, (error) => {
    assert.ok(error instanceof SallyportError)
    assert.equal(error.code, 'token_exchange_failed')
    assert.match(error.message, says)
    const shown = `${error.message} ${error.hint} ${error.stack} ${inspect(error, { depth: 9, showHidden: true })}`
    assert.doesNotMatch(shown, /canary/)
    assert.ok(!shown.includes(BASIC))
    return true
  })
}

test('the form goes out once, with its length, and is never compressed', async () => {
  await using server = await openTokenServer({ ...CLIENT })
  await using gate = openTokenGate()
  await gate.exchanges.get('api', exchangeAt(server.url), SECRETS)
  const [request] = server.requests
  const fields = request?.rawHeaders ?? []
  const pairs = fields.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${fields[i + 1]}`] : []))
  assert.deepEqual(
    pairs.filter((pair) => pair !== 'connection: keep-alive'),
    [
      `host: ${HOST}:${server.port}`,
      'content-type: application/x-www-form-urlencoded',
      'accept: application/json',
      `authorization: Basic ${BASIC}`,
      'accept-encoding: identity',
      'content-length: 29',
    ],
  )
  assert.equal(request?.body.toString(), 'grant_type=client_credentials')
  assert.equal(server.requests.length, 1)
})

test('a server whose certificate is for another host gets nothing', async () => {
  await using server = await openTokenServer({ ...CLIENT }, false, 'other.example.com')
  await using gate = openTokenGate()
  await assertFails(gate.exchanges.get('api', exchangeAt(server.url), SECRETS), /upstream_tls_failed/)
  assert.equal(server.requests.length, 0)
})

test('I4 a server on an address that the exchange does not list is not even dialled', async () => {
  await using server = await openTokenServer({ ...CLIENT })
  await using gate = openTokenGate()
  for (const addresses of [[], ['127.0.0.2/32'], ['10.0.0.0/8']]) {
    await assertFails(gate.exchanges.get('api', exchangeAt(server.url, { addresses }), SECRETS), /leads to 127\.0\.0\.1.*address_refused/)
  }
  assert.equal(server.connections, 0)
})

for (const url of ['http://api.example.com/token', 'https://user:password-canary@api.example.com/token', 'nonsense', 'https://256.1/']) {
  test(`nothing is dialled for a URL that is not one of https with a host: ${url.slice(0, 12)}`, async () => {
    await using gate = openTokenGate()
    await assertFails(gate.exchanges.get('api', exchangeAt(url), SECRETS), /is not one of https/)
    assert.equal(gate.connections.size, 0)
  })
}

for (const status of [301, 302, 303, 307, 308]) {
  test(`a redirect with ${status} is a failure: where it leads nobody is asked`, async () => {
    await using elsewhere = await openUpstream(undefined, leafOf(HOST))
    await using server = await openTokenServer({ ...CLIENT })
    server.fault = (response) => void response.writeHead(status, { location: `https://${HOST}:${elsewhere.port}/?canary` }).end()
    await using gate = openTokenGate()
    await assertFails(gate.exchanges.get('api', exchangeAt(server.url), SECRETS), new RegExp(`answered ${status}$`))
    assert.equal(elsewhere.connections, 0)
    assert.equal(server.requests.length, 1)
  })
}

for (const { what, fault, says } of [
  {
    what: 'is endless',
    fault: (response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      const more = (): void => {
        while (!response.destroyed && response.write('canary'.repeat(2_000)));
      }
      response.on('drain', more)
      more()
    },
    says: /more than 65536 bytes/,
  },
  {
    what: 'breaks off in its body',
    fault: (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '500' })
      response.write('{"access_token":"access-canary-1","token_type":"Bearer"}', () => response.destroy())
    },
    says: /broke/,
  },
  { what: 'never begins', fault: (response) => void response.destroy(), says: /broke/ },
] as { what: string; fault: NonNullable<TokenServer['fault']>; says: RegExp }[]) {
  test(`an answer that ${what} gives no token, and nothing is kept of it`, async () => {
    await using server = await openTokenServer({ ...CLIENT })
    server.fault = fault
    await using gate = openTokenGate()
    await assertFails(gate.exchanges.get('api', exchangeAt(server.url), SECRETS), says)
    assert.deepEqual(gate.exchanges.known('api'), [])
  })
}

for (const { what, begin } of [
  { what: 'never answers', begin: () => {} },
  {
    what: 'drips its answer',
    begin: (response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write('{"access_token":"access-canary-1",')
    },
  },
] as { what: string; begin: NonNullable<TokenServer['fault']> }[]) {
  test(`a server that ${what} is given up after its time, and its connection ends`, async (context) => {
    const asked = Promise.withResolvers<void>()
    const gone = Promise.withResolvers<void>()
    await using server = await openTokenServer({ ...CLIENT })
    server.fault = (response, request) => {
      begin(response, request)
      response.once('close', () => gone.resolve())
      asked.resolve()
    }
    await using gate = openTokenGate()
    context.mock.timers.enable({ apis: ['setTimeout'] })
    const token = gate.exchanges.get('api', exchangeAt(server.url), SECRETS)
    await asked.promise
    context.mock.timers.tick(LIMITS.tokenExchangeMs)
    await assertFails(token, /no whole answer in time/)
    await gone.promise
  })
}

test('when the gate stops, who waits is told at once, and nothing more is asked', async () => {
  const asked = Promise.withResolvers<void>()
  await using server = await openTokenServer({ ...CLIENT })
  server.fault = () => asked.resolve()
  await using gate = openTokenGate()
  const token = gate.exchanges.get('api', exchangeAt(server.url), SECRETS)
  await asked.promise
  gate.stop.abort(new SallyportError('overloaded', 'the gate stops'))
  await assertFails(token, /the gate stops/)
  await assertFails(gate.exchanges.get('other', exchangeAt(server.url), SECRETS), /the gate stops/)
  assert.equal(server.requests.length, 1)
  assert.deepEqual(gate.lookedUp, [HOST])
})

test('I7 one token server has one pool, and connections of a replaced policy carry nothing new', async () => {
  await using server = await openTokenServer({ ...CLIENT })
  await using gate = openTokenGate()
  await gate.exchanges.get('a', exchangeAt(server.url), SECRETS)
  await gate.exchanges.get('b', exchangeAt(server.url), SECRETS)
  assert.equal(gate.connections.size, 1)
  gate.reload()
  await gate.exchanges.get('c', exchangeAt(server.url), SECRETS)
  const [first, second, third] = server.requests.map(({ remotePort }) => remotePort)
  assert.ok(third !== first && third !== second)
  assert.equal(gate.connections.size, 1)
})
