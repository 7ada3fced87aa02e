/** I1, I5, I23, I25: every kind of credential reaches the upstream in its place, and nothing else of the agent's does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exchangeTls, statusOf } from '../support/raw-client.ts'
import { API, CANARY, openSetting, OTHER, type Setting, type SettingOptions } from '../support/setting.ts'
import type { Recorded } from '../support/upstream.ts'

type Sent = { method?: string; path?: string; fields?: string[]; body?: string; host?: string }

async function send({ gate, secure, ca }: Setting, { method = 'GET', path = '/', fields = [], body, host = API }: Sent): Promise<string> {
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${host}:${secure.port}`, ...fields, ...length, 'Connection: close', '', '']
  return exchangeTls(gate.port, host, secure.port, ca, head.join('\r\n') + (body ?? ''))
}

/** The placeholder of a variable, as the agent gets it. */
const valueOf = ({ gate }: Setting, name = 'TOKEN'): string => gate.sidecar.placeholders[name] ?? assert.fail(`no placeholder ${name}`)

function fieldOf(request: Recorded | undefined, name: string): string[] {
  const raw = request?.rawHeaders ?? []
  return raw.filter((_, i) => i % 2 === 1 && raw[i - 1]?.toLowerCase() === name)
}

const inject = (rest: string): SettingOptions => ({ isBoth: true, inject: `{domains: [${API}], ${rest}}` })
const JSON_TYPE = 'Content-Type: application/json'
const FORM_TYPE = 'Content-Type: application/x-www-form-urlencoded'
const basic = (text: string): string => Buffer.from(text).toString('base64')

for (const { kind, options, sent, arrived } of [
  {
    kind: 'a header with a prefix',
    options: inject('header: X-Service-Key, prefix: "Key "'),
    sent: { fields: ['x-service-key: own', 'Authorization: own', 'Cookie: own'] },
    arrived: (request: Recorded) => assert.deepEqual(fieldOf(request, 'x-service-key'), [`Key ${CANARY}`]),
  },
  {
    kind: 'basic authentication',
    options: inject('basic: {username: bot}'),
    sent: { fields: ['Authorization: Basic b3duOm93bg=='] },
    arrived: (request: Recorded) => assert.deepEqual(fieldOf(request, 'authorization'), [`Basic ${basic(`bot:${CANARY}`)}`]),
  },
  {
    kind: 'a query parameter',
    options: inject('query: api_key'),
    sent: { path: '/v1/x?a=1&api_key=own&b=%20&%61pi_key=own' },
    arrived: (request: Recorded) => assert.equal(request.url, `/v1/x?a=1&b=%20&api_key=${CANARY}`),
  },
  {
    kind: 'a member of a JSON body',
    options: inject('body: /auth/key'),
    sent: { method: 'POST', fields: [JSON_TYPE], body: '{"n": 1.0e400,\n "auth": {"key": "own", "x": [1, 2]}}' },
    arrived: (request: Recorded) => assert.equal(String(request.body), `{"n": 1.0e400,\n "auth": {"key": "${CANARY}", "x": [1, 2]}}`),
  },
  {
    kind: 'a field of a form',
    options: inject('body: token'),
    sent: { method: 'POST', fields: [FORM_TYPE], body: 'a=1+2&token=own&t%6fken=own' },
    arrived: (request: Recorded) => assert.equal(String(request.body), `a=1+2&token=${CANARY}`),
  },
] as const) {
  test(`I5 ${kind} carries the credential, and what the agent sent there is gone`, async () => {
    await using setting = await openSetting(options)
    const answer = await send(setting, sent as Sent)
    assert.equal(statusOf(answer), 200, answer)
    const [request] = setting.secure.requests
    assert.ok(request)
    arrived(request)
    assert.equal(JSON.stringify([request.url, request.rawHeaders, String(request.body)]).includes('own'), false)
    const length = fieldOf(request, 'content-length')
    if (request.body.length > 0) assert.deepEqual(length, [String(request.body.length)])
  })
}

