/**
 * I24: what is replaced and what is not must not tell a weak secret to somebody who guesses. A beginning of it is never replaced,
 * so that it cannot be guessed letter by letter; a right guess is counted, and answers end before there were many. The bound is
 * lowered for this process.
 */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { APPROACHES, ask, named, type Got } from '../support/every-client.ts'
import { openEveryWay, routeTo, type EveryWay } from '../support/every-way.ts'
import { openTestGate } from '../support/gate.ts'
import { openHttp2Upstream, type StreamRequest } from '../support/http2-upstream.ts'
import { policyFor } from '../support/setting.ts'

const HITS_MAX = 25
Object.assign(LIMITS, { scrubHitsMax: HITS_MAX })

const SECRET = 'hunter'
const API = 'api.example.com'
const SECOND = 'second.example.com'
const LOOPBACK = 'addresses: ["127.0.0.0/8"]'
const policy = (more = ''): string => `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, ${LOOPBACK}}
    - {id: second, host: ${SECOND}, action: allow, ${LOOPBACK}}
${more}routes:
  - {name: ${routeTo('https', API)}, upstream: "https://${API}", credential: token, ${LOOPBACK}}
credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${API}, ${SECOND}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

/** Says what it was asked, as a search or an error page does. */
function reflect(request: StreamRequest, response: ServerResponse): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => response.end(`You said: ${Buffer.concat(chunks).toString()}.`))
}

async function openSetting(): Promise<EveryWay> {
  await using parts = new AsyncDisposableStack()
  const setting = parts.use(await openEveryWay(policy(), [API, SECOND], { env: { API_TOKEN: SECRET } }))
  for (const host of [API, SECOND]) parts.use(await openHttp2Upstream(setting.tls(host), { answer: reflect, place: setting.at(host, 443) }))
  const all = parts.move()
  return { ...setting, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

const guess = (setting: EveryWay, body: string, host = API, approach = APPROACHES[1]): Promise<Got> =>
  ask(setting, approach ?? assert.fail(), { host, method: 'POST', body })

for (const secret of ['a', 'hunte', '12345'])
  test(`a secret of ${secret.length} characters is refused at the start: it would be in ordinary text, and is soon guessed`, async () => {
    await assert.rejects(
      openTestGate({ policy: policyFor([443]), env: { API_TOKEN: secret } }),
      (error) => error instanceof SallyportError && error.code === 'secret_invalid' && !error.message.includes(`"${secret}"`),
    )
  })

test('I24 a part of the secret is never replaced, whichever it is: it cannot be guessed letter by letter', async () => {
  await using setting = await openSetting()
  for (const approach of APPROACHES) {
    for (let from = 0; from < SECRET.length; from++) {
      for (let to = from + 1; to <= SECRET.length; to++) {
        if (to - from === SECRET.length) continue
        const part = `${SECRET.slice(from, to)}#${SECRET.slice(from, to)}`
        assert.equal((await guess(setting, part, API, approach)).body.toString(), `You said: ${part}.`, named(approach))
      }
    }
  }
})

test('I24 right guesses end after so many, by all ways together, and from then on no answer with one arrives at all', async () => {
  await using setting = await openSetting()
  let seen = 0
  for (let i = 0; i < HITS_MAX + 20; i++) {
    const approach = APPROACHES[i % APPROACHES.length]
    const { status, code, body } = await guess(setting, SECRET, i % 2 === 0 || approach?.way === 'route' ? API : SECOND, approach)
    if (status === 200) seen += 1
    assert.equal(status === 200 ? body.toString() : code, status === 200 ? 'You said: ******.' : 'secret_echoed')
  }
  assert.equal(seen, HITS_MAX)
  assert.equal((await guess(setting, 'wrong')).body.toString(), 'You said: wrong.', 'answers without it go on')
})

test('I24 many guesses in one request count each, in every spelling of the right one', async () => {
  await using setting = await openSetting()
  const many = Array.from(
    { length: HITS_MAX + 1 },
    (_, i) => [SECRET, Buffer.from(SECRET).toString('base64'), Buffer.from(SECRET).toString('hex')][i % 3],
  )
  const { status, code, isWhole } = await guess(setting, many.join(' '))
  assert.ok(code === 'secret_echoed' || !isWhole, String(status))
  assert.equal((await guess(setting, SECRET)).code, 'secret_echoed')
})

test('I24 a reload of the policy does not begin the count anew', async () => {
  await using setting = await openSetting()
  for (let i = 0; i < HITS_MAX; i++) assert.equal((await guess(setting, SECRET)).status, 200)
  assert.ok(await setting.gate.setPolicy(policy(`    - {id: more, host: more.example.com, action: allow}\n`)))
  assert.equal((await guess(setting, SECRET)).code, 'secret_echoed')
})

test('the audit says how many were found, so that an operator sees somebody guess', async () => {
  await using setting = await openSetting()
  for (const body of [SECRET, `${SECRET} ${SECRET}`, 'wrong']) await guess(setting, body)
  const counts = (await setting.gate.audit()).filter(({ event }) => event === 'finished').map(({ scrubbed }) => scrubbed)
  assert.deepEqual(counts, [1, 2, undefined])
})
