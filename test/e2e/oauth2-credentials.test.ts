/** I1, I3, I5, I18, I24, I25: a secret is exchanged for access tokens at its token server, and only those reach the API. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { LIMITS } from '../../src/kernel/limits.ts'
import { eventually } from '../support/eventually.ts'
import { fieldOf } from '../support/every-client.ts'
import { API, approaches, openTokenSetting, OTHER, PASSWORD, REFRESH, type TokenSetting } from '../support/token-setting.ts'
import type { Recorded } from '../support/upstream.ts'

/** Values of a field in all that the API got. */
function arrived({ api }: TokenSetting, name = 'authorization'): (string | undefined)[] {
  return api.requests.map(({ rawHeaders }) => fieldOf(rawHeaders, name))
}

function strayIn(requests: readonly Recorded[]): string[] {
  const text = requests.map(({ url, rawHeaders, body }) => [url, ...rawHeaders, String(body)].join('\n')).join('\n')
  const inBasic = Buffer.from(`client:${PASSWORD}`).toString('base64')
  return [PASSWORD, REFRESH, inBasic, 'refresh-canary'].filter((value) => text.includes(value))
}

async function eventsOf({ every }: TokenSetting): Promise<string[]> {
  return (await every.gate.audit()).map(({ event }) => String(event)).filter((event) => event !== 'started')
}

for (const { what, options } of [
  { what: 'client credentials, proven in the field', options: {} },
  { what: 'client credentials, proven in the form', options: { proof: 'body' } },
  { what: 'a refresh token, with a password in the field', options: { isRefreshing: true } },
  { what: 'a refresh token, with a password in the form', options: { isRefreshing: true, proof: 'body' } },
  { what: 'a refresh token of a client without a password', options: { isRefreshing: true, proof: 'none' } },
  { what: 'a refresh token that each exchange replaces', options: { isRefreshing: true, isRotating: true } },
] as const) {
  test(`I1 ${what}: one exchange serves requests by every way in, and the secret goes to the token server alone`, async () => {
    await using setting = await openTokenSetting(options)
    for (const approach of approaches(10)) {
      const got = await setting.get({ fields: [['Authorization', 'Bearer own-token']] }, approach)
      assert.deepEqual([got.status, String(got.body)], [200, 'ok'], approach.way)
    }
    assert.equal(setting.tokens.requests.length, 1)
    assert.deepEqual(setting.tokens.refusals, [])
    assert.deepEqual(new Set(arrived(setting)), new Set(['Bearer access-canary-1']))
    assert.deepEqual(strayIn(setting.api.requests), [])
    assert.deepEqual(await setting.leaks(), [])
  })
}

test('I3 an exchange is in the audit before it leaves, by the host of the token server and nothing else', async () => {
  await using setting = await openTokenSetting()
  let told = ''
  setting.tokens.fault = (response) => {
    told = readFileSync(setting.every.gate.sidecar.auditFile, 'utf8')
    response.writeHead(503).end()
  }
  assert.equal((await setting.get()).code, 'token_exchange_failed')
  const lines = told
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>)
  assert.deepEqual(
    lines.map(({ event }) => event),
    ['started', 'decided', 'token_requested'],
  )
  assert.deepEqual([lines[1]?.['credential'], lines[1]?.['secret'], lines[2]?.['host']], ['api', 'PASSWORD', 'login.example.com'])
  const { event: _, host: _host, ...rest } = lines[2] ?? {}
  assert.deepEqual(
    Object.keys(rest).toSorted(),
    Object.keys(lines[0] ?? {})
      .filter((key) => !['event', 'version', 'policy'].includes(key))
      .toSorted(),
  )
  assert.deepEqual(await eventsOf(setting), ['decided', 'token_requested', 'finished'])
})

test('I25 requests that come while a token is fetched wait for that one', async () => {
  await using setting = await openTokenSetting()
  const { promise, resolve } = Promise.withResolvers<void>()
  setting.tokens.until = promise
  const asked = approaches(20).map((approach) => setting.get({}, approach))
  await eventually(async () => {
    const decided = (await eventsOf(setting)).filter((event) => event === 'decided')
    assert.equal(decided.length, 20)
  })
  resolve()
  const answers = await Promise.all(asked)
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
  assert.equal(setting.tokens.requests.length, 1)
  assert.equal(setting.api.requests.length, 20)
})

