import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withCredential } from '../../support/written.ts'
import { forwardedRequestHeaders, forwardedResponseHeaders, forwardedTrailers, valuesOf } from '../../../src/sidecar/egress/headers.ts'

test('valuesOf finds a field in every case and keeps the order of its values', () => {
  assert.deepEqual(valuesOf(['X-A', '1', 'Host', 'h', 'x-a', '2', 'X-a', ''], 'x-a'), ['1', '2', ''])
  assert.deepEqual(valuesOf(['X-A', 'host'], 'host'), [], 'a value is not a name')
})

for (const name of [
  'Connection',
  'Proxy-Connection',
  'Keep-Alive',
  'Transfer-Encoding',
  'TE',
  'Trailer',
  'Upgrade',
  'HTTP2-Settings',
  'Expect',
  'Proxy-Authorization',
  'Proxy-Authenticate',
  'Proxy-Authentication-Info',
]) {
  test(`${name} ends at this hop, in requests and in responses, in every case`, () => {
    for (const spelling of [name, name.toLowerCase(), name.toUpperCase()]) {
      assert.deepEqual(forwardedRequestHeaders([spelling, 'chunked', 'Accept', '*/*'], 'h'), ['host', 'h', 'Accept', '*/*'])
      assert.deepEqual(forwardedResponseHeaders([spelling, 'chunked', 'Etag', '"1"'], 200), ['Etag', '"1"'])
    }
  })
}

test('I2 exactly one Host goes on, the canonical one, whatever the agent sent', () => {
  const forwarded = forwardedRequestHeaders(['HOST', 'evil.test', 'Accept', '*/*', 'host', 'evil2.test'], 'api.example.com')
  assert.deepEqual(valuesOf(forwarded, 'host'), ['api.example.com'])
})

for (const { why, connection, gone } of [
  { why: 'one name', connection: ['X-Hop'], gone: true },
  { why: 'a name in another case', connection: ['x-HOP'], gone: true },
  { why: 'a list with white space', connection: ['close ,\t x-hop , y'], gone: true },
  { why: 'a second Connection field', connection: ['close', 'x-hop'], gone: true },
  { why: 'a longer name', connection: ['x-hop-2'], gone: false },
  { why: 'a part of the name', connection: ['hop'], gone: false },
]) {
  test(`a field is ${gone ? 'dropped' : 'kept'} when Connection has ${why}`, () => {
    const raw = [...connection.flatMap((value) => ['Connection', value]), 'X-Hop', '1']
    assert.equal(valuesOf(forwardedRequestHeaders(raw, 'h'), 'x-hop').length, gone ? 0 : 1)
    assert.equal(valuesOf(forwardedResponseHeaders(raw, 200), 'x-hop').length, gone ? 0 : 1)
  })
}

test('I10 Content-Length and Host stay though Connection names them: a client must not strip framing', () => {
  const forwarded = forwardedRequestHeaders(['Connection', 'content-length, host', 'Content-Length', '4', 'Host', 'h'], 'h')
  assert.deepEqual(forwarded, ['host', 'h', 'Content-Length', '4'])
  assert.deepEqual(forwardedResponseHeaders(['Connection', 'content-length', 'Content-Length', '4'], 200), ['Content-Length', '4'])
})

test('Alt-Svc is stripped from responses: it would lead the agent past the gate', () => {
  assert.deepEqual(forwardedResponseHeaders(['Alt-Svc', 'h3=":443"', 'alt-svc', 'clear', 'A', 'b'], 200), ['A', 'b'])
})

test('repeated fields, their order, their spelling and their bytes stay as they came', () => {
  const fields = ['Set-Cookie', 'a=1', 'X-Latin', 'caf\xe9', 'set-cookie', 'b=2', 'SET-COOKIE', 'a=1']
  assert.deepEqual(forwardedResponseHeaders(fields, 200), fields)
  assert.deepEqual(forwardedRequestHeaders(fields, 'h').slice(2), fields)
})

for (const name of [
  'Authorization',
  'authorization',
  'X-Api-Key',
  'API-KEY',
  'x-auth-token',
  'X-Goog-Api-Key',
  'Private-Token',
  'job-token',
  'X-Access-Token',
]) {
  test(`I5 the agent's own ${name} goes when a credential is written into another field`, () => {
    const written = withCredential(['host', 'h', name, 'own', name, 'own-2', 'Accept', 'a'], 'X-Service-Key', 'ours')
    assert.deepEqual(written, ['host', 'h', 'Accept', 'a', 'X-Service-Key', 'ours'])
  })
}

test('I5 the field of the credential is written once, in place of all that the agent sent in it', () => {
  const written = withCredential(['x-service-key', 'own', 'X-SERVICE-KEY', 'own-2', 'Accept', 'a', 'Cookie', 'c'], 'X-Service-Key', 'ours')
  assert.deepEqual(written, ['Accept', 'a', 'X-Service-Key', 'ours'])
})

test('I5 a credential is never removed by a Connection field, as it is written after those are gone', () => {
  const forwarded = forwardedRequestHeaders(['Connection', 'authorization', 'Authorization', 'own'], 'h')
  assert.deepEqual(withCredential(forwarded, 'Authorization', 'ours'), ['host', 'h', 'Authorization', 'ours'])
})

for (const name of ['X-HTTP-Method-Override', 'x-method-override', 'X_HTTP_Method', 'X-Original-URL', 'x-rewrite-url']) {
  test(`${name} ends at the gate: what was decided on is what is done`, () => {
    assert.deepEqual(forwardedRequestHeaders([name, 'DELETE', 'Accept', 'a'], 'h'), ['host', 'h', 'Accept', 'a'])
  })
}

test("I5 an agent's field that differs by an underscore only goes too: CGI makes one variable of both", () => {
  assert.deepEqual(withCredential(['x_api_key', 'own', 'X_Service_Key', 'own'], 'X-Service-Key', 'ours'), ['X-Service-Key', 'ours'])
})

for (const coding of ['gzip, chunked', 'gzip', 'identity', 'chunked, chunked']) {
  test(`I10 an answer with Transfer-Encoding: ${coding} is refused: its coding would be lost with the field`, () => {
    assert.throws(() => forwardedResponseHeaders(['Transfer-Encoding', coding], 200), { code: 'upstream_invalid' })
  })
}

test('answers that have no body (1xx, 204, 205) have no Content-Length, others keep theirs', () => {
  for (const status of [103, 204, 205]) assert.deepEqual(forwardedResponseHeaders(['Content-Length', '5'], status), [])
  assert.deepEqual(forwardedResponseHeaders(['Content-Length', '5'], 304), ['Content-Length', '5'])
})

test('white space around a value is no part of it, in it it is', () => {
  assert.deepEqual(forwardedResponseHeaders(['X', ' \t a \t b\t ', 'Y', ' ', 'Z', ''], 200), ['X', 'a \t b', 'Y', '', 'Z', ''])
  assert.deepEqual(forwardedTrailers(['X-Late', ' a ']), ['X-Late', 'a'])
})