for (const { place, listed, sent, arrived } of [
  {
    place: 'a header',
    listed: 'header',
    sent: (value: string) => ({ fields: [`Authorization: token ${value}`] }),
    arrived: (request: Recorded) => assert.deepEqual(fieldOf(request, 'authorization'), [`token ${CANARY}`]),
  },
  {
    place: 'a header of its own',
    listed: '"header:X-Mine"',
    sent: (value: string) => ({ fields: [`x-mine: ${value}`] }),
    arrived: (request: Recorded) => assert.deepEqual(fieldOf(request, 'x-mine'), [CANARY]),
  },
  {
    place: 'basic authentication',
    listed: 'basic',
    sent: (value: string) => ({ fields: [`Authorization: Basic ${basic(`me:${value}`)}`] }),
    arrived: (request: Recorded) => assert.deepEqual(fieldOf(request, 'authorization'), [`Basic ${basic(`me:${CANARY}`)}`]),
  },
  {
    place: 'the query',
    listed: '"query:key"',
    sent: (value: string) => ({ path: `/x?q=1&key=${value}` }),
    arrived: (request: Recorded) => assert.equal(request.url, `/x?q=1&key=${CANARY}`),
  },
  {
    place: 'the path',
    listed: 'path',
    sent: (value: string) => ({ path: `/bot${value}/getMe` }),
    arrived: (request: Recorded) => assert.equal(request.url, `/bot${CANARY}/getMe`),
  },
  {
    place: 'a JSON body',
    listed: '"body:/token"',
    sent: (value: string) => ({ method: 'POST', fields: [JSON_TYPE], body: JSON.stringify({ token: value }) }),
    arrived: (request: Recorded) => assert.equal(String(request.body), JSON.stringify({ token: CANARY })),
  },
  {
    place: 'a form',
    listed: '"body:token"',
    sent: (value: string) => ({ method: 'POST', fields: [FORM_TYPE], body: `token=${value}&x=1` }),
    arrived: (request: Recorded) => assert.equal(String(request.body), `token=${CANARY}&x=1`),
  },
]) {
  const options = inject(`placeholder: TOKEN, in: [${listed}]`)

  test(`I23 a placeholder in ${place} arrives as the secret`, async () => {
    await using setting = await openSetting(options)
    const answer = await send(setting, sent(valueOf(setting)))
    assert.equal(statusOf(answer), 200, answer)
    const [request] = setting.secure.requests
    assert.ok(request)
    arrived(request)
    assert.equal((await setting.gate.auditText()).includes(CANARY) || setting.gate.log().includes(CANARY), false)
    const decided = (await setting.gate.audit()).find(({ event }) => event === 'decided')
    assert.deepEqual([decided?.['credential'], decided?.['secret']], ['api-token', 'API_TOKEN'])
  })

  test(`I23 a placeholder in ${place} of another host is refused, and nothing of it is forwarded`, async () => {
    await using setting = await openSetting(options)
    const answer = await send(setting, { ...sent(valueOf(setting)), host: OTHER })
    assert.equal(statusOf(answer), 403)
    assert.match(answer, /placeholder_misplaced/)
    assert.equal(JSON.stringify(setting.secure.requests.map(({ body, ...rest }) => [rest, String(body)])).includes(valueOf(setting)), false)
  })

  test(`I23 a placeholder in ${place} that is not listed is refused`, async () => {
    await using setting = await openSetting(inject('placeholder: TOKEN, in: ["header:X-Elsewhere"]'))
    const answer = await send(setting, sent(valueOf(setting)))
    assert.equal(statusOf(answer), 403)
    assert.match(answer, /placeholder_misplaced/)
    const arrivedText = JSON.stringify(setting.secure.requests.map(({ body, ...rest }) => [rest, String(body)]))
    assert.equal(arrivedText.includes(valueOf(setting)) || arrivedText.includes(CANARY), false)
  })
}

