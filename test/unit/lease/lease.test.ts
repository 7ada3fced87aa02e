import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { test } from 'node:test'
import { decodeJwt, decodeProtectedHeader, jwtVerify, type JWK } from 'jose'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { leaseCheck, leaseDigest, openLeases } from '../../../src/lease/lease.ts'
import { CLAIMS, countingSystem, leaseSetting, outcome } from '../../support/leases.ts'

test('a lease says what was asked for and has no expiry', async () => {
  using setting = await leaseSetting()
  const claims = { ...CLAIMS, role: 'reviewer', methods: ['host.run'] }
  const { token, id } = await setting.leases.issue(claims)
  assert.deepEqual(setting.leases.verify(token, { audience: 'agent', session: CLAIMS.session }), { ...claims, id })
  assert.equal(decodeJwt(token).exp, undefined)
  assert.deepEqual(Object.keys(decodeProtectedHeader(token)), ['alg', 'typ', 'kid'])
})

test('jose verifies what we issue, with the public half alone', async () => {
  using setting = await leaseSetting()
  const { token } = await setting.leases.issue(CLAIMS)
  const { current } = JSON.parse(readFileSync(setting.keyFile, 'utf8')) as { current: JWK }
  const { d: _private, ...shown } = current
  const key = createPublicKey({ key: shown, format: 'jwk' })
  const { payload } = await jwtVerify(token, key, { algorithms: ['EdDSA'], audience: 'agent', issuer: 'sallyport' })
  assert.equal(payload['session'], CLAIMS.session)
})

test('sidecar and agent of a session have different leases', async () => {
  using setting = await leaseSetting()
  const agent = await setting.leases.issue(CLAIMS)
  const sidecar = await setting.leases.issue({ ...CLAIMS, audience: 'sidecar' })
  assert.notEqual(agent.id, sidecar.id)
  assert.equal(outcome(setting.leases, sidecar.token), 'audience')
  assert.equal(outcome(setting.leases, sidecar.token, { audience: 'sidecar' }), 'ok')
})

test('a lease is valid over a restart, and never again once its session has ended', async () => {
  using setting = await leaseSetting()
  const { token, short, id } = await setting.leases.issue(CLAIMS)
  const restarted = await setting.again()
  assert.equal(outcome(restarted, token), 'ok')
  assert.ok(restarted.verifyShort(short, CLAIMS.session))
  setting.ended.add(id)
  for (const leases of [setting.leases, restarted]) {
    assert.equal(outcome(leases, token), 'ended')
    assert.equal(leases.verifyShort(short, CLAIMS.session), false)
  }
})

test('a revoked session has no valid lease, gets no new one, and others keep theirs', async () => {
  using setting = await leaseSetting()
  const { leases } = setting
  const own = await leases.issue(CLAIMS)
  const other = await leases.issue({ ...CLAIMS, session: 'zzzzyyyyxxxxwwww' })
  leases.revoke(CLAIMS.session)
  assert.equal(outcome(leases, own.token), 'revoked')
  assert.equal(leases.verifyShort(own.short, CLAIMS.session), false)
  await assert.rejects(leases.issue(CLAIMS), { code: 'lease_invalid' })
  assert.equal(outcome(leases, other.token, { session: 'zzzzyyyyxxxxwwww' }), 'ok')
})

test('a lease for some methods is for no other; one that names none is for all', async () => {
  using setting = await leaseSetting()
  const narrow = await setting.leases.issue({ ...CLAIMS, methods: ['host.run'] })
  const none = await setting.leases.issue({ ...CLAIMS, methods: [] })
  const wide = await setting.leases.issue(CLAIMS)
  assert.equal(outcome(setting.leases, narrow.token, { method: 'host.run' }), 'ok')
  assert.equal(outcome(setting.leases, narrow.token, { method: 'secret.request' }), 'method')
  assert.equal(outcome(setting.leases, none.token, { method: 'host.run' }), 'method')
  assert.equal(outcome(setting.leases, wide.token, { method: 'secret.request' }), 'ok')
})

