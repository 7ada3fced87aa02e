import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { shown } from '../../../src/kernel/shown.ts'
import { isPresigned, readAuthority, readFacts, type Tunnel } from '../../../src/sidecar/egress/facts.ts'
import { hostname } from '../../support/policy.ts'

const API = hostname('api.example.com')
const TUNNEL: Tunnel = { lane: 'connect', scheme: 'https', host: API, port: 443 }
const ODD: Tunnel = { lane: 'connect', scheme: 'https', host: API, port: 8443 }
const PLAIN: Tunnel = { lane: 'connect', scheme: 'http', host: API, port: 80 }

type Head = { method?: string; url: string; fields?: readonly string[]; tunnel?: Tunnel }

/** `scheme host port path`, or the code of the refusal. */
function read({ method = 'GET', url, fields = [], tunnel }: Head): string {
  const facts = readFacts({ method, url, rawHeaders: fields }, tunnel)
  return 'code' in facts ? facts.code : `${facts.scheme} ${facts.host} ${facts.port} ${facts.path}`
}

for (const { url, host, gives } of [
  { url: 'http://api.example.com/', host: 'api.example.com', gives: 'http api.example.com 80 /' },
  { url: 'http://api.example.com/', host: undefined, gives: 'http api.example.com 80 /' },
  { url: 'http://api.example.com', host: 'api.example.com:80', gives: 'http api.example.com 80 /' },
  { url: 'http://api.example.com:80/a', host: 'api.example.com', gives: 'http api.example.com 80 /a' },
  { url: 'HTTP://API.Example.com/A', host: 'api.EXAMPLE.com', gives: 'http api.example.com 80 /A' },
  { url: 'https://api.example.com/a?b=c', host: 'api.example.com', gives: 'https api.example.com 443 /a?b=c' },
  { url: 'https://api.example.com?b', host: 'api.example.com', gives: 'https api.example.com 443 /?b' },
  { url: 'http://api.example.com:8080/%2e%2E//', host: 'api.example.com:8080', gives: 'http api.example.com 8080 /%2e%2E//' },
  { url: 'http://127.0.0.1:81/', host: '127.0.0.1:81', gives: 'http 127.0.0.1 81 /' },
  { url: 'http://[2606:4700:0::1111]/', host: '[2606:4700::1111]', gives: 'http 2606:4700::1111 80 /' },
  { url: 'http://api.example.com/', host: '', gives: 'authority_mismatch' },
  { url: 'http://api.example.com/', host: 'api.example.com:443', gives: 'authority_mismatch' },
  { url: 'http://api.example.com:8080/', host: 'api.example.com', gives: 'authority_mismatch' },
  { url: 'http://api.example.com/', host: 'api.example.com.', gives: 'authority_mismatch' },
  { url: 'http://api.example.com/', host: 'user@api.example.com', gives: 'authority_mismatch' },
  { url: 'http:///path', host: 'api.example.com', gives: 'target_invalid' },
  { url: 'http://api.example.com:0/', host: undefined, gives: 'target_invalid' },
  { url: 'http://api.example.com:65536/', host: undefined, gives: 'target_invalid' },
  { url: 'http://api.example.com:/', host: undefined, gives: 'target_invalid' },
  { url: 'http://api.example.com:+80/', host: undefined, gives: 'target_invalid' },
  { url: 'http://2130706433/', host: undefined, gives: 'host_invalid' },
  { url: 'http://0x7f.1/', host: undefined, gives: 'host_invalid' },
  { url: 'http://[::ffff:127.0.0.1]/', host: undefined, gives: 'host_invalid' },
  { url: 'http://api.example.com/#x', host: undefined, gives: 'target_invalid' },
  { url: 'http://api.example.com/\u00e9', host: undefined, gives: 'target_invalid' },
  { url: 'http://api.example.com/\x7f', host: undefined, gives: 'target_invalid' },
  { url: 'http://api.example.com/a b', host: undefined, gives: 'target_invalid' },
  { url: 'ftp://api.example.com/', host: undefined, gives: 'not_a_proxy_request' },
  { url: '//api.example.com/', host: 'api.example.com', gives: 'not_a_proxy_request' },
  { url: '/v1/me', host: 'api.example.com', gives: 'not_a_proxy_request' },
  { url: '*', host: 'api.example.com', gives: 'not_a_proxy_request' },
  { url: '', host: 'api.example.com', gives: 'target_invalid' },
]) {
  test(`I2 the proxy reads "${shown(url)}" with Host ${host ?? 'missing'} as ${gives}`, () => {
    assert.equal(read({ url, fields: host === undefined ? [] : ['Host', host] }), gives)
  })
}

