/** Answers of passkeys that no honest browser and authenticator give, or that were given for something else. */
import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import { after, before, test } from 'node:test'
import type { PasskeyRequest, ProofAsked } from '../../src/wire/passkeys.ts'
import type { Question } from '../../src/wire/question.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { wishOf } from '../support/approvals.ts'
import { softwarePasskey, type Lie, type SoftwarePasskey } from '../support/authenticator.ts'
import { openOperator, type Operator } from '../support/operator.ts'
import { never, PASSWORD, purpose, secret, standingClock, type Clock } from '../support/presence.ts'

let operator: Operator
let clock: Clock
let passkey: SoftwarePasskey
let token: string

before(async () => {
  clock = standingClock()
  operator = await openOperator({ system: clock })
  token = operator.login()
  passkey = softwarePasskey(operator.web.url)
  const { passkeys } = operator.presence
  await passkeys.register('login', 'laptop', passkey.make(passkeys.creation('login', operator.web.url)))
})
after(() => operator[Symbol.asyncDispose]())

async function call(
  method: string,
  path: string,
  body: unknown,
  bearer: string | undefined = token,
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${operator.web.url}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: await response.json() }
}

async function asked(): Promise<Question> {
  const wish = wishOf({ session: `s-${clock.random(4).toString('hex')}`, tier: 'T3' })
  const { question } = await operator.ask({ ...wish, remember: { rule: 'ls -la', kind: 'host_command' } })
  clock.pass(1_000)
  return question
}

const stateOf = ({ id }: Question): string => operator.approvals.get(id).state

/** What is answered, and what a challenge was asked for: the same, if nobody cheats. */
type Meant = { readonly scope?: string; readonly rule?: string; readonly expiresAt?: number }

async function challengeFor({ id, digest }: Question, meant: Meant = {}): Promise<PasskeyRequest> {
  const { status, body } = await call('POST', `/v1/questions/${id}/challenge`, { digest, decision: 'allow', ...meant })
  assert.equal(status, 200, JSON.stringify(body))
  const { passkey: request } = body as ProofAsked
  assert.ok(request)
  return request
}

const answered = ({ id, digest }: Question, response: object, meant: Meant = {}) =>
  call('POST', `/v1/questions/${id}/answer`, { digest, decision: 'allow', ...meant, proof: { kind: 'passkey', response } })

test('I74 a passkey allows a question of T3, and the record says which: what the attacks below change is all that they are refused for', async () => {
  const question = await asked()
  const { status } = await answered(question, passkey.use(await challengeFor(question)))
  assert.equal(status, 200)
  assert.equal(stateOf(question), 'approved')
  const settled = operator.audited.find((event) => event.event === 'question_settled' && event.question === question.id)
  assert.deepEqual(settled && 'means' in settled && [settled.tier, settled.means], ['T3', 'passkey "laptop"'])
})

test('I74 the answer for one question settles no other, and then not even its own', async () => {
  const [one, other] = [await asked(), await asked()]
  const response = passkey.use(await challengeFor(one))
  assert.equal((await answered(other, response)).status, 403)
  assert.equal((await answered(one, response)).status, 403)
  assert.deepEqual([stateOf(one), stateOf(other)], ['pending', 'pending'])
})

test('I74 the same answer is worth nothing the second time', async () => {
  const question = await asked()
  const response = passkey.use(await challengeFor(question), { flags: 0x01 })
  for (const _ of [1, 2]) assert.equal((await answered(question, response)).status, 403)
  assert.equal(stateOf(question), 'pending')
  const next = await asked()
  const good = passkey.use(await challengeFor(next))
  assert.equal((await answered(next, good)).status, 200)
  const evidence = operator.presence.prove('T3', { kind: 'passkey', response: good }, purpose(), never)
  await assert.rejects(evidence, { code: 'presence_failed', message: /answered before/ })
})

