import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import type { TokenExchange } from '../../../src/wire/credential.ts'
import { exchangeAt, openTokenGate, openTokenServer, type TokenClient } from '../../support/token-server.ts'

const PASSWORD = 'password-canary: %&+=/ü~'.replace('ü', 'u')
const SECRETS = { secret: new Secret('CLIENT', PASSWORD) }
/** Secrets compare by their names: what counts are the values. */
const valuesOf = (secrets: readonly Secret[]): string[] => secrets.map((secret) => secret.reveal())
const ODD_ID = 'an id: with %2F & more'

for (const { what, client, exchange, secrets } of [
  {
    what: 'client_credentials with the password in Basic, both parts form-encoded first',
    client: { id: ODD_ID, password: PASSWORD, proof: 'basic' },
    exchange: { clientId: ODD_ID },
    secrets: SECRETS,
  },
  {
    what: 'client_credentials with the password in the body',
    client: { id: ODD_ID, password: PASSWORD, proof: 'body' },
    exchange: { clientId: ODD_ID, authentication: 'body' },
    secrets: SECRETS,
  },
  {
    what: 'refresh_token with the password in Basic',
    client: { id: 'client', password: PASSWORD, proof: 'basic', refreshToken: 'refresh+canary/0' },
    exchange: { grant: 'refresh_token' },
    secrets: { secret: new Secret('REFRESH', 'refresh+canary/0'), clientSecret: new Secret('CLIENT', PASSWORD) },
  },
  {
    what: 'refresh_token of a client without a password, which names itself in the body',
    client: { id: 'client', proof: 'none', refreshToken: 'refresh+canary/0' },
    exchange: { grant: 'refresh_token' },
    secrets: { secret: new Secret('REFRESH', 'refresh+canary/0') },
  },
] as { what: string; client: TokenClient; exchange: Partial<TokenExchange>; secrets: typeof SECRETS }[]) {
  test(`a server that reads RFC 6749 to the letter grants ${what}`, async () => {
    await using server = await openTokenServer(client)
    await using gate = openTokenGate()
    const token = await gate.exchanges.get('api', exchangeAt(server.url, exchange), secrets)
    assert.deepEqual([token.reveal()], server.issued)
    assert.deepEqual(server.refusals, [])
    assert.deepEqual(valuesOf(gate.exchanges.known('api')), server.issued)
    assert.deepEqual(gate.exchanges.known('other'), [])
  })
}

test('scope and further parameters are in the form, and none of them stands in the way of a field of the grant', async () => {
  await using server = await openTokenServer({ id: 'client', password: PASSWORD, proof: 'basic' })
  await using gate = openTokenGate()
  const parameters = { audience: 'https://api.example.com/?a=b&c', grant_type: 'password' }
  await gate.exchanges.get('api', exchangeAt(server.url, { scope: 'read write', parameters }), SECRETS)
  const form = new URLSearchParams(server.requests[0]?.body.toString())
  assert.deepEqual(Object.fromEntries(form), {
    audience: 'https://api.example.com/?a=b&c',
    grant_type: 'client_credentials',
    scope: 'read write',
  })
})

test('fifty requests at once make one exchange, and have one token', async () => {
  await using server = await openTokenServer({ id: 'client', password: PASSWORD, proof: 'basic' })
  await using gate = openTokenGate()
  const exchange = exchangeAt(server.url)
  const tokens = await Promise.all(Array.from({ length: 50 }, () => gate.exchanges.get('api', exchange, SECRETS)))
  assert.equal(new Set(tokens).size, 1)
  assert.equal(server.requests.length, 1)
})

for (const { grant, keptMs, why } of [
  { grant: {}, keptMs: 3_600_000 - LIMITS.tokenRenewalMs, why: 'until shortly before it expires' },
  { grant: { expires_in: '600' }, keptMs: 600_000 - LIMITS.tokenRenewalMs, why: 'the same where the seconds are a text' },
  { grant: { expires_in: 20 }, keptMs: 10_000, why: 'for half of a short life' },
  {
    grant: { expires_in: undefined },
    keptMs: LIMITS.tokenLifeDefaultMs - LIMITS.tokenRenewalMs,
    why: 'for a short time where the server does not say',
  },
  {
    grant: { expires_in: 1e15 },
    keptMs: LIMITS.tokenLifeMaxMs - LIMITS.tokenRenewalMs,
    why: 'no longer than a day, whatever the server says',
  },
]) {
  test(`an access token is used again ${why}`, async () => {
    await using server = await openTokenServer({ id: 'client', password: PASSWORD, proof: 'basic' })
    server.grant = grant
    await using gate = openTokenGate()
    const get = (): Promise<Secret> => gate.exchanges.get('api', exchangeAt(server.url), SECRETS)
    const first = await get()
    gate.clock.ms += keptMs - 1
    assert.equal(await get(), first)
    gate.clock.ms += 1
    const second = await get()
    assert.notEqual(second.reveal(), first.reveal())
    assert.deepEqual(valuesOf(gate.exchanges.known('api')), valuesOf([second, first]))
    assert.equal(server.requests.length, 2)
  })
}

