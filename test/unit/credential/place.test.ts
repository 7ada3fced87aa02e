import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fieldOf, valueFor } from '../../../src/credential/credential.ts'
import { Secret } from '../../../src/kernel/secret.ts'

for (const { place, value, written } of [
  { place: { kind: 'header', header: 'Authorization', prefix: 'Bearer ' }, value: 'v', written: ['Authorization', 'Bearer v'] },
  { place: { kind: 'header', header: 'X-Api-Key', prefix: '' }, value: 'v', written: ['X-Api-Key', 'v'] },
  // The example of RFC 7617 §2.
  { place: { kind: 'basic', username: 'Aladdin' }, value: 'open sesame', written: ['Authorization', 'Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=='] },
  { place: { kind: 'basic', username: '' }, value: 'v', written: ['Authorization', 'Basic OnY='] },
  { place: { kind: 'basic', username: 'u' }, value: 'a:b', written: ['Authorization', 'Basic dTphOmI='] },
] as const) {
  test(`a credential in ${JSON.stringify(place)} is written as ${written.join(': ')}`, () => {
    assert.deepEqual([fieldOf(place), valueFor(place, new Secret('TOKEN', value))], written)
  })
}

test('basic credentials are read back as the user name and the secret, whatever the secret', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[!-9;-~]{0,20}$/), fc.stringMatching(/^[ -~]{1,80}$/), (username, value) => {
      const text = valueFor({ kind: 'basic', username }, new Secret('TOKEN', value))
      assert.equal(Buffer.from(text.replace(/^Basic /, ''), 'base64').toString(), `${username}:${value}`)
    }),
  )
})