const REMEMBERED: Meant = { scope: 'remember', rule: 'ls -la', expiresAt: 1_900_000_000_000 }
for (const { what, proven, sent } of [
  { what: 'another scope', proven: {}, sent: { scope: 'session' } },
  { what: 'a rule in place of once', proven: {}, sent: REMEMBERED },
  { what: 'another rule', proven: REMEMBERED, sent: { ...REMEMBERED, rule: '**' } },
  { what: 'a later end of the rule', proven: REMEMBERED, sent: { ...REMEMBERED, expiresAt: 1_999_000_000_000 } },
  { what: 'no end of the rule', proven: REMEMBERED, sent: { scope: 'remember', rule: 'ls -la' } },
] satisfies { what: string; proven: Meant; sent: Meant }[])
  test(`I74 an answer that was proven is not sent with ${what}`, async () => {
    const question = await asked()
    const { status, body } = await answered(question, passkey.use(await challengeFor(question, proven)), sent)
    assert.deepEqual([status, (body as { code: string }).code], [403, 'presence_failed'])
    assert.equal(stateOf(question), 'pending')
  })

const LIES: readonly { readonly what: string; readonly lie: () => Lie; readonly says: RegExp }[] = [
  { what: 'was given without a look at the user', lie: () => ({ flags: 0x01 }), says: /verif/ },
  { what: 'was given with nobody there', lie: () => ({ flags: 0x04 }), says: /present/ },
  { what: 'was given at another port of localhost', lie: () => ({ origin: 'http://localhost:3000' }), says: /origin/ },
  { what: 'was given at our address', lie: () => ({ origin: operator.web.url.replace('localhost', '127.0.0.1') }), says: /origin/ },
  { what: 'was given at our name by https', lie: () => ({ origin: operator.web.url.replace('http', 'https') }), says: /origin/ },
  { what: 'was given at another site', lie: () => ({ origin: 'https://evil.test' }), says: /origin/ },
  { what: 'was given for another domain', lie: () => ({ rpId: 'evil.test' }), says: /RP ID/ },
  { what: 'was given in a frame of another page', lie: () => ({ crossOrigin: true }), says: /inside of another page/ },
  { what: 'names a page around it', lie: () => ({ topOrigin: operator.web.url }), says: /inside of another page/ },
  { what: 'made a passkey instead', lie: () => ({ type: 'webauthn.create' }), says: /type/ },
  { what: 'is over a challenge that was made up', lie: () => ({ challenge: 'A'.repeat(43) }), says: /challenge/ },
  { what: 'has a broken signature', lie: () => ({ isBroken: true }), says: /signature/ },
  { what: 'names a passkey that nobody registered', lie: () => ({ id: 'AAAA' }), says: /not registered/ },
  { what: 'is of somebody else’s passkey', lie: () => ({ userHandle: 'AAAA' }), says: /somebody else/ },
  { what: 'counts back', lie: () => ({ counter: 1 }), says: /does not rise/ },
]
for (const { what, lie, says } of LIES)
  test(`I74 an answer that ${what} proves nothing`, async () => {
    const question = await asked()
    const request = await challengeFor(question)
    const counter = clock.now() % 1_000_000
    const { status, body } = await answered(question, passkey.use(request, { counter: counter + 1_000, ...lie() }))
    const { code, detail } = body as { code: string; detail: string }
    assert.deepEqual([status, code], [403, 'presence_failed'], detail)
    assert.match(detail, says)
    assert.equal(stateOf(question), 'pending')
  })

