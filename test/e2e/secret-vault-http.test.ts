import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { openProviders, type Providers } from '../../src/controller/providers/providers.ts'
import type { HashicorpSettings } from '../../src/controller/providers/settings.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { parseSource } from '../../src/policy/policy.ts'
import type { SecretSource } from '../../src/wire/secret-source.ts'
import { headersOf, openVaultServer, type VaultServer } from '../support/hashicorp-vault.ts'
import { writeFiles } from '../support/policy.ts'

const CANARY = 'canary-93be0f17'
const NEVER = new AbortController().signal
const TOKEN_SOURCE: SecretSource = { kind: 'env', variable: 'VAULT_TOKEN_OF_TEST' }

function open(server: VaultServer, more: Partial<HashicorpSettings> = {}, token = server.token): Providers {
  return openProviders({
    env: { VAULT_TOKEN_OF_TEST: token },
    hashicorp: { address: server.address, token: TOKEN_SOURCE, isWrapped: false, caFile: server.caFile, ...more },
  })
}

function sourceOf(text: string): SecretSource {
  const source = parseSource(`vault-http:${text}`)
  assert.ok(typeof source !== 'string', JSON.stringify(source))
  return source
}

async function failure(promise: Promise<unknown>): Promise<SallyportError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof SallyportError, inspect(error))
  // Neither a value nor a token, in the error or in what caused it.
  assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }) + (error.stack ?? ''), /canary|hvs\./)
  return error
}

test('a field of the latest version is read over verified TLS, with the token in its header alone', async () => {
  await using server = await openVaultServer()
  server.put('ci/git hub', { token: 'the-first-value' })
  server.put('ci/git hub', { token: CANARY, other: 'another-value' })
  await using providers = open(server)
  assert.equal((await providers.get('T', sourceOf('secret/ci/git hub#token'), NEVER)).reveal(), CANARY)
  const [request] = server.upstream.requests
  assert.ok(request !== undefined)
  assert.equal(request.url, '/v1/secret/data/ci/git%20hub')
  const headers = headersOf(request)
  assert.equal(headers['x-vault-token'], server.token)
  assert.equal(headers['x-vault-request'], 'true')
  assert.equal(headers['x-vault-namespace'], undefined)
})

test('a version is read where one is named', async () => {
  await using server = await openVaultServer()
  server.put('a', { token: 'the-first-value' })
  server.put('a', { token: 'the-second-value' })
  await using providers = open(server)
  assert.equal((await providers.get('T', sourceOf('secret/a?version=1#token'), NEVER)).reveal(), 'the-first-value')
  assert.equal((await providers.get('T', sourceOf('secret/a?version=2#token'), NEVER)).reveal(), 'the-second-value')
  assert.equal((await failure(providers.get('T', sourceOf('secret/a?version=3#token'), NEVER))).code, 'secret_missing')
})

for (const { why, gone } of [
  { why: 'deleted', gone: { deletedAt: '2024-05-01T00:00:00Z', destroyed: false } },
  { why: 'destroyed', gone: { deletedAt: '', destroyed: true } },
]) {
  test(`a version that was ${why} is missing, and the one before is not taken for it`, async () => {
    await using server = await openVaultServer()
    server.put('a', { token: CANARY })
    server.put('a', { token: CANARY })
    Object.assign(server.secrets.get('a')?.[1] ?? {}, gone)
    await using providers = open(server)
    const error = await failure(providers.get('T', sourceOf('secret/a#token'), NEVER))
    assert.equal(error.code, 'secret_missing')
    assert.match(error.message, /was deleted/)
    assert.equal((await providers.get('T', sourceOf('secret/a?version=1#token'), NEVER)).reveal(), CANARY)
  })
}

for (const { why, path, data, code } of [
  { why: 'no such secret', path: 'secret/none#token', data: {}, code: 'secret_missing' },
  { why: 'no such field', path: 'secret/a#none', data: { token: CANARY }, code: 'secret_missing' },
  { why: 'a field that every object has', path: 'secret/a#constructor', data: { token: CANARY }, code: 'secret_missing' },
  { why: 'no such store', path: 'kv/a#token', data: { token: CANARY }, code: 'secret_missing' },
  { why: 'a field that is a number', path: 'secret/a#token', data: { token: 1234567 }, code: 'secret_unavailable' },
  { why: 'a field that is an object', path: 'secret/a#token', data: { token: { canary: CANARY } }, code: 'secret_unavailable' },
  { why: 'a value with a line break', path: 'secret/a#token', data: { token: `${CANARY}\r\nX-Evil: 1` }, code: 'secret_invalid' },
  { why: 'an empty value', path: 'secret/a#token', data: { token: '' }, code: 'secret_invalid' },
]) {
  test(`${why}: ${code}`, async () => {
    await using server = await openVaultServer()
    server.put('a', data)
    await using providers = open(server)
    assert.equal((await failure(providers.get('T', sourceOf(path), NEVER))).code, code)
  })
}

