import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { createResolver, openProviders, type Providers, type Resolver } from '../../../src/controller/providers/providers.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import type { SecretGrant } from '../../../src/policy/policy.ts'
import { policyOf } from '../../support/policy.ts'
import { writePrograms } from '../../support/programs.ts'

const INJECT = { resource: 'inject' }
const NEVER = new AbortController().signal

function grant(name: string, more: Partial<SecretGrant> = {}): SecretGrant {
  return { name, source: { kind: 'env', variable: name }, uses: ['inject'], ...more }
}

/** Providers whose answers the test gives, one call each. */
function openCalls() {
  const calls: { name: string; signal: AbortSignal; give(value: string): void; fail(error: unknown): void }[] = []
  const providers: Pick<Providers, 'get' | 'problem'> = {
    get(name, _source, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<Secret>()
      calls.push({ name, signal, give: (value) => resolve(new Secret(name, value)), fail: reject })
      signal.addEventListener('abort', () => reject(signal.reason))
      return promise
    },
    problem: (source) => (source.kind === 'op' ? 'no program' : undefined),
  }
  return { calls, providers }
}

function resolverOf(grants: readonly SecretGrant[], providers: Pick<Providers, 'get' | 'problem'>, elapsed = (): number => 0): Resolver {
  return createResolver(grants, providers, { elapsed })
}

async function failure(promise: Promise<unknown>): Promise<SallyportError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof SallyportError, inspect(error))
  return error
}