test('I25 a token is renewed a minute before it expires, each time with the refresh token that the last answer gave', async () => {
  await using setting = await openTokenSetting({ isRefreshing: true, isRotating: true })
  for (const { seconds, exchanges } of [
    { seconds: 0, exchanges: 1 },
    { seconds: 3530, exchanges: 1 },
    { seconds: 3550, exchanges: 2 },
    { seconds: 3550 + 3530, exchanges: 2 },
    { seconds: 3550 + 3550, exchanges: 3 },
  ]) {
    setting.clock.aheadMs = seconds * 1000
    assert.equal((await setting.get()).status, 200, `after ${seconds} s`)
    assert.equal(setting.tokens.requests.length, exchanges, `after ${seconds} s`)
  }
  assert.deepEqual(setting.tokens.refusals, [])
  assert.equal(arrived(setting).at(-1), 'Bearer access-canary-5')
  assert.deepEqual(strayIn(setting.api.requests), [])
})

test('I25 a token server that is out of reach leaves the token that is good; one that says no ends it; and an expired one is never sent', async () => {
  await using setting = await openTokenSetting()
  assert.equal((await setting.get()).status, 200)
  setting.tokens.fault = (response) => void response.writeHead(503).end()
  setting.clock.aheadMs = 3_550_000
  assert.equal((await setting.get()).status, 200)
  setting.clock.aheadMs = 3_601_000
  assert.equal((await setting.get()).code, 'token_exchange_failed')
  setting.tokens.fault = undefined
  setting.clock.aheadMs += LIMITS.tokenPauseMs
  assert.equal((await setting.get()).status, 200)
  setting.clock.aheadMs += 3_550_000
  setting.tokens.fault = (response) => void response.writeHead(400, JSON_TYPE).end('{"error":"invalid_grant"}')
  const denied = await setting.get()
  assert.match(String(denied.body), /token_exchange_failed.*invalid_grant/)
  assert.equal(setting.api.requests.length, 3)
})

const JSON_TYPE = { 'content-type': 'application/json' }
const granted = (more: object): string => JSON.stringify({ access_token: 'access-canary-x', token_type: 'Bearer', ...more })

for (const { what, fault, certifiedAs } of [
  { what: 'refuses the client', fault: [401, JSON_TYPE, '{"error":"invalid_client","error_description":"canary"}'] },
  { what: 'fails with a page', fault: [500, { 'content-type': 'text/html' }, `<h1>${PASSWORD}</h1>`] },
  { what: 'answers with something else than JSON', fault: [200, { 'content-type': 'text/plain' }, granted({})] },
  { what: 'answers with broken JSON', fault: [200, JSON_TYPE, granted({}).slice(0, -1)] },
  { what: 'answers with a list', fault: [200, JSON_TYPE, `[${granted({})}]`] },
  { what: 'gives no token', fault: [200, JSON_TYPE, '{"token_type":"Bearer"}'] },
  { what: 'gives a token that breaks a field', fault: [200, JSON_TYPE, granted({ access_token: 'canary\r\nX-Evil: 1' })] },
  { what: 'gives a token of another type', fault: [200, JSON_TYPE, granted({ token_type: 'mac' })] },
  { what: 'gives a token that has expired', fault: [200, JSON_TYPE, granted({ expires_in: 0 })] },
  { what: 'gives more than is read', fault: [200, JSON_TYPE, granted({ pad: 'x'.repeat(LIMITS.tokenAnswerBytesMax) })] },
  { what: 'leads on to the API', fault: [307, { location: `https://${API}/` }, ''] },
  { what: 'says that the grant is in a coding', fault: [200, { ...JSON_TYPE, 'content-encoding': 'gzip' }, gzipSync(granted({}))] },
  { what: 'breaks off in its answer', fault: [200, { ...JSON_TYPE, 'content-length': '1000' }, undefined] },
  { what: 'breaks off before its answer', fault: undefined },
  { what: 'has the certificate of another host', fault: undefined, certifiedAs: API },
] as { what: string; fault: [number, Record<string, string>, string | Buffer | undefined] | undefined; certifiedAs?: string }[]) {
  test(`I25 where the token server ${what}, the answer is 502 and nothing is sent to the API`, async () => {
    await using setting = await openTokenSetting(certifiedAs === undefined ? {} : { certifiedAs })
    const { tokens, api } = setting
    tokens.fault = (response) => {
      if (fault === undefined) return void response.destroy()
      const [status, headers, body] = fault
      response.writeHead(status, headers)
      if (body !== undefined) return void response.end(body)
      response.write('{"access_token":"access-canary-x"', () => response.destroy())
    }
    const answers = [await setting.get(), await setting.get({ method: 'POST', body: 'x' }, approaches(8)[7])]
    for (const got of answers) assert.deepEqual([got.status, got.code], [502, 'token_exchange_failed'])
    assert.equal(tokens.requests.length, certifiedAs === undefined ? 1 : 0)
    assert.equal(api.connections, 0)
    const seen = answers.map(({ bytes }) => bytes.toString('latin1')).join('\n')
    assert.deepEqual(await setting.leaks(seen), [])
    assert.equal((seen + setting.every.gate.log()).includes('canary'), false)
    if (certifiedAs !== undefined) return
    // What was wrong is asked again after a pause, not at once and not never.
    tokens.fault = undefined
    assert.equal((await setting.get()).status, 502)
    setting.clock.aheadMs += LIMITS.tokenPauseMs
    assert.equal((await setting.get()).status, 200)
    assert.equal(tokens.requests.length, 2)
  })
}

