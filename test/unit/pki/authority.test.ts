import assert from 'node:assert/strict'
import { createHash, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createAuthority } from '../../../src/pki/pki.ts'
import { hostname, testSystem } from '../../support/pki.ts'

const HOUR = 3_600_000
/** A whole second. */
const START = Date.parse('2026-03-01T12:00:00Z')
const API = hostname('api.example.com')
const nth = (n: number) => hostname(`h${n}.test`)

test('the authority has the session in its name, lives from an hour ago for its life, and may only sign leaves', () => {
  const authority = createAuthority('s-42', testSystem(START))
  const certificate = new X509Certificate(authority.certificatePem)
  assert.match(certificate.subject, /^O=Sallyport\nOU=[0-9a-f]{40}\nCN=Sallyport CA s-42$/)
  assert.equal(certificate.issuer, certificate.subject)
  assert.equal(Date.parse(certificate.validFrom), START - HOUR)
  assert.equal(Date.parse(certificate.validTo), START + LIMITS.caLifeMs)
  assert.equal(certificate.ca, true)
  assert.equal(authority.fingerprint, createHash('sha256').update(certificate.raw).digest('hex'))
})

test('two authorities of one session have different names, keys and fingerprints', () => {
  const [a, b] = [createAuthority('s', testSystem()), createAuthority('s', testSystem())]
  assert.notEqual(new X509Certificate(a.certificatePem).subject, new X509Certificate(b.certificatePem).subject)
  assert.notEqual(a.fingerprint, b.fingerprint)
})

test('a session id too long for a common name is cut at 64 bytes, and two that differ late still differ', () => {
  const names = ['x', 'y'].map((end) => {
    const { subject } = new X509Certificate(createAuthority(`${'ä'.repeat(60)}${end}`, testSystem()).certificatePem)
    return Buffer.from(subject.split('CN=')[1] ?? '')
  })
  for (const name of names) assert.ok(name.length <= 64)
  assert.notDeepEqual(names[0], names[1])
})

test('a leaf is for one name, is no authority, lives a day from an hour ago, and is signed by the authority', () => {
  const authority = createAuthority('s', testSystem(START))
  const leaf = authority.leafFor(API)
  const certificate = new X509Certificate(leaf.certPem)
  const root = new X509Certificate(authority.certificatePem)
  assert.equal(certificate.subject, 'CN=api.example.com')
  assert.equal(certificate.subjectAltName, 'DNS:api.example.com')
  assert.deepEqual(certificate.keyUsage, ['1.3.6.1.5.5.7.3.1'])
  assert.equal(certificate.ca, false)
  assert.ok(certificate.checkIssued(root) && certificate.verify(root.publicKey))
  assert.equal(Date.parse(certificate.validFrom), START - HOUR)
  assert.equal(Date.parse(certificate.validTo), START + LIMITS.leafLifeMs)
  assert.equal(leaf.renewAt, START + LIMITS.leafLifeMs / 2)
})

test('the chain is sent without the root', () => {
  assert.equal(
    createAuthority('s', testSystem())
      .leafFor(API)
      .certPem.match(/BEGIN CERTIFICATE/g)?.length,
    1,
  )
})

test('all leaves share one key, and it is not the key of the authority', () => {
  const authority = createAuthority('s', testSystem())
  const [a, b] = ['a.test', 'b.test'].map((name) => authority.leafFor(hostname(name)))
  assert.equal(a?.keyPem, b?.keyPem)
  const root = new X509Certificate(authority.certificatePem).publicKey
  assert.ok(!new X509Certificate(a?.certPem ?? '').publicKey.equals(root))
})

test('a leaf is the same one until half of its life has passed, then another', () => {
  const system = testSystem(START)
  const authority = createAuthority('s', system)
  const leaf = authority.leafFor(API)
  system.set(leaf.renewAt - 1)
  assert.equal(authority.leafFor(API), leaf)
  system.set(leaf.renewAt)
  const next = authority.leafFor(API)
  assert.notEqual(next.certPem, leaf.certPem)
  assert.equal(next.renewAt, leaf.renewAt + LIMITS.leafLifeMs / 2)
})

test('the cache of leaves is bounded, and the one that was used least recently goes', () => {
  const authority = createAuthority('s', testSystem())
  const [first, second] = [authority.leafFor(nth(0)), authority.leafFor(nth(1))]
  for (let n = 2; n < LIMITS.leafCacheMax; n += 1) authority.leafFor(nth(n))
  assert.equal(authority.leafFor(nth(0)), first)
  authority.leafFor(nth(LIMITS.leafCacheMax))
  assert.equal(authority.leafFor(nth(0)), first)
  assert.notEqual(authority.leafFor(nth(1)), second)
})

test('no leaf outlives its authority, and an expired authority signs no more', () => {
  const system = testSystem(START)
  const authority = createAuthority('s', system)
  system.set(START + LIMITS.caLifeMs - 2 * HOUR)
  const leaf = authority.leafFor(API)
  assert.equal(Date.parse(new X509Certificate(leaf.certPem).validTo), START + LIMITS.caLifeMs)
  assert.equal(leaf.renewAt, START + LIMITS.caLifeMs - HOUR)
  system.set(START + LIMITS.caLifeMs)
  assert.throws(() => authority.leafFor(hostname('other.test')), { code: 'ca_invalid' })
  assert.throws(() => authority.leafFor(API), { code: 'ca_invalid' })
})

test('a leaf never begins before its authority', () => {
  const system = testSystem(START)
  const authority = createAuthority('s', system)
  system.set(START - HOUR / 2)
  assert.equal(Date.parse(new X509Certificate(authority.leafFor(API).certPem).validFrom), START - HOUR)
})

test('certificates of 2049 that end in 2050 say so', () => {
  const start = Date.parse('2049-12-31T20:00:00Z')
  const authority = createAuthority('s', testSystem(start))
  for (const text of [authority.certificatePem, authority.leafFor(API).certPem]) {
    const { validFrom, validTo } = new X509Certificate(text)
    assert.equal(Date.parse(validFrom), start - HOUR)
    assert.equal(new Date(validTo).getUTCFullYear(), 2050)
  }
})