test('a counter that falls is in the audit, and one that a stranger claims without the key is not', async () => {
  const refusals = (): number => operator.audited.filter((event) => event.event === 'operator' && event.did === 'passkey_refused').length
  const [question, told] = [await asked(), refusals()]
  const used = { counter: 4_000_000_000 }
  assert.equal((await answered(question, passkey.use(await challengeFor(question), used))).status, 200)
  const next = await asked()
  assert.equal((await answered(next, passkey.use(await challengeFor(next), used))).status, 403)
  assert.equal(refusals(), told + 1)
  assert.equal((await answered(next, passkey.use(await challengeFor(next), { counter: 7, isBroken: true }))).status, 403)
  assert.equal(refusals(), told + 1)
  // For what follows: another that counts from the beginning.
  await operator.presence.passkeys.remove(passkey.id)
  passkey = softwarePasskey(operator.web.url)
  const { passkeys } = operator.presence
  await passkeys.register('login', 'laptop', passkey.make(passkeys.creation('login', operator.web.url)))
})

test('of two answers at once with the same count one holds', async () => {
  const { passkeys } = operator.presence
  const requests = [passkeys.challenge(purpose(), operator.web.url), passkeys.challenge(purpose(), operator.web.url)]
  const counted = requests.map((request) => passkey.use(request, { counter: 50 }))
  const results = await Promise.allSettled(counted.map((response) => passkeys.verify(response, purpose(), never)))
  assert.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
})

test('a challenge is good for a while, and so many wait: the oldest gives way', async () => {
  const { passkeys } = operator.presence
  const late = passkeys.challenge(purpose(), operator.web.url)
  clock.pass(LIMITS.passkeyChallengeMs + 1)
  await assert.rejects(passkeys.verify(passkey.use(late), purpose(), never), { message: /too old/ })
  const first = passkeys.challenge(purpose(), operator.web.url)
  for (let count = 0; count < LIMITS.passkeyChallengesMax; count += 1) passkeys.challenge(purpose(), operator.web.url)
  await assert.rejects(passkeys.verify(passkey.use(first), purpose(), never), { message: /too old/ })
  // Strangers who ask to log in take no place of who proves something.
  const mine = passkeys.challenge(purpose(), operator.web.url)
  for (let count = 0; count < LIMITS.passkeyChallengesMax * 2; count += 1) passkeys.challenge('login', operator.web.url)
  await passkeys.verify(passkey.use(mine), purpose(), never)
})

test('a proof for a log-in answers no question, and the other way round', async () => {
  const question = await asked()
  const { body } = await call('POST', '/v1/login/passkey/challenge', {}, undefined)
  assert.equal((await answered(question, passkey.use(body as PasskeyRequest))).status, 403)
  assert.equal(stateOf(question), 'pending')
  const response = passkey.use(await challengeFor(question))
  const { status } = await call('POST', '/v1/login/passkey', { response }, undefined)
  assert.equal(status, 401)
})

test('I74 a proof for one call makes no other', async () => {
  const name = { name: 'renamed' }
  const path = `/v1/passkeys/${passkey.id}`
  const proofFor = async (method: string, at: string, body: object): Promise<object> => {
    const made = await call('POST', '/v1/presence/challenge', { method, path: at, body })
    return { kind: 'passkey', response: passkey.use((made.body as { passkey: PasskeyRequest }).passkey) }
  }
  for (const [method, at, body] of [
    ['DELETE', path, {}],
    ['PATCH', path, { name: 'other' }],
    ['PATCH', `${path}x`, name],
  ] as const) {
    const { status } = await call('PATCH', path, { ...name, proof: await proofFor(method, at, body) })
    assert.equal(status, 403)
  }
  assert.equal((await call('PATCH', path, { ...name, proof: await proofFor('PATCH', path, name) })).status, 200)
  assert.equal(operator.presence.passkeys.view().passkeys[0]?.name, 'renamed')
})

