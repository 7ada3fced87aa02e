import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import { readRequest, type SocksRequest } from '../../src/sidecar/inbound/socks-messages.ts'

/** A request to connect to this name, as its bytes. */
function toName(name: string | Buffer): Buffer {
  const bytes = typeof name === 'string' ? Buffer.from(name, 'latin1') : name
  return Buffer.concat([Buffer.of(5, 1, 0, 3, bytes.length), bytes, Buffer.of(1, 187)])
}

function toIpv6(hex: string): Buffer {
  return Buffer.concat([Buffer.of(5, 1, 0, 4), Buffer.from(hex.padStart(32, '0'), 'hex'), Buffer.of(1, 187)])
}

function requestOf(bytes: Buffer): SocksRequest {
  const read = readRequest(bytes)
  assert.ok(read.state === 'complete', read.state)
  return read.value
}

/** Names that a check and a resolver could read in two ways: the reader gives them on whole, and none of them is a host. */
for (const { name, why } of [
  { name: 'evil.test\0.example.com', why: 'NUL ends it for a resolver, not for a suffix test' },
  { name: 'api.example.com\0', why: 'NUL at the end' },
  { name: '\0api.example.com', why: 'NUL at the start' },
  { name: 'evil.test\n.example.com', why: 'a line end, which could write a log line' },
  { name: 'evil.test .example.com', why: 'space' },
  { name: 'api.example.com.', why: 'trailing dot' },
  { name: 'fe80::1%eth0', why: 'a zone id' },
  { name: 'fe80::1%.example.com', why: 'a zone id with an allowed suffix' },
  { name: '::ffff:169.254.169.254', why: 'an IPv4 address in IPv6 form' },
  { name: '[::ffff:7f00:1]', why: 'the same in brackets and hexadecimal' },
  { name: '2130706433', why: 'an address as one number' },
  { name: '0x7f.1', why: 'an address in hexadecimal' },
  { name: '0177.0.0.1', why: 'an address in octal' },
  { name: '127.1', why: 'a short address' },
  { name: 'api.example.com:443', why: 'a port in the name' },
  { name: 'user@api.example.com', why: 'userinfo' },
  { name: 'http://api.example.com/', why: 'a URL' },
  { name: '*.example.com', why: 'the wildcard itself' },
  { name: 'caf\xe9.example.com', why: 'latin1' },
  { name: Buffer.from('аpi.example.com'), why: 'UTF-8 of a Cyrillic letter' },
  { name: Buffer.of(0xc0, 0xae, 0x2e), why: 'an overlong dot of UTF-8' },
  { name: 'a'.repeat(255), why: 'a label of 255 bytes' },
  { name: `${'a'.repeat(63)}.`.repeat(4).slice(0, -1), why: '255 bytes of good labels: longer than a name may be' },
  { name: '\xff'.repeat(255), why: '255 bytes of 0xff' },
]) {
  test(`I2 a SOCKS name is given on byte for byte and refused as a host: ${why}`, () => {
    const { address } = requestOf(toName(name))
    assert.equal(address.kind, 'domain')
    assert.deepEqual(Buffer.from(address.text, 'latin1'), typeof name === 'string' ? Buffer.from(name, 'latin1') : name)
    assert.equal(isHostname(parseHostname(address.text)), false)
  })
}

for (const { bytes, host, why } of [
  { bytes: toName('API.Example.COM'), host: 'api.example.com', why: 'upper case is the same name' },
  { bytes: toName('127.0.0.1'), host: '127.0.0.1', why: 'an address sent as a name is the address' },
  { bytes: toName('[::1]'), host: '::1', why: 'so is one in brackets' },
  { bytes: toName('0:0:0:0:0:0:0:1'), host: '::1', why: 'and one that is not short' },
  { bytes: Buffer.of(5, 1, 0, 1, 127, 0, 0, 1, 1, 187), host: '127.0.0.1', why: 'and one of four bytes' },
  { bytes: toIpv6('1'), host: '::1', why: 'and one of sixteen' },
  { bytes: toIpv6('7f000001'), host: '::7f00:1', why: 'the form that RFC 4291 gave up keeps its own class' },
  { bytes: toIpv6('64ff9b0000000000000000a9fea9fe'), host: '64:ff9b::a9fe:a9fe', why: 'a translated address keeps its class' },
]) {
  test(`I2 a SOCKS address has one spelling, the one that rules and classes know: ${host}, ${why}`, () => {
    assert.equal(parseHostname(requestOf(bytes).address.text), host)
  })
}

test('an IPv4 address in the sixteen bytes of an IPv6 one is refused, with the spelling that was meant', () => {
  const { address } = requestOf(toIpv6('ffffa9fea9fe'))
  assert.deepEqual(parseHostname(address.text), { problem: 'it is an IPv4 address in IPv6 form', canonical: '169.254.169.254' })
})

test('a name of 255 bytes ends where its length says, and what follows is the port and then not part of it', () => {
  const request = Buffer.concat([toName('b'.repeat(255)), Buffer.from('.example.com')])
  const read = readRequest(request)
  assert.ok(read.state === 'complete')
  assert.equal(read.length, 4 + 1 + 255 + 2)
  assert.deepEqual(read.value.address.text, 'b'.repeat(255))
  assert.equal(read.value.port, 443)
})

for (const { bytes, reply, why } of [
  { bytes: Buffer.of(5, 1, 0, 3, 0, 1, 187), reply: 1, why: 'no name' },
  { bytes: Buffer.of(5, 1, 0, 1, 1, 2, 3, 4, 0, 0), reply: 1, why: 'port 0' },
  { bytes: Buffer.of(5, 1, 1, 1, 1, 2, 3, 4, 0, 80), reply: 1, why: 'a reserved byte that is used' },
  { bytes: Buffer.of(4, 1, 0, 1, 1, 2, 3, 4, 0, 80), reply: 1, why: 'another version in the middle' },
  { bytes: Buffer.of(5, 1, 0, 0, 1, 2, 3, 4, 0, 80), reply: 8, why: 'address type 0' },
  { bytes: Buffer.of(5, 1, 0, 2, 1, 2, 3, 4, 0, 80), reply: 8, why: 'address type 2' },
  { bytes: Buffer.of(5, 1, 0, 255, 1, 2, 3, 4, 0, 80), reply: 8, why: 'address type 255' },
]) {
  test(`a request with ${why} is malformed and is answered ${reply}, never read as another`, () => {
    const read = readRequest(bytes)
    assert.ok(read.state === 'invalid')
    assert.equal(read.reply, reply)
  })
}