test('after a rotation a new key signs, and leases of the last keys stay valid; older ones do not', async () => {
  using setting = await leaseSetting()
  const { leases } = setting
  const issued = [await leases.issue(CLAIMS)]
  for (let i = 0; i <= LIMITS.leaseFormerKeysMax; i++) {
    await leases.rotateKey()
    issued.push(await leases.issue(CLAIMS))
  }
  for (const view of [leases, await setting.again()]) {
    const [first, ...rest] = issued.map(({ token }) => outcome(view, token))
    assert.equal(first, 'signature')
    assert.deepEqual(new Set(rest), new Set(['ok']))
    assert.deepEqual(
      issued.map(({ short }) => view.verifyShort(short, CLAIMS.session)),
      [false, ...rest.map(() => true)],
    )
  }
  assert.equal(new Set(issued.map(({ token }) => decodeProtectedHeader(token).kid)).size, issued.length)
})

test('a rotation with now leaves no earlier lease valid, and the private half of a former key is nowhere', async () => {
  using setting = await leaseSetting()
  const { token, short } = await setting.leases.issue(CLAIMS)
  const before = (JSON.parse(readFileSync(setting.keyFile, 'utf8')) as { current: { d: string } }).current.d
  await setting.leases.rotateKey()
  assert.equal(readFileSync(setting.keyFile, 'utf8').includes(before), false)
  await setting.leases.rotateKey({ now: true })
  for (const leases of [setting.leases, await setting.again()]) {
    assert.equal(outcome(leases, token), 'signature')
    assert.equal(leases.verifyShort(short, CLAIMS.session), false)
  }
  assert.equal(statSync(setting.keyFile).mode & 0o777, 0o600)
})

test('rotations at the same time come one after the other, and none is lost', async () => {
  using setting = await leaseSetting()
  await Promise.all([1, 2, 3].map(() => setting.leases.rotateKey()))
  const { former } = JSON.parse(readFileSync(setting.keyFile, 'utf8')) as { former: unknown[] }
  assert.equal(former.length, 3)
})

test('the short form is visible ASCII of 255 bytes at most, and is of its lease', async () => {
  using setting = await leaseSetting()
  const { token, short } = await setting.leases.issue({ ...CLAIMS, workspace: 'w'.repeat(256), agent: 'ü'.repeat(128) })
  assert.match(short, /^[\x21-\x7e]{32,255}$/)
  const bytes = Buffer.from(short.slice('sls1_'.length), 'base64url')
  assert.ok(bytes.includes(Buffer.from(leaseDigest(token), 'hex')), 'it holds the hash of the lease')
  assert.equal(leaseCheck([leaseDigest(short)])(short), true)
  assert.equal(leaseCheck([leaseDigest(short)])(token), false)
  assert.equal(leaseCheck([])(short), false)
})

test('claims that do not fit are refused when the lease is asked for', async () => {
  using setting = await leaseSetting()
  for (const claims of [
    { ...CLAIMS, session: '' },
    { ...CLAIMS, workspace: 'w'.repeat(LIMITS.leaseTextCharsMax + 1) },
    { ...CLAIMS, methods: Array.from({ length: LIMITS.leaseMethodsMax + 1 }, (_, index) => `m${index}`) },
    { ...CLAIMS, methods: Array.from({ length: LIMITS.leaseMethodsMax }, () => '\u{1f600}'.repeat(128)), role: '\u0001'.repeat(256) },
  ])
    await assert.rejects(setting.leases.issue(claims), { code: 'lease_invalid', message: 'the lease is not valid: malformed' })
})

test('two that start at once get the same key', async () => {
  using setting = await leaseSetting()
  const keyFile = `${setting.dir}/other.key`
  const isLive = (): boolean => true
  const all = await Promise.all(['a', 'b', 'c', 'd'].map((seed) => openLeases(keyFile, isLive, countingSystem(seed))))
  for (const issuer of all) {
    const { token } = await issuer.issue(CLAIMS)
    for (const leases of all) assert.equal(outcome(leases, token), 'ok')
  }
})
