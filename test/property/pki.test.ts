import assert from 'node:assert/strict'
import { randomBytes, X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { isHostname, parseHostname, type Hostname } from '../../src/kernel/hostname.ts'
import { der, integer, octetString, readValues, sequence, TAG, unsigned } from '../../src/pki/der.ts'
import { createAuthority } from '../../src/pki/pki.ts'
import { temporaryFolder } from '../support/audit.ts'
import { exec, hostname, testSystem, without } from '../support/pki.ts'

const label = fc.stringMatching(/^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$/)
const name = fc.array(label, { minLength: 1, maxLength: 5 }).map((labels) => labels.join('.'))
const host: fc.Arbitrary<Hostname> = fc
  .oneof(name, fc.ipV4(), fc.ipV6(), fc.domain())
  .map((text) => parseHostname(text))
  .filter(isHostname)

const check = (certificate: X509Certificate, other: string): boolean =>
  (isIP(other) === 0 ? certificate.checkHost(other) : certificate.checkIP(other)) !== undefined

test('the leaf of any host is read by Node, matches that host, and no other, no parent and no child of it', () => {
  const authority = createAuthority('s', testSystem())
  const root = new X509Certificate(authority.certificatePem)
  fc.assert(
    fc.property(host, host, (wanted, other) => {
      const certificate = new X509Certificate(authority.leafFor(wanted).certPem)
      assert.ok(certificate.verify(root.publicKey))
      assert.ok(check(certificate, wanted))
      assert.equal(certificate.subjectAltName?.split(', ').length, 1)
      if (other !== wanted) assert.ok(!check(certificate, other))
      if (isIP(wanted) === 0) {
        assert.ok(!check(certificate, `www.${wanted}`))
        const parent = wanted.slice(wanted.indexOf('.') + 1)
        if (parent !== wanted && parent.includes('.')) assert.ok(!check(certificate, parent))
      }
    }),
    { numRuns: 500 },
  )
})

test('serial numbers are positive, minimal, at most 20 bytes and never the same twice', () => {
  const serials = Array.from({ length: 500 }, (_, n) => {
    const authority = n % 10 === 0 ? createAuthority('s', testSystem()) : shared
    return new X509Certificate(authority.leafFor(hostname(`h${n}.test`)).certPem).serialNumber
  })
  assert.equal(new Set(serials).size, 500)
  for (const serial of serials) assert.match(serial, /^[4-7][0-9A-F]{31}$/)
})

const shared = createAuthority('s', testSystem())

for (const fill of [0x00, 0x7f, 0x80, 0xff]) {
  test(`randomness that is all ${fill.toString(16)} still gives a valid serial number`, () => {
    const system = { now: () => Date.now(), random: (bytes: number) => Buffer.alloc(bytes, fill) }
    const { certPem } = createAuthority('s', system).leafFor(hostname('a.test'))
    assert.match(new X509Certificate(certPem).serialNumber, /^[4-7][0-9A-F]{31}$/)
  })
}

test('any non-negative integer comes back from its DER, which is minimal', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const contents = readValues(unsigned(bytes))?.[0]?.contents ?? Buffer.alloc(0)
      assert.equal(BigInt(`0x0${contents.toString('hex')}`), BigInt(`0x0${Buffer.from(bytes).toString('hex')}`))
      const [first = 0, second = 0] = contents
      assert.ok(first < 0x80)
      if (contents.length > 1 && first === 0) assert.ok(second >= 0x80)
    }),
  )
})

test('no bytes make the reader throw, and what it reads it reads whole', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const values = readValues(Buffer.from(bytes))
      if (values !== undefined) assert.deepEqual(Buffer.concat(values.map(({ whole }) => whole)), Buffer.from(bytes))
    }),
  )
})

test('OpenSSL reads integers and lengths as they were written', { skip: without('openssl', 'version') }, async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'sample.der')
  const integers = fc.array(fc.oneof(fc.nat(), fc.constantFrom(0, 127, 128, 255, 256, 65_535, 65_536)), { minLength: 1, maxLength: 50 })
  const lengths = fc.array(fc.constantFrom(0, 1, 127, 128, 255, 256, 65_535, 65_536), { maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(integers, lengths, async (values, sizes) => {
      const strings = sizes.map((size) => octetString(randomBytes(size)))
      await writeFile(file, sequence(...values.map(integer), ...strings, der(TAG.null, Buffer.alloc(0))))
      const { stdout } = await exec('openssl', ['asn1parse', '-inform', 'DER', '-in', file], { maxBuffer: 10_000_000 })
      const read = [...stdout.matchAll(/INTEGER\s+:([0-9A-F]+)$/gm)].map(([, hex]) => Number.parseInt(hex ?? '', 16))
      assert.deepEqual(read, values)
      const read2 = [...stdout.matchAll(/l= *(\d+) prim: +OCTET STRING/g)].map(([, size]) => Number(size))
      assert.deepEqual(read2, sizes)
    }),
    { numRuns: 40 },
  )
})