test('a refresh token that the server replaces is used from then on, and is known as well', async () => {
  const client: TokenClient = { id: 'client', password: PASSWORD, proof: 'basic', refreshToken: 'refresh-canary-0' }
  await using server = await openTokenServer(client, true)
  await using gate = openTokenGate()
  const secrets = { secret: new Secret('REFRESH', 'refresh-canary-0'), clientSecret: new Secret('CLIENT', PASSWORD) }
  for (let round = 0; round < 6; round += 1) {
    await gate.exchanges.get('api', exchangeAt(server.url, { grant: 'refresh_token' }), secrets)
    gate.clock.ms += 3_600_000
  }
  assert.deepEqual(server.refusals, [])
  assert.equal(server.issued.length, 12)
  const known = valuesOf(gate.exchanges.known('api'))
  assert.equal(known.length, LIMITS.formerSecretsMax)
  assert.deepEqual(known.toSorted(), server.issued.slice(-LIMITS.formerSecretsMax).toSorted())
})

test('a policy that is replaced and says the same has the same tokens; another secret or exchange begins anew, and what was minted stays known', async () => {
  await using server = await openTokenServer({ id: 'client', password: PASSWORD, proof: 'basic' })
  await using gate = openTokenGate()
  const first = await gate.exchanges.get('api', exchangeAt(server.url), SECRETS)
  gate.reload()
  assert.equal(await gate.exchanges.get('api', exchangeAt(server.url), { secret: new Secret('CLIENT', PASSWORD) }), first)
  const scoped = await gate.exchanges.get('api', exchangeAt(server.url, { scope: 'read' }), SECRETS)
  assert.notEqual(scoped.reveal(), first.reveal())
  const wrong = gate.exchanges.get('api', exchangeAt(server.url), { secret: new Secret('CLIENT', 'another-canary') })
  await assert.rejects(wrong, { code: 'token_exchange_failed', message: /answered 401, invalid_client/ })
  const another = await gate.exchanges.get('other', exchangeAt(server.url), SECRETS)
  assert.equal(server.requests.length, 4)
  assert.deepEqual(valuesOf(gate.exchanges.known('api')), valuesOf([scoped, first]))
  assert.deepEqual(valuesOf(gate.exchanges.known('other')), valuesOf([another]))
})

test('while a token is due for renewal and not expired, one request renews it and the others go on with it', async () => {
  await using server = await openTokenServer({ id: 'client', password: PASSWORD, proof: 'basic' })
  await using gate = openTokenGate()
  const get = (): Promise<Secret> => gate.exchanges.get('api', exchangeAt(server.url), SECRETS)
  const first = await get()
  gate.clock.ms += 3_600_000 - 1
  const [renewed, ...others] = await Promise.all([get(), get(), get()])
  assert.deepEqual(valuesOf([renewed]), server.issued.slice(1))
  assert.deepEqual(valuesOf(others), valuesOf([first, first]))
  assert.equal(server.requests.length, 2)
})

test('a token that is not expired outlives a server that is out of order, but not one that says no', async () => {
  await using server = await openTokenServer({ id: 'client', password: PASSWORD, proof: 'basic' })
  await using gate = openTokenGate()
  const get = (): Promise<Secret> => gate.exchanges.get('api', exchangeAt(server.url), SECRETS)
  const first = await get()
  gate.clock.ms += 3_600_000 - 30_000
  server.fault = (response) => void response.writeHead(500).end()
  assert.equal(await get(), first)
  assert.equal(await get(), first, 'and the server is left alone meanwhile')
  assert.equal(server.requests.length, 2)
  gate.clock.ms += LIMITS.tokenPauseMs
  server.fault = (response) => void response.writeHead(401, { 'content-type': 'application/json' }).end('{"error":"invalid_client"}')
  await assert.rejects(get(), { code: 'token_exchange_failed' })
  await assert.rejects(get(), { code: 'token_exchange_failed' })
})