for (const { tunnel, url, host, gives } of [
  { tunnel: TUNNEL, url: '/a?b', host: 'api.example.com', gives: 'https api.example.com 443 /a?b' },
  { tunnel: TUNNEL, url: '/', host: 'API.example.com:443', gives: 'https api.example.com 443 /' },
  { tunnel: TUNNEL, url: '//x/y', host: 'api.example.com', gives: 'https api.example.com 443 //x/y' },
  { tunnel: TUNNEL, url: 'https://api.example.com/x', host: 'api.example.com', gives: 'https api.example.com 443 /x' },
  { tunnel: ODD, url: '/', host: 'api.example.com:8443', gives: 'https api.example.com 8443 /' },
  { tunnel: PLAIN, url: '/', host: 'api.example.com', gives: 'http api.example.com 80 /' },
  { tunnel: ODD, url: '/', host: 'api.example.com', gives: 'misdirected_request' },
  { tunnel: TUNNEL, url: '/', host: 'other.example.com', gives: 'misdirected_request' },
  { tunnel: TUNNEL, url: '/', host: 'api.example.com:80', gives: 'misdirected_request' },
  { tunnel: PLAIN, url: '/', host: 'api.example.com:443', gives: 'misdirected_request' },
  { tunnel: TUNNEL, url: 'http://api.example.com/x', host: 'api.example.com', gives: 'misdirected_request' },
  { tunnel: TUNNEL, url: 'https://other.example.com/x', host: 'api.example.com', gives: 'misdirected_request' },
  { tunnel: TUNNEL, url: 'https://api.example.com:444/x', host: 'api.example.com', gives: 'misdirected_request' },
  { tunnel: TUNNEL, url: '*', host: 'api.example.com', gives: 'target_invalid' },
  { tunnel: TUNNEL, url: 'v1/me', host: 'api.example.com', gives: 'target_invalid' },
  { tunnel: TUNNEL, url: '/', host: undefined, gives: 'request_malformed' },
]) {
  test(`I2 in a ${tunnel.scheme} tunnel to port ${tunnel.port} "${url}" with Host ${host ?? 'missing'} is ${gives}`, () => {
    assert.equal(read({ url, tunnel, fields: host === undefined ? [] : ['Host', host] }), gives)
  })
}

const HOST = ['Host', 'api.example.com']
for (const { why, fields, code } of [
  { why: 'two Host fields that agree', fields: [...HOST, 'host', 'api.example.com'], code: 'request_malformed' },
  { why: 'a coding before chunked', fields: [...HOST, 'Transfer-Encoding', 'gzip, chunked'], code: 'transfer_coding_refused' },
  { why: 'identity', fields: [...HOST, 'Transfer-Encoding', 'identity'], code: 'transfer_coding_refused' },
  { why: 'an empty coding', fields: [...HOST, 'Transfer-Encoding', ''], code: 'transfer_coding_refused' },
  {
    why: 'chunked twice',
    fields: [...HOST, 'Transfer-Encoding', 'chunked', 'transfer-encoding', 'chunked'],
    code: 'transfer_coding_refused',
  },
  {
    why: 'a length besides chunked',
    fields: [...HOST, 'Content-Length', '4', 'Transfer-Encoding', 'chunked'],
    code: 'request_malformed',
  },
  { why: 'two equal lengths', fields: [...HOST, 'Content-Length', '4', 'content-length', '4'], code: 'request_malformed' },
  { why: 'a signed length', fields: [...HOST, 'Content-Length', '+4'], code: 'request_malformed' },
  { why: 'a length with a space', fields: [...HOST, 'Content-Length', '4 4'], code: 'request_malformed' },
  { why: 'a length past what a number holds', fields: [...HOST, 'Content-Length', '9'.repeat(16)], code: 'request_malformed' },
  { why: 'an upgrade', fields: [...HOST, 'Upgrade', 'websocket'], code: 'upgrade_refused' },
]) {
  test(`I10 a head with ${why} is refused with ${code}, on the proxy port and in a tunnel`, () => {
    assert.equal(read({ url: 'http://api.example.com/', fields }), code)
    assert.equal(read({ url: '/', fields, tunnel: TUNNEL }), code)
  })
}

