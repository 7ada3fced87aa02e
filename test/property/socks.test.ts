import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import { readGreeting, readPassword, readRequest, writeReply, type Parsed } from '../../src/sidecar/inbound/socks-messages.ts'

const READERS: readonly ((bytes: Buffer) => Parsed<unknown>)[] = [readGreeting, readPassword, readRequest]
const byte = fc.nat(255)
const bytes = (limits: { minLength?: number; maxLength: number }) => fc.uint8Array(limits).map((array) => Buffer.from(array))
const port = fc.integer({ min: 1, max: 65_535 })

const greeting = fc.array(byte, { maxLength: 255 }).map((methods) => ({
  message: Buffer.of(5, methods.length, ...methods),
  value: { methods },
}))
const password = fc.tuple(bytes({ maxLength: 255 }), bytes({ maxLength: 255 })).map(([username, secret]) => ({
  message: Buffer.concat([Buffer.of(1, username.length), username, Buffer.of(secret.length), secret]),
  value: { username, password: secret },
}))
const domain = bytes({ minLength: 1, maxLength: 255 }).map((name) => ({
  wire: Buffer.concat([Buffer.of(3, name.length), name]),
  address: { kind: 'domain', text: name.toString('latin1') },
}))
const ipv4 = fc.ipV4().map((text) => ({ wire: Buffer.of(1, ...text.split('.').map(Number)), address: { kind: 'ipv4', text } }))
const ipv6 = bytes({ minLength: 16, maxLength: 16 }).map((address) => ({
  wire: Buffer.concat([Buffer.of(4), address]),
  address: { kind: 'ipv6', text: Array.from({ length: 8 }, (_, i) => address.readUInt16BE(2 * i).toString(16)).join(':') },
}))
const command = fc.constantFrom<{ number: number; name: string | number }>(
  { number: 1, name: 'connect' },
  { number: 2, name: 'bind' },
  { number: 3, name: 'udp_associate' },
  { number: 77, name: 77 },
)
const request = fc.tuple(command, fc.oneof(domain, ipv4, ipv6), port).map(([{ number, name }, { wire, address }, to]) => ({
  message: Buffer.concat([Buffer.of(5, number, 0), wire, Buffer.of(to >> 8, to & 255)]),
  value: { command: name, address, port: to },
}))

for (const { what, reader, messages } of [
  { what: 'greeting', reader: readGreeting, messages: greeting },
  { what: 'password', reader: readPassword, messages: password },
  { what: 'request', reader: readRequest, messages: request },
]) {
  test(`a ${what} is read as it was written, whatever follows it, and no part of it is complete or invalid`, () => {
    fc.assert(
      fc.property(messages as fc.Arbitrary<{ message: Buffer; value: unknown }>, bytes({ maxLength: 40 }), ({ message, value }, behind) => {
        const complete = { state: 'complete', value, length: message.length }
        assert.deepEqual(reader(message), complete)
        assert.deepEqual(reader(Buffer.concat([message, behind])), complete)
        for (let length = 0; length < message.length; length++)
          assert.deepEqual(reader(message.subarray(0, length)), { state: 'incomplete' }, `at ${length}`)
      }),
    )
  })
}

test('arbitrary bytes never make a reader throw, and an answer once given is the same when more bytes come', () => {
  const start = fc.constantFrom(
    Buffer.alloc(0),
    Buffer.of(5),
    Buffer.of(1),
    Buffer.of(5, 1, 0),
    Buffer.of(5, 1, 0, 3),
    Buffer.of(5, 3, 0, 4),
  )
  fc.assert(
    fc.property(start, bytes({ maxLength: 60 }), (head, tail) => {
      const whole = Buffer.concat([head, tail])
      for (const reader of READERS) {
        let first: Parsed<unknown> = { state: 'incomplete' }
        for (let length = 0; length <= whole.length; length++) {
          const now = reader(whole.subarray(0, length))
          if (first.state === 'incomplete') first = now
          else assert.deepEqual(now, first)
        }
        if (first.state === 'complete') assert.ok(first.length <= whole.length)
      }
    }),
    { numRuns: 3_000 },
  )
})

test('nothing is incomplete beyond the longest message: 257 bytes of a greeting, 513 of a password, 262 of a request', () => {
  fc.assert(
    fc.property(bytes({ minLength: 513, maxLength: 600 }), fc.constantFrom(1, 5), (tail, version) => {
      const whole = Buffer.concat([Buffer.of(version), tail])
      assert.notEqual(readGreeting(whole.subarray(0, 257)).state, 'incomplete')
      assert.notEqual(readPassword(whole.subarray(0, 513)).state, 'incomplete')
      assert.notEqual(readRequest(whole.subarray(0, 262)).state, 'incomplete')
    }),
  )
})

test('an address in a request is a host or has a canonical spelling, the same as its bytes', () => {
  fc.assert(
    fc.property(fc.oneof(ipv4, ipv6), ({ wire, address }) => {
      const host = parseHostname(address.text)
      const canonical = isHostname(host) ? host : host.canonical
      assert.ok(canonical !== undefined, address.text)
      const parsed = ipaddr.parse(canonical)
      const read = wire[0] === 4 && parsed.kind() === 'ipv4' ? (parsed as ipaddr.IPv4).toIPv4MappedAddress() : parsed
      assert.deepEqual(Buffer.from(read.toByteArray()), wire.subarray(1))
    }),
  )
})

test('a reply has the form of a request: version, code, 0, the bound address and port', () => {
  fc.assert(
    fc.property(fc.nat(8), fc.oneof(fc.ipV4(), fc.ipV6()), port, (code, address, to) => {
      const reply = writeReply(code, { address, port: to })
      assert.deepEqual([...reply.subarray(0, 3)], [5, code, 0])
      // RFC 1928 §4 and §6 differ in the second byte only.
      const read = readRequest(Buffer.concat([Buffer.of(5, 1, 0), reply.subarray(3)]))
      assert.ok(read.state === 'complete' && read.length === reply.length)
      assert.equal(read.value.port, to)
      assert.deepEqual(ipaddr.parse(read.value.address.text).toByteArray(), ipaddr.parse(address).toByteArray())
    }),
  )
})

test('a reply that tells no address has 0.0.0.0:0', () => {
  assert.deepEqual(writeReply(2), Buffer.of(5, 2, 0, 1, 0, 0, 0, 0, 0, 0))
})