test('storing changes one field and leaves the others; deleting takes one away', async () => {
  await using server = await openVaultServer()
  server.put('a', { token: 'old-value', other: 'another-value' })
  await using providers = open(server)
  await providers.set(sourceOf('secret/a#token'), new Secret('T', CANARY), NEVER)
  assert.deepEqual(server.secrets.get('a')?.at(-1)?.data, { token: CANARY, other: 'another-value' })
  await providers.delete(sourceOf('secret/a#token'), NEVER)
  assert.deepEqual(server.secrets.get('a')?.at(-1)?.data, { other: 'another-value' })
  await providers.set(sourceOf('secret/new/b#token'), new Secret('T', CANARY), NEVER)
  assert.deepEqual(server.secrets.get('new/b'), [{ data: { token: CANARY }, deletedAt: '', destroyed: false }])
  assert.equal((await failure(providers.delete(sourceOf('secret/none#token'), NEVER))).code, 'secret_missing')
  assert.equal((await failure(providers.set(sourceOf('secret/a?version=1#token'), new Secret('T', CANARY), NEVER))).code, 'provider_cannot')
  assert.equal(
    server.upstream.requests.some(({ url }) => url.includes('canary')),
    false,
  )
})

test('a secret that another writer makes meanwhile is not overwritten', async () => {
  await using server = await openVaultServer()
  await using providers = open(server)
  server.fault = (_request, response) => {
    server.fault = undefined
    server.put('a', { other: 'of-the-other-writer' })
    response.writeHead(404).end('{"errors":[]}')
  }
  const error = await failure(providers.set(sourceOf('secret/a#token'), new Secret('T', CANARY), NEVER))
  assert.match(error.hint ?? '', /another writer/)
  assert.deepEqual(server.secrets.get('a')?.at(-1)?.data, { other: 'of-the-other-writer' })
})

test('what is in a folder is listed by name; a folder of nothing has nothing', async () => {
  await using server = await openVaultServer()
  for (const path of ['a', 'ci/b', 'ci/deep/c']) server.put(path, { token: CANARY })
  await using providers = open(server)
  assert.deepEqual(await providers.list('vault-http', 'secret', NEVER), ['vault-http:secret/a', 'vault-http:secret/ci/'])
  assert.deepEqual(await providers.list('vault-http', 'secret/ci', NEVER), ['vault-http:secret/ci/b', 'vault-http:secret/ci/deep/'])
  assert.deepEqual(await providers.list('vault-http', 'secret/none', NEVER), [])
  assert.equal((await failure(providers.list('vault-http', undefined, NEVER))).code, 'usage')
})

test('a wrapped token is unwrapped once, however many ask, and a new one when its file changes', async () => {
  await using server = await openVaultServer()
  server.put('a', { token: CANARY })
  server.wrapped.set('hvs.wrapping-1', server.token)
  server.wrapped.set('hvs.wrapping-2', server.token)
  using files = writeFiles({ token: 'hvs.wrapping-1\n' })
  await using providers = open(server, { isWrapped: true, token: { kind: 'file', path: files.at('token') } })
  const get = async (): Promise<string> => (await providers.get('T', sourceOf('secret/a#token'), NEVER)).reveal()
  const unwraps = (): number => server.upstream.requests.filter(({ url }) => url.endsWith('/unwrap')).length
  assert.deepEqual(await Promise.all([get(), get(), get()]), [CANARY, CANARY, CANARY])
  await get()
  assert.equal(unwraps(), 1)
  writeFileSync(files.at('token'), 'hvs.wrapping-2\n')
  await get()
  assert.equal(unwraps(), 2)
  const request = server.upstream.requests.find(({ url }) => url.endsWith('/unwrap'))
  assert.equal(request?.body.length, 0, 'the token stands in one place: twice would use it up')
})

test('a wrapping token that somebody else has used is said to be, and nothing is asked with it', async () => {
  await using server = await openVaultServer()
  server.put('a', { token: CANARY })
  await using providers = open(server, { isWrapped: true }, 'hvs.used-already')
  const error = await failure(providers.get('T', sourceOf('secret/a#token'), NEVER))
  assert.equal(error.code, 'secret_unavailable')
  assert.match(error.hint ?? '', /somebody else has unwrapped it/)
  assert.equal(server.upstream.requests.length, 1)
})

test('a caller that goes while a token is unwrapped does not lose it for the next', async () => {
  await using server = await openVaultServer()
  server.put('a', { token: CANARY })
  server.wrapped.set('hvs.wrapping', server.token)
  await using providers = open(server, { isWrapped: true }, 'hvs.wrapping')
  const caller = new AbortController()
  const gone = failure(providers.get('T', sourceOf('secret/a#token'), caller.signal))
  const next = providers.get('T', sourceOf('secret/a#token'), NEVER)
  caller.abort()
  await gone
  assert.equal((await next).reveal(), CANARY)
})