/** Lets everything that is ready run. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

for (const { why, resources, use } of [
  { why: 'a method that is not listed', resources: ['method:host.run'], use: 'method:secret.use_in' },
  { why: 'a method of a secret that only a credential uses', resources: undefined, use: 'method:secret.use_in' },
  { why: 'a tool that is not listed', resources: ['tool:github'], use: 'tool:gitlab' },
  { why: 'a route that is not listed', resources: ['inject'], use: 'route:other' },
  { why: 'injection where a method alone is listed', resources: ['method:host.run'], use: 'inject' },
  { why: 'a kind alone', resources: ['tool:github'], use: 'tool:' },
  { why: 'a name that begins like the one that is listed', resources: ['tool:github'], use: 'tool:github2' },
  { why: 'nothing', resources: ['tool:github'], use: '' },
]) {
  test(`I30 ${why}: secret_not_permitted, and the program that has the value does not run`, async () => {
    using programs = writePrograms({ print: 'touch "$DIR/ran"; echo the-value' })
    await using providers = openProviders({ env: programs.env })
    const usesIt = resources === undefined || resources.includes('inject')
    const { secrets } = policyOf({
      rules: [{ id: 'a', host: 'a.example.com' }],
      credentials: usesIt ? [{ id: 'c', secret: 'T', inject: { domains: ['a.example.com'], header: 'X-Key' } }] : [],
      secrets: [{ name: 'T', source: 'exec:print', ...(resources && { resources }) }],
    })
    const resolver = resolverOf(secrets, providers)
    const error = await failure(resolver.resolve('T', { resource: use }, NEVER))
    assert.equal(error.code, 'secret_not_permitted')
    assert.match(error.message, /the secret T is not for/)
    assert.equal(existsSync(programs.at('ran')), false)
  })
}

test('a permitted use gets the value, at that moment: nothing runs before', async () => {
  using programs = writePrograms({ print: 'touch "$DIR/ran"; echo the-value' })
  await using providers = openProviders({ env: programs.env })
  const { secrets } = policyOf({ secrets: [{ name: 'T', source: 'exec:print', resources: ['tool:github'] }] })
  const resolver = resolverOf(secrets, providers)
  assert.deepEqual(resolver.check(), [])
  assert.equal(existsSync(programs.at('ran')), false)
  assert.equal((await resolver.resolve('T', { resource: 'tool:github' }, NEVER)).reveal(), 'the-value')
})

test('a value that is kept for another use is not given to one that is not permitted', async () => {
  const { calls, providers } = openCalls()
  const resolver = resolverOf([grant('T', { ttlMs: 60_000 })], providers)
  const first = resolver.resolve('T', INJECT, NEVER)
  await settle()
  calls[0]?.give('the-value')
  await first
  assert.equal((await failure(resolver.resolve('T', { resource: 'tool:x' }, NEVER))).code, 'secret_not_permitted')
})

test('a secret that is not declared is missing, and nobody is asked', async () => {
  const { calls, providers } = openCalls()
  assert.equal((await failure(resolverOf([], providers).resolve('T', INJECT, NEVER))).code, 'secret_missing')
  assert.equal(calls.length, 0)
})

test('those who ask for one name at the same time share one attempt; who comes after gets another', async () => {
  const { calls, providers } = openCalls()
  const resolver = resolverOf([grant('T')], providers)
  const both = [resolver.resolve('T', INJECT, NEVER), resolver.resolve('T', INJECT, NEVER)]
  await settle()
  assert.equal(calls.length, 1)
  calls[0]?.give('first-value')
  for (const secret of await Promise.all(both)) assert.equal(secret.reveal(), 'first-value')
  const later = resolver.resolve('T', INJECT, NEVER)
  await settle()
  assert.equal(calls.length, 2, 'nothing is kept')
  calls[1]?.give('second-value')
  assert.equal((await later).reveal(), 'second-value')
})

test('a failure is given to all that waited and is not kept', async () => {
  const { calls, providers } = openCalls()
  const resolver = resolverOf([grant('T', { ttlMs: 60_000 })], providers)
  const both = [resolver.resolve('T', INJECT, NEVER), resolver.resolve('T', INJECT, NEVER)].map(failure)
  await settle()
  calls[0]?.fail(new SallyportError('secret_unavailable', 'x'))
  for (const error of await Promise.all(both)) assert.equal(error.code, 'secret_unavailable')
  const again = resolver.resolve('T', INJECT, NEVER)
  await settle()
  calls[1]?.give('the-value')
  assert.equal((await again).reveal(), 'the-value')
})

test('a caller that goes leaves the attempt to the others; the last that goes ends it', async () => {
  const { calls, providers } = openCalls()
  const resolver = resolverOf([grant('T')], providers)
  const callers = [new AbortController(), new AbortController()]
  const waits = callers.map(({ signal }) => resolver.resolve('T', INJECT, signal).catch((reason: unknown) => reason))
  await settle()
  callers[0]?.abort('gone')
  assert.equal(await waits[0], 'gone')
  assert.equal(calls[0]?.signal.aborted, false)
  callers[1]?.abort('gone too')
  assert.equal(await waits[1], 'gone too')
  assert.equal(calls[0]?.signal.aborted, true)
  const next = resolver.resolve('T', INJECT, NEVER)
  await settle()
  assert.equal(calls.length, 2, 'who comes then has an attempt of its own')
  calls[1]?.give('the-value')
  assert.equal((await next).reveal(), 'the-value')
})

test('a value with a ttl is used again until then, and not longer', async () => {
  const { calls, providers } = openCalls()
  let now = 0
  const resolver = resolverOf([grant('T', { ttlMs: 5_000 })], providers, () => now)
  const ask = async (value?: string): Promise<string> => {
    const pending = resolver.resolve('T', INJECT, NEVER)
    await settle()
    if (value !== undefined) calls.at(-1)?.give(value)
    return (await pending).reveal()
  }
  assert.equal(await ask('first-value'), 'first-value')
  now = 4_999
  assert.equal(await ask(), 'first-value')
  now = 5_000
  assert.equal(await ask('second-value'), 'second-value')
  assert.equal(calls.length, 2)
  resolver.forget()
  assert.equal(await ask('third-value'), 'third-value')
})

test('what was under way when all was to be forgotten is not kept afterwards', async () => {
  const { calls, providers } = openCalls()
  const resolver = resolverOf([grant('T', { ttlMs: 5_000 })], providers)
  const pending = resolver.resolve('T', INJECT, NEVER)
  await settle()
  resolver.forget()
  calls[0]?.give('the-value')
  await pending
  void resolver.resolve('T', INJECT, NEVER)
  await settle()
  assert.equal(calls.length, 2)
})

test('LIMITS.secretResolutionsMax are obtained at the same time; the others wait in order, and one that goes meanwhile is never begun', async () => {
  const { calls, providers } = openCalls()
  const names = Array.from({ length: LIMITS.secretResolutionsMax + 3 }, (_, i) => `T${i}`)
  const resolver = resolverOf(
    names.map((name) => grant(name)),
    providers,
  )
  const leaving = new AbortController()
  const pending = names.map((name, i) =>
    resolver.resolve(name, INJECT, i === LIMITS.secretResolutionsMax ? leaving.signal : NEVER).then(
      (secret) => secret.reveal(),
      (reason: unknown) => reason,
    ),
  )
  await settle()
  assert.equal(calls.length, LIMITS.secretResolutionsMax)
  leaving.abort('gone')
  await settle()
  for (let i = 0; i < names.length - 1; i++) {
    calls[i]?.give(`value-${i}`)
    await settle()
    assert.equal(calls.length, Math.min(names.length - 1, LIMITS.secretResolutionsMax + 1 + i))
  }
  assert.equal((await Promise.all(pending))[LIMITS.secretResolutionsMax], 'gone')
  assert.equal(
    calls.some(({ name }) => name === names[LIMITS.secretResolutionsMax]),
    false,
  )
})

test('check names each secret whose place cannot be used', () => {
  const { providers } = openCalls()
  const resolver = resolverOf([grant('A'), grant('B', { source: { kind: 'op', path: 'a/b/c' } })], providers)
  assert.deepEqual(resolver.check(), [{ name: 'B', message: 'no program' }])
})