test('I10 "Chunked" in another case is chunked', () => {
  assert.equal(read({ url: '/', fields: [...HOST, 'Transfer-Encoding', 'Chunked'], tunnel: PLAIN }), 'http api.example.com 80 /')
})

test('as many header fields as the limit pass, one more is refused', () => {
  const fields = (count: number): string[] => [...HOST, ...Array.from({ length: count - 1 }, () => ['X', 'y']).flat()]
  assert.equal(read({ url: '/', fields: fields(LIMITS.headFieldsMax), tunnel: PLAIN }), 'http api.example.com 80 /')
  assert.equal(read({ url: '/', fields: fields(LIMITS.headFieldsMax + 1), tunnel: PLAIN }), 'head_too_large')
})

test('TRACE is refused: it echoes the request with its credential', () => {
  assert.equal(read({ method: 'TRACE', url: '/', fields: HOST, tunnel: TUNNEL }), 'method_refused')
})

for (const { target, host, gives } of [
  { target: 'api.example.com:443', host: 'api.example.com:443', gives: 'api.example.com 443' },
  { target: 'API.example.com:443', host: undefined, gives: 'api.example.com 443' },
  { target: 'api.example.com:443', host: 'api.example.com', gives: 'api.example.com 443' },
  { target: 'api.example.com:8443', host: 'api.example.com', gives: 'api.example.com 8443' },
  { target: '[2606:4700::1111]:443', host: undefined, gives: '2606:4700::1111 443' },
  { target: '127.0.0.1:1', host: undefined, gives: '127.0.0.1 1' },
  { target: 'api.example.com', host: undefined, gives: 'target_invalid' },
  { target: 'api.example.com:', host: undefined, gives: 'target_invalid' },
  { target: 'api.example.com:443/x', host: undefined, gives: 'target_invalid' },
  { target: 'https://api.example.com:443', host: undefined, gives: 'target_invalid' },
  { target: 'api.example.com:99999', host: undefined, gives: 'target_invalid' },
  { target: 'api.example.com:0', host: undefined, gives: 'target_invalid' },
  { target: 'user@api.example.com:443', host: undefined, gives: 'host_invalid' },
  { target: 'api.example.com\0.evil.test:443', host: undefined, gives: 'host_invalid' },
  { target: 'api.example.com.:443', host: undefined, gives: 'host_invalid' },
  { target: '2606:4700::1111:443', host: undefined, gives: 'target_invalid' },
  { target: '[fe80::1%eth0]:443', host: undefined, gives: 'host_invalid' },
  { target: '', host: undefined, gives: 'target_invalid' },
  { target: 'api.example.com:443', host: 'other.example.com:443', gives: 'authority_mismatch' },
  { target: 'api.example.com:443', host: 'api.example.com:80', gives: 'authority_mismatch' },
]) {
  test(`I2 CONNECT "${shown(target)}" with Host ${host ?? 'missing'} is ${gives}`, () => {
    const end = readAuthority(target, host === undefined ? [] : ['Host', host])
    assert.equal('code' in end ? end.code : `${end.host} ${end.port}`, gives)
  })
}

for (const { path, signed } of [
  { path: '/x?X-Amz-Signature=a&X-Amz-Credential=k', signed: true },
  { path: '/x?a=b&x-goog-credential=k&x-goog-signature=a', signed: true },
  { path: '/x?sv=1&se=2&sig=a', signed: true },
  { path: '/x?se=2&s%69g=a', signed: true },
  { path: '/x?X-Amz-Signature=a', signed: false },
  { path: '/x?X-Amz-Signature=&X-Amz-Credential=k', signed: false },
  { path: '/x?sig=', signed: false },
  { path: '/x?Expires=1&Signature=a', signed: true },
  { path: '/x?design=a', signed: false },
  { path: '/sig=a', signed: false },
  { path: '/x?sigh=a', signed: false },
]) {
  test(`I5 ${path} ${signed ? 'carries' : 'does not carry'} a signature of its own`, () => assert.equal(isPresigned(path), signed))
}

test('text of an agent in a message is bounded and visible ASCII', () => {
  assert.equal(shown('a\r\nb\0c\u202ed'), 'a??b?c?d')
  assert.equal(shown('x'.repeat(500)), `${'x'.repeat(120)}...`)
})
