import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { openProviders, type LocalVault } from '../../../src/controller/providers/providers.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { writeFiles } from '../../support/policy.ts'

const CANARY = 'canary-1c7e55aa'
const NEVER = new AbortController().signal
const KEY = { kind: 'vault', key: 'K' } as const

async function failure(promise: Promise<unknown>): Promise<SallyportError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof SallyportError, inspect(error))
  assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), new RegExp(CANARY))
  return error
}

/** A vault in memory. */
function memoryVault(values: Map<string, Secret>): LocalVault {
  return {
    get(key) {
      const value = values.get(key)
      if (value === undefined) throw new SallyportError('secret_missing', `there is no ${key}`)
      return value
    },
    set: (key, value) => values.set(key, value),
    remove: (key) => void values.delete(key),
    list: () => [...values.keys()].map((key) => ({ key })),
  }
}

test('a value of the vault has the name that the policy gives it', async () => {
  await using providers = openProviders({ env: {}, vault: memoryVault(new Map([['K', new Secret('K', CANARY)]])) })
  const secret = await providers.get('TOKEN', KEY, NEVER)
  assert.equal(secret.name, 'TOKEN')
  assert.equal(secret.reveal(), CANARY)
  assert.equal(providers.problem(KEY), undefined)
  assert.match(providers.problem({ kind: 'vault', key: 'OTHER' }) ?? '', /no key OTHER/)
})

test('the vault stores, lists and deletes', async () => {
  const values = new Map<string, Secret>()
  await using providers = openProviders({ env: {}, vault: memoryVault(values) })
  await providers.set(KEY, new Secret('K', CANARY), NEVER)
  assert.deepEqual(await providers.list('vault', undefined, NEVER), ['vault:K'])
  await providers.delete(KEY, NEVER)
  assert.equal(values.size, 0)
  assert.equal((await failure(providers.get('TOKEN', KEY, NEVER))).code, 'secret_missing')
})

for (const value of ['', 'short', `${CANARY}\n`, ` ${CANARY}`, `${CANARY}\u00fc`, 'x'.repeat(LIMITS.secretBytesMax + 1)]) {
  test(`${JSON.stringify(value.slice(0, 24))} of the vault is refused when it is read and when it is stored: it could not stand in a header`, async () => {
    const values = new Map([['K', new Secret('K', value)]])
    await using providers = openProviders({ env: {}, vault: memoryVault(values) })
    assert.equal((await failure(providers.get('TOKEN', KEY, NEVER))).code, 'secret_invalid')
    values.clear()
    assert.equal((await failure(providers.set(KEY, new Secret('K', value), NEVER))).code, 'secret_invalid')
    assert.equal(values.size, 0)
  })
}

test('a vault that only gives values is said to', async () => {
  await using providers = openProviders({ env: {}, vault: { get: (key) => new Secret(key, CANARY) } })
  assert.equal((await providers.get('TOKEN', KEY, NEVER)).reveal(), CANARY)
  for (const refused of [
    providers.set(KEY, new Secret('K', CANARY), NEVER),
    providers.delete(KEY, NEVER),
    providers.list('vault', undefined, NEVER),
  ])
    assert.equal((await failure(refused)).code, 'provider_cannot')
})

test('without an open vault its secrets are unavailable, and check says so', async () => {
  await using providers = openProviders({ env: {} })
  assert.equal((await failure(providers.get('TOKEN', KEY, NEVER))).code, 'secret_unavailable')
  assert.match(providers.problem(KEY) ?? '', /not open/)
})

test('a variable and a file are read at the moment of use, and never written', async () => {
  using files = writeFiles({ token: `${CANARY}\n` })
  const env: Record<string, string> = { API_TOKEN: `${CANARY}-of-env` }
  await using providers = openProviders({ env })
  const variable = { kind: 'env', variable: 'API_TOKEN' } as const
  const file = { kind: 'file', path: files.at('token') } as const
  assert.equal((await providers.get('T', variable, NEVER)).reveal(), `${CANARY}-of-env`)
  assert.equal((await providers.get('T', file, NEVER)).reveal(), CANARY)
  env['API_TOKEN'] = 'another-value'
  assert.equal((await providers.get('T', variable, NEVER)).reveal(), 'another-value')
  const none = { kind: 'file', path: files.at('none') } as const
  for (const source of [variable, none, { kind: 'exec', argv: ['cat'] } as const]) {
    assert.equal((await failure(providers.set(source, new Secret('T', CANARY), NEVER))).code, 'provider_cannot')
    assert.equal((await failure(providers.delete(source, NEVER))).code, 'provider_cannot')
    assert.equal((await failure(providers.list(source.kind, undefined, NEVER))).code, 'provider_cannot')
  }
  assert.equal(existsSync(none.path), false)
})

test('a FIFO in the place of a file does not hold up the daemon', async () => {
  using files = writeFiles({})
  execFileSync('mkfifo', [files.at('pipe')])
  await using providers = openProviders({ env: {} })
  assert.equal((await failure(providers.get('T', { kind: 'file', path: files.at('pipe') }, NEVER))).code, 'secret_missing')
})

test('problems are told without reading a value', async () => {
  using files = writeFiles({ token: CANARY })
  await using providers = openProviders({ env: { A: CANARY, PATH: '/bin:/usr/bin' } })
  assert.equal(providers.problem({ kind: 'env', variable: 'A' }), undefined)
  assert.match(providers.problem({ kind: 'env', variable: 'B' }) ?? '', /B is not set/)
  assert.equal(providers.problem({ kind: 'file', path: files.at('token') }), undefined)
  assert.match(providers.problem({ kind: 'file', path: files.at('none') }) ?? '', /no file/)
  assert.equal(providers.problem({ kind: 'exec', argv: ['sh'] }), undefined)
  assert.match(providers.problem({ kind: 'exec', argv: ['no-such-program'] }) ?? '', /"no-such-program" is not in PATH/)
  assert.match(providers.problem({ kind: 'keychain', service: 'a' }) ?? '', /"security" is not in PATH/)
})

test('a caller that is gone starts nothing', async () => {
  await using providers = openProviders({ env: { A: CANARY } })
  await assert.rejects(providers.get('T', { kind: 'env', variable: 'A' }, AbortSignal.abort()))
})

test('authorities that cannot be read are an error at the start', () => {
  const hashicorp = {
    address: 'https://127.0.0.1:1',
    token: { kind: 'env', variable: 'A' },
    isWrapped: false,
    caFile: '/nonexistent.pem',
  } as const
  assert.throws(() => openProviders({ env: {}, hashicorp }), { code: 'config_invalid' })
})