for (const { what, lie } of [
  { what: 'without a look at the user', lie: { flags: 0x41 } },
  { what: 'at another port of localhost', lie: { origin: 'http://localhost:3000' } },
  { what: 'for another domain', lie: { rpId: 'evil.test' } },
  { what: 'in a frame of another page', lie: { crossOrigin: true } },
  { what: 'as an answer', lie: { type: 'webauthn.get' } },
  { what: 'over another challenge', lie: { challenge: 'A'.repeat(43) } },
  { what: 'with two names', lie: { id: 'AAAA' } },
  { what: 'with an attestation that names certificates', lie: { format: 'packed', statement: [['x5c', [Buffer.from('x')]]] } },
  { what: 'with an attestation of another kind', lie: { format: 'android-safetynet', statement: [['ver', '1']] } },
] satisfies { what: string; lie: Lie }[])
  test(`a passkey that was made ${what} is not registered`, async () => {
    const { passkeys } = operator.presence
    const stranger = softwarePasskey(operator.web.url)
    const made = stranger.make(passkeys.creation('login', operator.web.url), lie)
    await assert.rejects(passkeys.register('login', 'x', made), { code: 'presence_failed' })
    assert.equal(passkeys.view().passkeys.length, 1)
  })

test('a passkey that one login began to make is not registered by another', async () => {
  const { passkeys } = operator.presence
  const made = softwarePasskey(operator.web.url).make(passkeys.creation('login', operator.web.url))
  await assert.rejects(passkeys.register('other', 'x', made), { code: 'presence_failed', message: /something else/ })
})

test('I75 with a passkey registered, the password lets no other in, removes none, and none is set without it', async () => {
  await using own = await openOperator({ system: clock })
  const login = own.login()
  const send = async (method: string, path: string, body: object) => {
    const response = await fetch(`${own.web.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${login}` },
      body: JSON.stringify(body),
    })
    return { status: response.status, body: (await response.json()) as { code?: string } }
  }
  const [first, second] = [softwarePasskey(own.web.url), softwarePasskey(own.web.url)]
  const creation = async () => (await send('POST', '/v1/passkeys/challenge', {})).body as Parameters<SoftwarePasskey['make']>[0]
  // The first: a login came from the socket, and so does whoever sets a first password.
  assert.equal((await send('POST', '/v1/passkeys', { name: 'first', response: first.make(await creation()) })).status, 200)
  const password = { next: PASSWORD }
  assert.equal((await send('POST', '/v1/approver/password', password)).body.code, 'presence_required')
  await own.presence.setPassword(undefined, secret(PASSWORD))
  const proof = { kind: 'password', password: PASSWORD }
  const wish = { name: 'second', response: second.make(await creation()) }
  assert.equal((await send('POST', '/v1/passkeys', wish)).body.code, 'presence_required')
  assert.equal((await send('POST', '/v1/passkeys', { ...wish, proof })).body.code, 'presence_failed')
  assert.equal((await send('DELETE', `/v1/passkeys/${first.id}`, { proof })).body.code, 'presence_failed')
  assert.equal((await send('PATCH', `/v1/passkeys/${first.id}`, { name: 'mine' })).body.code, 'presence_required')
  assert.deepEqual(
    own.presence.passkeys.view().passkeys.map(({ name }) => name),
    ['first'],
  )
  const made = (await send('POST', '/v1/presence/challenge', { method: 'POST', path: '/v1/passkeys', body: wish })).body as ProofAsked
  assert.deepEqual([made.tier, made.password], ['T3', false])
  const shown = { kind: 'passkey', response: first.use(made.passkey as PasskeyRequest) }
  assert.equal((await send('POST', '/v1/passkeys', { ...wish, proof: shown })).status, 200)
  const told = own.audited.flatMap((event) => (event.event === 'config_changed' ? [`${event.did} ${event.what}`] : []))
  assert.deepEqual(told, [`registered passkey ${first.id} "first"`, `registered passkey ${second.id} "second"`])
})

/** The moment after a proof has been looked at, whatever it took. */
async function endedWhenProven<T>(work: () => Promise<T>): Promise<T> {
  const { presence, logins } = operator
  const prove = presence.prove.bind(presence)
  const { id } = logins.check(token)
  const ending: typeof prove = async (...given) => {
    const evidence = await prove(...given)
    logins.end(id)
    return evidence
  }
  Object.assign(presence, { prove: ending })
  try {
    return await work()
  } finally {
    Object.assign(presence, { prove })
    token = operator.login()
  }
}

