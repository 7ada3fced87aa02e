/** I1, I18, I23: access tokens while policies change, agents go and the gate stops, and in the place of a placeholder. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readEvents } from '../support/audit.ts'
import { eventually } from '../support/eventually.ts'
import { fieldOf } from '../support/every-client.ts'
import { approaches, openTokenSetting, OTHER, PASSWORD, type TokenSetting } from '../support/token-setting.ts'

const MORE = '    - {id: more, host: more.example.com, action: allow}\n'

function arrived({ api }: TokenSetting): (string | undefined)[] {
  return api.requests.map(({ rawHeaders }) => fieldOf(rawHeaders, 'authorization'))
}

/** Holds the answers of the token server until it is called. */
function hold({ tokens }: TokenSetting): () => void {
  const { promise, resolve } = Promise.withResolvers<void>()
  tokens.until = promise
  return () => {
    tokens.until = undefined
    resolve()
  }
}

test('I23 a placeholder arrives as the access token by every way in, and is worth nothing elsewhere', async () => {
  const inject = 'placeholder: API_TOKEN, in: [header, "query:access_token"]'
  await using setting = await openTokenSetting({ policy: { inject } })
  const value = setting.every.gate.sidecar.placeholders['API_TOKEN'] ?? assert.fail('no placeholder')
  for (const approach of approaches(10)) {
    const got = await setting.get({ fields: [['Authorization', `Bearer ${value}`]] }, approach)
    assert.equal(got.status, 200, approach.way)
  }
  assert.deepEqual(new Set(arrived(setting)), new Set(['Bearer access-canary-1']))
  assert.equal((await setting.get({ path: `/?access_token=${value}` })).status, 200)
  assert.equal(setting.api.requests.at(-1)?.url, '/?access_token=access-canary-1')
  assert.equal(setting.tokens.requests.length, 1)

  const sent = setting.api.requests.length
  assert.equal((await setting.get({ host: OTHER, fields: [['Authorization', `Bearer ${value}`]] })).code, 'placeholder_misplaced')
  assert.equal((await setting.get({ path: `/${value}` })).code, 'placeholder_misplaced')
  assert.equal(setting.api.requests.length, sent)
  // Who does not write the placeholder gets no token.
  assert.equal((await setting.get()).status, 401)
})

test('I23 where its token cannot be had, a placeholder is not sent either', async () => {
  await using setting = await openTokenSetting({ policy: { inject: 'placeholder: API_TOKEN' } })
  setting.tokens.fault = (response) => void response.writeHead(500).end()
  const value = setting.every.gate.sidecar.placeholders['API_TOKEN'] ?? ''
  assert.equal((await setting.get({ fields: [['Authorization', `Bearer ${value}`]] })).code, 'token_exchange_failed')
  assert.equal(setting.api.connections, 0)
})

test('I5 an access token in the query replaces what the agent sent there', async () => {
  await using setting = await openTokenSetting({ policy: { inject: 'query: access_token' } })
  assert.equal((await setting.get({ path: '/?a=1&access_token=own&b=2&access%5ftoken=own' })).status, 200)
  assert.deepEqual(
    setting.api.requests.map(({ url }) => url),
    ['/?a=1&b=2&access_token=access-canary-1'],
  )
})

test('I18 a reload keeps the token, and the refresh token that the server gave for the configured one', async () => {
  await using setting = await openTokenSetting({ isRefreshing: true, isRotating: true })
  assert.equal((await setting.get()).status, 200)
  await setting.setPolicy({ rules: MORE })
  assert.equal((await setting.get()).status, 200)
  assert.equal(setting.tokens.requests.length, 1)
  // The server has replaced the refresh token, and the reload has not forgotten the new one.
  setting.clock.aheadMs = 3_550_000
  assert.equal((await setting.get()).status, 200)
  assert.deepEqual([setting.tokens.requests.length, setting.tokens.refusals.length], [2, 0])
})