test('the namespace goes with every request', async () => {
  await using server = await openVaultServer({ namespace: 'team/ci' })
  server.put('a', { token: CANARY })
  await using providers = open(server, { namespace: 'team/ci' })
  assert.equal((await providers.get('T', sourceOf('secret/a#token'), NEVER)).reveal(), CANARY)
  await using without = open(server)
  assert.match((await failure(without.get('T', sourceOf('secret/a#token'), NEVER))).message, /refuses the token/)
})

test('a token from another place is read anew for each request', async () => {
  await using server = await openVaultServer()
  server.put('a', { token: CANARY })
  using files = writeFiles({ token: 'hvs.expired\n' })
  await using providers = open(server, { token: { kind: 'exec', argv: ['/bin/cat', files.at('token')] } })
  await failure(providers.get('T', sourceOf('secret/a#token'), NEVER))
  writeFileSync(files.at('token'), `${server.token}\n`)
  assert.equal((await providers.get('T', sourceOf('secret/a#token'), NEVER)).reveal(), CANARY)
})

test('no token, no request', async () => {
  await using server = await openVaultServer()
  await using providers = open(server, { token: { kind: 'env', variable: 'NOT_SET' } })
  assert.equal((await failure(providers.get('T', sourceOf('secret/a#token'), NEVER))).code, 'secret_missing')
  assert.equal(server.upstream.connections, 0)
})

for (const { why, setting, more } of [
  { why: 'of an unknown authority', setting: {}, more: { caFile: '/etc/ssl/certs/ca-certificates.crt' } },
  { why: 'for another name', setting: { host: 'vault.example.com' }, more: {} },
]) {
  test(`a certificate ${why}: no token is sent, whatever the environment says`, async () => {
    await using server = await openVaultServer(setting)
    server.put('a', { token: CANARY })
    const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED']
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
    try {
      await using providers = open(server, more)
      assert.equal((await failure(providers.get('T', sourceOf('secret/a#token'), NEVER))).code, 'secret_unavailable')
    } finally {
      if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
      else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before
    }
    assert.equal(server.upstream.requests.length, 0)
  })
}

test('plain HTTP on this machine is for development servers', async () => {
  await using server = await openVaultServer({ isPlain: true })
  server.put('a', { token: CANARY })
  await using providers = openProviders({
    env: { VAULT_TOKEN_OF_TEST: server.token },
    hashicorp: { address: server.address, token: TOKEN_SOURCE, isWrapped: false },
  })
  assert.equal((await providers.get('T', sourceOf('secret/a#token'), NEVER)).reveal(), CANARY)
})

for (const { why, fault, says } of [
  {
    why: 'redirects, to itself even',
    fault: (server: VaultServer) => ({ status: 307, headers: { location: `${server.address}/v1/secret/data/a` }, body: '' }),
    says: /redirects/,
  },
  { why: 'is sealed', fault: () => ({ status: 503, headers: {}, body: `{"errors":["${CANARY}"]}` }), says: /status 503/ },
  { why: 'answers what is no JSON', fault: () => ({ status: 200, headers: {}, body: `<html>${CANARY}` }), says: /not as expected/ },
  {
    why: 'answers like a store of version 1',
    fault: () => ({ status: 200, headers: {}, body: `{"data":{"token":"${CANARY}"}}` }),
    says: /not as expected/,
  },
  {
    why: 'answers with more than it may',
    fault: () => ({ status: 200, headers: {}, body: `{"data":{"data":{"token":"${CANARY}${'x'.repeat(LIMITS.vaultAnswerBytesMax)}"}}}` }),
    says: /did not answer/,
  },
]) {
  test(`I31 a server that ${why}: secret_unavailable, one request, and no word of the answer in the error`, async () => {
    await using server = await openVaultServer()
    server.fault = (_request, response) => {
      const { status, headers, body } = fault(server)
      response.writeHead(status, headers).end(body)
    }
    await using providers = open(server)
    const error = await failure(providers.get('T', sourceOf('secret/a#token'), NEVER))
    assert.equal(error.code, 'secret_unavailable')
    assert.match(error.message, says)
    assert.equal(server.upstream.requests.length, 1)
  })
}

for (const { why, body } of [
  { why: 'never answers', body: undefined },
  { why: 'never ends its answer', body: '{"data":' },
]) {
  test(`a server that ${why} holds nobody who goes`, async () => {
    await using server = await openVaultServer()
    const caller = new AbortController()
    server.fault = (_request, response) => {
      if (body !== undefined) response.writeHead(200).write(body)
      setImmediate(() => caller.abort())
    }
    await using providers = open(server)
    assert.equal((await failure(providers.get('T', sourceOf('secret/a#token'), caller.signal))).code, 'secret_unavailable')
  })
}

test('without settings of a server vault-http is unavailable, and says where they go', async () => {
  await using providers = openProviders({ env: {} })
  assert.match((await failure(providers.get('T', sourceOf('secret/a#token'), NEVER))).hint ?? '', /providers\.yaml/)
  assert.match(providers.problem(sourceOf('secret/a#token')) ?? '', /no address/)
  assert.equal((await failure(providers.set(sourceOf('secret/a#token'), new Secret('T', CANARY), NEVER))).code, 'provider_cannot')
})
