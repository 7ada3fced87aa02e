import assert from 'node:assert/strict'
import { createHmac, createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { exportJWK, jwtVerify, SignJWT } from 'jose'
import { LIMITS } from '../../src/kernel/limits.ts'
import { CLAIMS, leaseSetting, outcome, type LeaseSetting } from '../support/leases.ts'

const part = (value: unknown): string => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const headOf = (token: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()) as never
const bodyOf = (token: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as never
const OTHER = 'zzzzyyyyxxxxwwww'

test('I28 a stolen lease is worth nothing on the channel of another session, nor for another use', async () => {
  using setting = await leaseSetting()
  const { token, short } = await setting.leases.issue(CLAIMS)
  const sidecar = await setting.leases.issue({ ...CLAIMS, audience: 'sidecar' })
  assert.equal(outcome(setting.leases, token, { session: OTHER }), 'session')
  assert.equal(outcome(setting.leases, token, { audience: 'sidecar' }), 'audience')
  assert.equal(outcome(setting.leases, sidecar.token), 'audience')
  assert.equal(setting.leases.verifyShort(short, OTHER), false)
  assert.equal(setting.leases.verifyShort(sidecar.short, CLAIMS.session), false, "the sidecar's is not the agent's")
})

test('I28 every byte of a lease counts: flipped, dropped, doubled or put elsewhere it is no lease', async () => {
  using setting = await leaseSetting()
  const { token, short } = await setting.leases.issue(CLAIMS)
  const isShort = (text: string): boolean => setting.leases.verifyShort(text, CLAIMS.session)
  for (const [original, isValid] of [
    [token, (text: string) => outcome(setting.leases, text) === 'ok'],
    [short, isShort],
  ] as const) {
    assert.equal(isValid(original), true)
    for (let at = 0; at < original.length; at++) {
      const before = original.slice(0, at)
      const after = original.slice(at + 1)
      // Every letter of the alphabet: the last of a part has bits that decode to nothing.
      for (const letter of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n')
        if (letter !== original[at]) assert.equal(isValid(`${before}${letter}${after}`), false, `${at} ${letter}`)
      for (let bit = 0; bit < 8; bit++)
        assert.equal(isValid(`${before}${String.fromCharCode(original.charCodeAt(at) ^ (1 << bit))}${after}`), false, `${at} bit ${bit}`)
      assert.equal(isValid(`${before}${after}`), false)
      assert.equal(isValid(`${before}${original[at] ?? ''}${original[at] ?? ''}${after}`), false)
    }
    for (const text of [` ${original}`, `${original}\n`, `${original}=`, `${original}.`, `${original}\0`, original.toUpperCase()])
      assert.equal(isValid(text), false, JSON.stringify(text))
  }
})

/** Whoever signs it and however it is said: none of these is one of ours. */
const FORGERIES: Readonly<Record<string, (setting: LeaseSetting, token: string) => Promise<{ token: string; says: string }>>> = {
  'alg none without a signature': async (_, token) => ({
    token: `${part({ ...headOf(token), alg: 'none' })}.${part(bodyOf(token))}.`,
    says: 'algorithm',
  }),
  'alg nOnE': async (_, token) => ({ token: `${part({ ...headOf(token), alg: 'nOnE' })}.${part(bodyOf(token))}.`, says: 'algorithm' }),
  'alg none with the old signature': async (_, token) => ({
    token: `${part({ ...headOf(token), alg: 'none' })}.${part(bodyOf(token))}.${token.split('.')[2] ?? ''}`,
    says: 'algorithm',
  }),
  'the header as it is and no signature': async (_, token) => ({ token: `${token.split('.').slice(0, 2).join('.')}.`, says: 'malformed' }),
  'HS256 with the public key as secret': async ({ key }, token) => {
    const { jwk } = await key()
    const secret = Buffer.from(jwk.x ?? '', 'base64url')
    const input = `${part({ ...headOf(token), alg: 'HS256' })}.${part(bodyOf(token))}`
    return { token: `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`, says: 'algorithm' }
  },
  'HS256 with the public key as PEM for secret': async ({ key }, token) => {
    const { d: _private, ...jwk } = (await key()).jwk
    const secret = createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
    const input = `${part({ ...headOf(token), alg: 'HS256' })}.${part(bodyOf(token))}`
    return { token: `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`, says: 'algorithm' }
  },
  'EdDSA in the header and an HMAC behind it': async ({ key }, token) => {
    const { jwk } = await key()
    const input = token.split('.').slice(0, 2).join('.')
    return {
      token: `${input}.${createHmac('sha512', Buffer.from(jwk.x ?? '', 'base64url'))
        .update(input)
        .digest('base64url')}`,
      says: 'signature',
    }
  },
  'a foreign key': async (_, token) => {
    const { privateKey } = generateKeyPairSync('ed25519')
    const input = token.split('.').slice(0, 2).join('.')
    return { token: `${input}.${sign(null, Buffer.from(input), privateKey).toString('base64url')}`, says: 'signature' }
  },
  'a foreign key under its own kid': async (_, token) => {
    const { privateKey } = generateKeyPairSync('ed25519')
    return {
      token: await new SignJWT(bodyOf(token)).setProtectedHeader({ alg: 'EdDSA', typ: 'JWT', kid: 'mine' }).sign(privateKey),
      says: 'signature',
    }
  },
  'a foreign key as jwk in the header': async (_, token) => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const header = { ...headOf(token), alg: 'EdDSA', jwk: await exportJWK(publicKey) }
    return { token: await new SignJWT(bodyOf(token)).setProtectedHeader(header).sign(privateKey), says: 'malformed' }
  },
  RS256: async (_, token) => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    return {
      token: await new SignJWT(bodyOf(token)).setProtectedHeader({ ...headOf(token), alg: 'RS256' }).sign(privateKey),
      says: 'algorithm',
    }
  },
  'a signature of zeros': async (_, token) => ({
    token: `${token.split('.').slice(0, 2).join('.')}.${Buffer.alloc(64).toString('base64url')}`,
    says: 'signature',
  }),
  'the short form as long one': async ({ leases }) => ({ token: (await leases.issue(CLAIMS)).short, says: 'malformed' }),
  'the parts of two leases': async ({ leases }, token) => {
    const { token: other } = await leases.issue({ ...CLAIMS, session: OTHER })
    const [head, , signature] = other.split('.')
    return { token: `${head ?? ''}.${token.split('.')[1] ?? ''}.${signature ?? ''}`, says: 'signature' }
  },
  'JWE, five parts': async (_, token) => ({ token: `${token}.e30.e30`, says: 'malformed' }),
  'JSON serialization': async (_, token) => {
    const [head, body, signature] = token.split('.')
    return { token: JSON.stringify({ protected: head, payload: body, signature }), says: 'malformed' }
  },
}

for (const [name, forge] of Object.entries(FORGERIES)) {
  test(`I28 forged, ${name}: refused, and jose refuses it too`, async () => {
    using setting = await leaseSetting()
    const { token } = await setting.leases.issue(CLAIMS)
    const forged = await forge(setting, token)
    assert.equal(outcome(setting.leases, forged.token), forged.says)
    assert.equal(setting.leases.verifyShort(forged.token, OTHER), false)
    const { d: _private, ...jwk } = (await setting.key()).jwk
    await assert.rejects(jwtVerify(forged.token, createPublicKey({ key: jwk, format: 'jwk' }), { algorithms: ['EdDSA'] }))
  })
}

/** Signed with our own key: no accident of form may be read in two ways, and nothing in a header is ever trusted. */
test('I28 a header that names a key, a place or an extension is refused, and nothing is fetched', async () => {
  using setting = await leaseSetting()
  const { token } = await setting.leases.issue(CLAIMS)
  const { key, kid } = await setting.key()
  let fetched = 0
  const server = createServer((_, response) => {
    fetched += 1
    response.end('{"keys":[]}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`
  const base = { alg: 'EdDSA', typ: 'JWT', kid }
  const headers: Record<string, unknown>[] = [
    { ...base, jku: url },
    { ...base, x5u: url },
    { ...base, x5c: ['MIIB'] },
    { ...base, x5t: 'a' },
    { ...base, b64: true, crit: ['b64'] },
    { ...base, crit: ['exp'], exp: 1 },
    { ...base, cty: 'JWT' },
    { ...base, kid: '../../../etc/passwd' },
    { ...base, kid: `${kid}' OR 1=1` },
    { ...base, kid: url },
    { ...base, kid: '' },
    { ...base, kid: null },
    { alg: 'EdDSA', typ: 'JWT' },
    { alg: 'EdDSA', kid },
    { typ: 'JWT', alg: 'EdDSA', kid },
    { ...base, typ: 'at+jwt' },
    { ...base, alg: 'Ed25519' },
    { ...base, alg: ['EdDSA'] },
  ]
  const body = token.split('.')[1] ?? ''
  for (const header of headers) {
    const input = `${part(header)}.${body}`
    const signed = `${input}.${Buffer.from(await crypto.subtle.sign('Ed25519', key, Buffer.from(input))).toString('base64url')}`
    assert.notEqual(outcome(setting.leases, signed), 'ok', JSON.stringify(header))
  }
  assert.equal(fetched, 0)
  server.close()
})

test('I28 what our key signed is refused all the same where it could be read in two ways', async () => {
  using setting = await leaseSetting()
  const { token } = await setting.leases.issue(CLAIMS)
  const { key } = await setting.key()
  const head = token.split('.')[0] ?? ''
  const body = JSON.stringify(bodyOf(token))
  const claims = bodyOf(token)
  const payloads = [
    body.replace('{', `{"session":"${OTHER}",`),
    body.replace(/\}$/, `,"session":"${CLAIMS.session}"}`),
    body.replace(/\}$/, ',"exp":1}'),
    body.replace('{', '{"__proto__":{"session":"x"},'),
    body.replace('"aud":"agent"', '"aud":["agent","sidecar"]'),
    body.replace('"aud":"agent"', '"aud":"Agent"'),
    body.replace('"session"', '"\\u0073ession"'),
    ` ${body}`,
    `${body}\n`,
    `[${body}]`,
    `"${CLAIMS.session}"`,
    'null',
    '',
    '{}',
    JSON.stringify(Object.fromEntries(Object.entries(claims).toReversed())),
    JSON.stringify({ ...claims, jti: 'x' }),
    JSON.stringify({ ...claims, iat: -1 }),
    JSON.stringify({ ...claims, methods: 'host.run' }),
    `${body.slice(0, -1)},"a":${'['.repeat(2_000)}${']'.repeat(2_000)}}`,
  ]
  for (const payload of payloads) {
    const input = `${head}.${part(payload)}`
    const signed = `${input}.${Buffer.from(await crypto.subtle.sign('Ed25519', key, Buffer.from(input))).toString('base64url')}`
    assert.equal(outcome(setting.leases, signed), 'malformed', payload.slice(0, 80))
  }
  // The same way of signing, with the payload as it is: what is refused above is refused for what it says.
  const input = `${head}.${part(body)}`
  assert.equal(
    outcome(setting.leases, `${input}.${Buffer.from(await crypto.subtle.sign('Ed25519', key, Buffer.from(input))).toString('base64url')}`),
    'ok',
  )
})

test('I28 whatever else is sent for a lease is malformed, whatever its length', async () => {
  using setting = await leaseSetting()
  const { token, short } = await setting.leases.issue(CLAIMS)
  const huge = 'A'.repeat(16 * 1024 * 1024)
  for (const text of [
    '',
    '.',
    '..',
    '...',
    '\0',
    'null',
    'undefined',
    `Bearer ${token}`,
    `${'A'.repeat(LIMITS.leaseCharsMax)}.${token}`,
    huge,
    `${huge}.${huge}.${huge}`,
    `${token.split('.')[0] ?? ''}.${huge}.${token.split('.')[2] ?? ''}`,
    'ſеѕѕіоn.\u202e.\u{1f600}',
    token.replace('.', '\uff0e'),
    token.normalize('NFKD').replace('a', '\u0430'),
    `${part('{"alg":"EdDSA"')}.e30.AA`,
    `${part('[]')}.e30.AA`,
    `${Buffer.from([0xff, 0xfe]).toString('base64url')}.e30.AA`,
  ]) {
    assert.equal(outcome(setting.leases, text), 'malformed', text.slice(0, 40))
    assert.equal(setting.leases.verifyShort(text, CLAIMS.session), false)
    assert.equal(setting.leases.verifyShort(`sls1_${text}`, CLAIMS.session), false)
  }
  assert.equal(setting.leases.verifyShort(short, `${CLAIMS.session}\nsls1_`), false)
})

test('I28 a revoked or ended session’s lease is refused, also by the key that has been rotated away', async () => {
  using setting = await leaseSetting()
  const first = await setting.leases.issue(CLAIMS)
  const second = await setting.leases.issue({ ...CLAIMS, session: OTHER })
  await setting.leases.rotateKey()
  setting.leases.revoke(CLAIMS.session)
  setting.ended.add(second.id)
  assert.equal(outcome(setting.leases, first.token), 'revoked')
  assert.equal(outcome(setting.leases, second.token, { session: OTHER }), 'ended')
  // The row of the session knows of a lease, not of all leases: an id that it does not have is as good as none.
  const third = await setting.leases.issue({ ...CLAIMS, session: OTHER })
  assert.equal(outcome(setting.leases, third.token, { session: OTHER }), 'ok')
})