test('I25 a token server on an address that oauth2 does not open is not dialled, whatever the rules open', async () => {
  await using setting = await openTokenSetting({ policy: { addresses: '' } })
  const got = await setting.get()
  assert.deepEqual([got.status, got.code], [502, 'token_exchange_failed'])
  assert.match(String(got.body), /address_refused/)
  assert.equal(setting.tokens.connections + setting.api.connections, 0)
})

test('I5 no token is fetched for a request that none goes with', async () => {
  await using setting = await openTokenSetting()
  assert.equal((await setting.get({ host: OTHER })).status, 200)
  assert.equal((await setting.get({ host: 'denied.example.com' })).refused, 'HTTP 403')
  await setting.get({ path: '/?X-Amz-Signature=a&X-Amz-Credential=b' })
  await setting.get({ scheme: 'http' })
  assert.equal(setting.tokens.connections, 0)
  assert.deepEqual(arrived(setting), [undefined])
})

for (const { coding, encode } of [
  { coding: 'identity', encode: (token: string): Buffer => Buffer.from(`{"you":"${token}"}`) },
  {
    coding: 'identity, in base64',
    encode: (token: string): Buffer => Buffer.from(Buffer.from(`Bearer ${token} is yours`).toString('base64')),
  },
  { coding: 'gzip', encode: (token: string): Buffer => gzipSync(`{"you":"${token}"}`) },
]) {
  test(`I24 an access token that the API echoes does not reach the agent, old or new: ${coding}`, async () => {
    await using setting = await openTokenSetting()
    let echoed = ''
    setting.answer = (_request, response) => {
      response.writeHead(200, { 'content-encoding': coding.split(',')[0] ?? '', 'x-token': echoed }).end(encode(echoed))
    }
    for (const [i, aheadMs] of [0, 3_550_000, 3_550_000].entries()) {
      setting.clock.aheadMs = aheadMs
      // The last one is the first again, which is no longer good.
      echoed = i === 1 ? 'access-canary-2' : 'access-canary-1'
      const got = await setting.get({ fields: [['Accept-Encoding', 'gzip']] })
      assert.equal(got.status, 200)
      assert.equal(fieldOf(got.headers, 'x-token'), '*'.repeat(echoed.length))
      assert.equal(got.body.equals(encode(echoed)), false)
      const plain = coding === 'gzip' ? gunzipSync(got.body) : got.body
      const said = coding.endsWith('base64') ? Buffer.from(String(plain), 'base64') : plain
      assert.equal(said.includes(echoed.slice(3, -3)), false, String(said))
      assert.deepEqual(await setting.leaks(got.bytes.toString('latin1')), [])
    }
    assert.equal(setting.tokens.issued.length, 2)
  })
}