test('a failure is told to all who waited, then for a short time without asking again, then the server is asked anew', async () => {
  await using server = await openTokenServer({ id: 'client', password: PASSWORD, proof: 'basic' })
  await using gate = openTokenGate()
  const get = (): Promise<Secret> => gate.exchanges.get('api', exchangeAt(server.url), SECRETS)
  server.fault = (response) => void response.writeHead(503).end()
  const ends = await Promise.allSettled(Array.from({ length: 20 }, get))
  assert.ok(ends.every((end) => end.status === 'rejected' && (end.reason as SallyportError).code === 'token_exchange_failed'))
  server.fault = undefined
  gate.clock.ms += LIMITS.tokenPauseMs - 1
  await assert.rejects(get(), { code: 'token_exchange_failed' })
  assert.equal(server.requests.length, 1)
  gate.clock.ms += 1
  assert.deepEqual([(await get()).reveal()], server.issued)
})

const JSON_TYPE = 'application/json'
const GRANT = { access_token: 'access-canary-0', token_type: 'Bearer', expires_in: 60 }
for (const { what, status = 200, type = JSON_TYPE, body, says } of [
  {
    what: '400 with an error of the RFC',
    status: 400,
    body: '{"error":"invalid_scope","error_description":"canary"}',
    says: /answered 400, invalid_scope$/,
  },
  { what: '400 with another word as the error', status: 400, body: '{"error":"canary"}', says: /answered 400$/ },
  { what: '500', status: 500, body: 'canary', says: /answered 500$/ },
  { what: 'HTML', type: 'text/html', body: '<p>canary</p>', says: /not JSON$/ },
  { what: 'JSON that calls itself HTML', type: 'text/html', body: JSON.stringify(GRANT), says: /not JSON$/ },
  { what: 'no JSON', body: '{"access_token":"access-canary-0', says: /not JSON$/ },
  { what: 'a list', body: '["canary"]', says: /not JSON$/ },
  { what: 'nothing', body: '', says: /not JSON$/ },
  { what: 'no token', body: JSON.stringify({ ...GRANT, access_token: undefined }), says: /no access_token/ },
  { what: 'a token with a line break', body: JSON.stringify({ ...GRANT, access_token: 'canary\r\nx: y' }), says: /no access_token/ },
  { what: 'a token with a letter beyond ASCII', body: JSON.stringify({ ...GRANT, access_token: 'canaryü' }), says: /no access_token/ },
  {
    what: 'a token that is too short to be told from text',
    body: JSON.stringify({ ...GRANT, access_token: 'abcde' }),
    says: /no access_token/,
  },
  {
    what: 'a token that is too long',
    body: JSON.stringify({ ...GRANT, access_token: 'canary'.repeat(LIMITS.tokenBytesMax / 6 + 1) }),
    says: /no access_token/,
  },
  { what: 'a token that is a number', body: JSON.stringify({ ...GRANT, access_token: 123456789 }), says: /no access_token/ },
  { what: 'no token_type', body: JSON.stringify({ ...GRANT, token_type: undefined }), says: /token_type/ },
  { what: 'another token_type', body: JSON.stringify({ ...GRANT, token_type: 'mac' }), says: /token_type/ },
  { what: 'a token that expired already', body: JSON.stringify({ ...GRANT, expires_in: 0 }), says: /expires_in/ },
  { what: 'an expires_in that is no number', body: JSON.stringify({ ...GRANT, expires_in: 'canary' }), says: /expires_in/ },
  { what: 'a refresh token with a line break', body: JSON.stringify({ ...GRANT, refresh_token: 'canary\n' }), says: /refresh_token/ },
] as { what: string; status?: number; type?: string; body: string; says: RegExp }[]) {
  test(`an answer with ${what} gives no token, and none of its words is in the error`, async () => {
    await using server = await openTokenServer({ id: 'client', password: PASSWORD, proof: 'basic' })
    server.fault = (response) => void response.writeHead(status, { 'content-type': type }).end(body)
    await using gate = openTokenGate()
    await assert.rejects(gate.exchanges.get('api', exchangeAt(server.url), SECRETS), (error) => {
      assert.ok(error instanceof SallyportError)
      assert.equal(error.code, 'token_exchange_failed')
      assert.match(error.message, says)
      assert.doesNotMatch(
        `${error.message} ${error.hint} ${JSON.stringify(error)} ${inspect(error, { depth: 9, showHidden: true })}`,
        /canary/,
      )
      return true
    })
    assert.deepEqual(gate.exchanges.known('api'), [])
  })
}

for (const type of ['bearer', 'BEARER']) {
  test(`the token_type ${type} is Bearer`, async () => {
    await using server = await openTokenServer({ id: 'client', password: PASSWORD, proof: 'basic' })
    server.grant = { token_type: type }
    await using gate = openTokenGate()
    assert.deepEqual([(await gate.exchanges.get('api', exchangeAt(server.url), SECRETS)).reveal()], server.issued)
  })
}