test('I18 another scope or audience is another exchange, with none of the tokens before', async () => {
  await using setting = await openTokenSetting()
  assert.equal((await setting.get()).status, 200)
  await setting.setPolicy({ oauth2: 'scope: "read write"' })
  assert.equal((await setting.get()).status, 200)
  await setting.setPolicy({ oauth2: 'parameters: {audience: "https://api.example.com"}' })
  assert.equal((await setting.get()).status, 200)
  assert.deepEqual(
    setting.tokens.requests.map(({ body }) => String(body)),
    [
      'grant_type=client_credentials',
      'grant_type=client_credentials&scope=read+write',
      'audience=https%3A%2F%2Fapi.example.com&grant_type=client_credentials',
    ],
  )
  assert.deepEqual(arrived(setting), ['Bearer access-canary-1', 'Bearer access-canary-2', 'Bearer access-canary-3'])
  // And what comes back is searched for all of them.
  setting.answer = (_request, response) => void response.end('access-canary-1 access-canary-2 access-canary-3')
  assert.equal(String((await setting.get()).body), [15, 15, 15].map((length) => '*'.repeat(length)).join(' '))
})

test('I18 a credential that the policy no longer has goes with nothing more, and what runs with it ends at once', async () => {
  await using setting = await openTokenSetting()
  setting.answer = (_request, response) => void response.write('first')
  const running = approaches(10).map((approach) => setting.get({}, approach))
  await eventually(() => assert.equal(setting.api.requests.length, 10))
  await setting.setPolicy({ hasCredential: false })
  for (const got of await Promise.all(running)) assert.deepEqual([got.isWhole, String(got.body).replace('first', '')], [false, ''])
  const sent = setting.api.requests.length
  assert.equal((await setting.get()).status, 401)
  assert.deepEqual(arrived(setting).slice(sent), [undefined])
})

for (const { what, policy } of [
  { what: 'no longer has the credential', policy: { hasCredential: false } },
  { what: 'has another scope for it', policy: { oauth2: 'scope: less' } },
]) {
  test(`I18 a request that waits for its token when the policy ${what} is not sent`, async () => {
    await using setting = await openTokenSetting()
    const release = hold(setting)
    const waiting = approaches(10).map((approach) => setting.get({}, approach))
    await eventually(() => assert.equal(setting.tokens.requests.length, 1))
    await eventually(async () => {
      const decided = (await setting.every.gate.audit()).filter(({ event }) => event === 'decided')
      assert.equal(decided.length, 10)
    })
    await setting.setPolicy(policy)
    release()
    for (const got of await Promise.all(waiting)) assert.deepEqual([got.status, got.code], [403, 'policy_changed'])
    assert.equal(setting.api.connections, 0)
  })
}

test('an agent that goes while its token is fetched sends nothing, and the token serves the next one', async () => {
  await using setting = await openTokenSetting()
  const release = hold(setting)
  const { socket, target, authority } = await setting.every.open('CONNECT', 'https', 'api.example.com')
  socket.write(`GET ${target('/gone')} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  await eventually(() => assert.equal(setting.tokens.requests.length, 1))
  socket.destroy()
  release()
  await eventually(async () => {
    const finished = (await setting.every.gate.audit()).find(({ event }) => event === 'finished')
    assert.equal(finished?.['code'], 'agent_gone')
  })
  assert.equal((await setting.get()).status, 200)
  assert.deepEqual(
    setting.api.requests.map(({ url }) => url),
    ['/'],
  )
  assert.equal(setting.tokens.requests.length, 1)
})

test('a gate that stops waits for no token server, and records how the request ended', async () => {
  await using setting = await openTokenSetting()
  hold(setting)
  const waiting = setting.get()
  await eventually(() => assert.equal(setting.tokens.requests.length, 1))
  const { auditFile } = setting.every.gate.sidecar
  await setting.every.gate.sidecar[Symbol.asyncDispose]()
  assert.equal((await waiting).isWhole, false)
  await eventually(() => assert.equal(setting.tokens.open, 0))
  const events = await readEvents(auditFile)
  assert.deepEqual(
    events.map(({ event }) => event),
    ['started', 'decided', 'token_requested', 'finished', 'stopped'],
  )
  assert.equal(setting.api.connections, 0)
  assert.equal(setting.every.gate.log().includes(PASSWORD), false)
})