test('I51 a login that is ended while its proof is looked at allows nothing, and changes nothing', async () => {
  const question = await asked()
  const response = passkey.use(await challengeFor(question))
  await endedWhenProven(() => assert.rejects(answered(question, response)))
  const path = `/v1/passkeys/${passkey.id}`
  const wish = { name: 'of nobody' }
  const made = await call('POST', '/v1/presence/challenge', { method: 'PATCH', path, body: wish })
  const proof = { kind: 'passkey', response: passkey.use((made.body as { passkey: PasskeyRequest }).passkey) }
  await endedWhenProven(() => assert.rejects(call('PATCH', path, { ...wish, proof })))
  // Another call shows that both were dealt with.
  assert.equal((await call('GET', '/v1/passkeys', undefined)).status, 200)
  assert.equal(stateOf(question), 'pending')
  assert.notEqual(operator.presence.passkeys.view().passkeys[0]?.name, 'of nobody')
})

test('I75 of two that are registered at once without a proof one is, and one with the longest id that there is can be removed', async () => {
  await using own = await openOperator({ system: clock })
  const bearer = own.login()
  const longest = 1_023
  const stolen = [softwarePasskey(own.web.url, longest), softwarePasskey(own.web.url, longest)]
  const { passkeys } = own.presence
  const made = stolen.map((one) => one.make(passkeys.creation('login', own.web.url)))
  const results = await Promise.allSettled(made.map((response, at) => passkeys.register('login', `number ${at}`, response)))
  assert.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  const [kept] = passkeys.view().passkeys
  const held = stolen.find(({ id }) => id === kept?.id) as SoftwarePasskey
  const send = async (method: string, path: string, body: object) =>
    await fetch(`${own.web.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${bearer}` },
      body: JSON.stringify(body),
    })
  const path = `/v1/passkeys/${held.id}`
  const ways = (await (await send('POST', '/v1/presence/challenge', { method: 'DELETE', path, body: {} })).json()) as ProofAsked
  const proof = { kind: 'passkey', response: held.use(ways.passkey as PasskeyRequest) }
  assert.equal((await send('DELETE', path, { proof })).status, 200)
  assert.deepEqual(passkeys.view().passkeys, [])
})

test('a login alone starts no session with a policy that it chose, and a proof for one file is none for another', async () => {
  const wish = { workspace: '/work', policy: ['/work/wide.yaml'], command: [], tty: false, selftest: true }
  const path = '/v1/sessions'
  const start = async (body: object) => {
    const response = await fetch(`${operator.web.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    })
    // Lines, of a session that this daemon does not have.
    return { status: response.status, text: await response.text() }
  }
  for (const policy of [wish.policy, { 0: '/work/wide.yaml' }, undefined, null])
    assert.match((await start({ ...wish, policy })).text, /presence_required/)
  const proofFor = async (policy: readonly string[]) => {
    const { body } = await call('POST', '/v1/presence/challenge', { method: 'POST', path, body: { ...wish, policy } })
    return { kind: 'passkey', response: passkey.use((body as { passkey: PasskeyRequest }).passkey) }
  }
  assert.equal((await start({ ...wish, proof: await proofFor(['/work/narrow.yaml']) })).status, 403)
  assert.equal((await start({ ...wish, proof: await proofFor(wish.policy) })).status, 200)
  // With what the operator's own files give it, and on the socket, it is started as ever.
  assert.equal((await start({ ...wish, policy: [] })).status, 200)
  assert.equal(await onSocket(path, wish), 200)
})

function onSocket(path: string, body: object): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const asking = httpRequest({ socketPath: operator.socket, path, method: 'POST', headers: { 'content-type': 'application/json' } })
  asking.on('response', (answer) => resolve(answer.resume().statusCode ?? 0)).on('error', reject)
  asking.end(JSON.stringify(body))
  return promise
}