test('I5 a body that the credential cannot be written into is refused with a code, and nothing is forwarded', async () => {
  await using setting = await openSetting(inject('body: /key'))
  for (const { fields, body, code } of [
    { fields: [JSON_TYPE], body: '{"key": ', code: /body_unfit/ },
    { fields: ['Content-Type: text/plain'], body: '{}', code: /body_unfit/ },
    { fields: [JSON_TYPE, 'Content-Encoding: gzip'], body: '{}', code: /body_unfit/ },
    { fields: [JSON_TYPE], body: `{"x": "${'y'.repeat(4 * 1024 * 1024)}"}`, code: /body_too_large/ },
  ]) {
    assert.match(await send(setting, { method: 'POST', fields, body }), code)
  }
  assert.equal(setting.secure.requests.length, 0)
})

test('own_credentials: deny refuses what carries one, drop takes it out, pass leaves it; the audit says so', async () => {
  for (const { mode, host, status, arrives, said } of [
    { mode: 'deny', host: API, status: 403, arrives: undefined, said: undefined },
    { mode: 'drop', host: OTHER, status: 200, arrives: [], said: 'dropped' },
    { mode: 'pass', host: OTHER, status: 200, arrives: ['Bearer own'], said: 'passed' },
    { mode: 'pass', host: API, status: 200, arrives: ['Bearer own'], said: 'passed' },
    { mode: undefined, host: API, status: 200, arrives: [`Bearer ${CANARY}`], said: 'dropped' },
    { mode: undefined, host: OTHER, status: 200, arrives: ['Bearer own'], said: 'passed' },
  ]) {
    const line = mode === undefined ? '' : `own_credentials: ${mode}`
    await using setting = await openSetting({ isBoth: true, rule: line })
    if (mode !== undefined && host === OTHER) {
      const policy = (await import('../support/setting.ts')).policyFor([setting.secure.port], {})
      assert.ok(await setting.gate.setPolicy(policy.replace(`host: ${OTHER}\n`, `host: ${OTHER}\n      ${line}\n`)))
    }
    const answer = await send(setting, { host, fields: ['Authorization: Bearer own', 'Cookie: own=1'] })
    assert.equal(statusOf(answer), status, answer)
    const [request] = setting.secure.requests
    assert.deepEqual(request && fieldOf(request, 'authorization'), arrives)
    if (said === 'dropped') assert.deepEqual(fieldOf(request, 'cookie'), [])
    const decided = (await setting.gate.audit()).find(({ event }) => event === 'decided')
    assert.equal(decided?.['own_credentials'], said)
    if (mode === 'deny') assert.equal(decided?.['code'], 'own_credentials_refused')
  }
})

test('I25 a credential that has used up its requests or its bytes is refused with 429, and nothing is forwarded', async () => {
  for (const { budget, body, passes } of [
    { budget: 'requests: 2', body: 'x', passes: 2 },
    { budget: 'requests_per_minute: 2', body: 'x', passes: 2 },
    { budget: 'bytes_up: 1KB', body: 'x'.repeat(600), passes: 1 },
    { budget: 'bytes_down: 10', body: 'x', passes: 5 },
  ]) {
    await using setting = await openSetting({
      inject: `{domains: [${API}], header: Authorization, prefix: "Bearer "}\n    budget: {${budget}}`,
    })
    const answers: number[] = []
    for (let i = 0; i < passes + 1; i++) {
      const answer = await send(setting, { method: 'POST', body }).catch(() => '')
      answers.push(statusOf(answer))
      if (i === passes && statusOf(answer) === 429) assert.match(answer, /budget_exhausted/)
    }
    assert.deepEqual(
      answers.slice(0, passes),
      Array.from({ length: passes }, () => 200),
      budget,
    )
    assert.notEqual(answers[passes], 200, budget)
    const whole = setting.secure.requests.filter((request) => request.body.length === body.length)
    assert.ok(whole.length <= passes + (budget.startsWith('bytes_down') ? 1 : 0), budget)
  }
})
