import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { applyCredential, swapInHead, type Credential, type HeadSwap } from '../../../src/credential/credential.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import type { SwapPlace } from '../../../src/wire/credential.ts'
import { EVERYWHERE, misplacedHeads } from '../../support/misplaced.ts'

const CANARY = 'canary-7f/3a+b&c=d?e%f;g'
const VALUES: Record<string, string> = { TOKEN: CANARY, OTHER: 'other-canary', COLON: 'user:canary', LINE: 'canary\r\nx: y' }

function secretOf(name: string): Secret {
  return new Secret(name, VALUES[name] ?? '')
}

function apply(place: Credential['place'], head: { path?: string; headers?: string[] } = {}, also: Credential['also'] = []) {
  return applyCredential({ path: head.path ?? '/', headers: head.headers ?? [] }, { secret: 'TOKEN', place, also }, secretOf)
}

function codeOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    assert.ok(error instanceof SallyportError, String(error))
    assert.doesNotMatch(`${error.message} ${error.hint}`, /canary|SALLYPORT/)
    return error.code
  }
  return 'nothing'
}

describe('a credential that the gate writes', () => {
  for (const { place, value, written } of [
    { place: { kind: 'header', header: 'Authorization', prefix: 'Bearer ' }, value: 'v', written: ['Authorization', 'Bearer v'] },
    { place: { kind: 'header', header: 'X-Api-Key', prefix: '' }, value: 'v', written: ['X-Api-Key', 'v'] },
    // The example of RFC 7617 §2.
    {
      place: { kind: 'basic', username: 'Aladdin' },
      value: 'open sesame',
      written: ['Authorization', 'Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=='],
    },
    { place: { kind: 'basic', username: '' }, value: 'v', written: ['Authorization', 'Basic OnY='] },
    { place: { kind: 'basic', username: 'u' }, value: 'a:b', written: ['Authorization', 'Basic dTphOmI='] },
  ] as const) {
    test(`in ${JSON.stringify(place)} is ${written.join(': ')}`, () => {
      const head = applyCredential({ path: '/p?q', headers: [] }, { secret: 'S', place, also: [] }, (name) => new Secret(name, value))
      assert.deepEqual(head, { path: '/p?q', headers: written, sensitive: [written[0].toLowerCase()] })
    })
  }

  test('takes the place of what the agent sent there, in any spelling and number (I5)', () => {
    const own = ['Host', 'h', 'X-KEY', 'own', 'x_key', 'own', 'X-Key', 'own', 'X-Keys', 'stays']
    const { headers } = apply({ kind: 'header', header: 'X-Key', prefix: '' }, { headers: own })
    assert.deepEqual(headers, ['Host', 'h', 'X-Keys', 'stays', 'X-Key', CANARY])
  })

  test('may stand in further fields, with the same secret or another', () => {
    const also = [{ secret: 'OTHER', place: { kind: 'header', header: 'DD-APPLICATION-KEY', prefix: 'k=' } }] as const
    assert.deepEqual(apply({ kind: 'header', header: 'DD-API-KEY', prefix: '' }, { headers: ['dd_application_key', 'own'] }, also), {
      path: '/',
      headers: ['DD-API-KEY', CANARY, 'DD-APPLICATION-KEY', 'k=other-canary'],
      sensitive: ['dd-api-key', 'dd-application-key'],
    })
  })

  const ENCODED = 'key=canary-7f%2F3a%2Bb%26c%3Dd%3Fe%25f%3Bg'
  for (const { path, written, why } of [
    { path: '/p', written: `/p?${ENCODED}`, why: 'no query yet' },
    { path: '/p?', written: `/p?${ENCODED}`, why: 'an empty one' },
    { path: '/p?a=1&b', written: `/p?a=1&b&${ENCODED}`, why: 'behind others' },
    { path: '/p?a=%6b&&b=k%65y', written: `/p?a=%6b&&b=k%65y&${ENCODED}`, why: 'the others keep their bytes' },
    { path: '/p?key=own&a=1&key=own', written: `/p?a=1&${ENCODED}`, why: 'the agent’s own, twice' },
    { path: '/p?k%65y=own', written: `/p?${ENCODED}`, why: 'its own with an escape' },
    { path: '/p?KEY=own&%4BEY=own', written: `/p?${ENCODED}`, why: 'its own in another case' },
    { path: '/p?+key=own&key+=own&%20key=own', written: `/p?${ENCODED}`, why: 'its own with spaces that servers trim' },
    { path: '/p?key[]=own&key%5B0%5D=own&key', written: `/p?${ENCODED}`, why: 'its own as a list, and without a value' },
    { path: '/p?key%00x=own', written: `/p?${ENCODED}`, why: 'its own cut by a NUL' },
    { path: '/p?a=1;key=own;b=2', written: `/p?a=1;b=2&${ENCODED}`, why: 'its own behind a semicolon' },
    { path: '/p?key=a?key=own', written: `/p?${ENCODED}`, why: 'a question mark in the query is no second query' },
    { path: '/p?monkey=1&keys=2&x=key', written: `/p?monkey=1&keys=2&x=key&${ENCODED}`, why: 'names that only look like it stay' },
  ]) {
    test(`in the query of ${path} is alone there: ${why} (I5)`, () => {
      assert.deepEqual(apply({ kind: 'query', name: 'key' }, { path }), { path: written, headers: [], sensitive: [] })
    })
  }

  test('in a parameter with brackets leaves its siblings alone', () => {
    const { path } = apply({ kind: 'query', name: 'user[token]' }, { path: '/?user[name]=n&user[token]=own&user%5Btoken%5D=own' })
    assert.match(path, /^\/\?user\[name\]=n&user%5Btoken%5D=canary[^&]*$/)
  })

  test('is not written into a head by kinds that are written elsewhere', () => {
    for (const place of [
      { kind: 'body', at: { kind: 'form', field: 'f' } },
      { kind: 'placeholder', name: 'N', shape: 'jwt', places: [{ kind: 'basic' }] },
      { kind: 'aws', region: 'r', service: 's', accessKeyId: 'A' },
    ] as const)
      assert.deepEqual(apply(place, { headers: ['a', 'b'] }), { path: '/', headers: ['a', 'b'], sensitive: [] })
  })

  test('that would end its line is not written, and is in no error (I1)', () => {
    const write = (place: Credential['place']) => (): unknown =>
      applyCredential({ path: '/', headers: [] }, { secret: 'LINE', place, also: [] }, secretOf)
    assert.equal(codeOf(write({ kind: 'header', header: 'X', prefix: '' })), 'secret_unavailable')
    assert.equal(codeOf(write({ kind: 'query', name: 'q' })), 'secret_unavailable')
  })

  test('with basic is read back as the user’s name and the secret, whatever the secret', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[!-9;-~]{0,20}$/), fc.stringMatching(/^[!-~]([ -~]{0,80}[!-~])?$/), (username, value) => {
        const credential = { secret: 'T', place: { kind: 'basic', username }, also: [] } as const
        const { headers } = applyCredential({ path: '/', headers: [] }, credential, (name) => new Secret(name, value))
        assert.equal(Buffer.from(headers[1]?.replace(/^Basic /, '') ?? '', 'base64').toString(), `${username}:${value}`)
      }),
    )
  })
})

const P = 'ghp_SALLYPORT7dTzKq0aXw41RmBvNc82LsYhJe6f'
const base64 = (text: string): string => Buffer.from(text).toString('base64')

function swap(head: { path?: string; headers?: string[] }, places: readonly SwapPlace[] = EVERYWHERE, secret = 'TOKEN', placeholder = P) {
  const one: HeadSwap = { placeholder, places, secret: secretOf(secret) }
  return swapInHead({ path: head.path ?? '/', headers: head.headers ?? [] }, [one])
}

describe('a placeholder that is swapped', () => {
  for (const { headers, written, why } of [
    { headers: ['Authorization', `token ${P}`], written: ['Authorization', `token ${CANARY}`], why: 'any scheme' },
    { headers: ['authorization', P], written: ['authorization', CANARY], why: 'no scheme at all' },
    { headers: ['X-Vault-Token', `a ${P},${P}`], written: ['X-Vault-Token', `a ${CANARY},${CANARY}`], why: 'twice in longer text' },
    { headers: ['X-Api-Key', P, 'X-Api-Key', P], written: ['X-Api-Key', CANARY, 'X-Api-Key', CANARY], why: 'two fields of one name' },
  ]) {
    test(`in ${headers.join(': ')} becomes the secret: ${why}`, () => {
      assert.deepEqual(swap({ headers }), { path: '/', headers: written, sensitive: [headers[0]?.toLowerCase()] })
    })
  }

  for (const { value, written, why } of [
    { value: `Basic ${base64(`me:${P}`)}`, written: `me:${CANARY}`, why: 'the password' },
    { value: `Basic ${base64(`${P}:`)}`, written: `${CANARY}:`, why: 'the user, as Stripe has it' },
    { value: `Basic ${base64(P)}`, written: CANARY, why: 'no colon' },
    { value: `bAsIc \t ${base64(`me:${P}`)} `, written: `me:${CANARY}`, why: 'case and space' },
    { value: `Basic ${base64(`me:${P}`).replace(/=+$/, '')}`, written: `me:${CANARY}`, why: 'no padding' },
    {
      value: `Basic ${base64(`\xff?>~me:${P}`).replaceAll('+', '-').replaceAll('/', '_')}`,
      written: `\xff?>~me:${CANARY}`,
      why: 'url-safe letters',
    },
    { value: `Basic ${base64(`${P}:${P}`)}`, written: `${CANARY}:${CANARY}`, why: 'user and password' },
  ]) {
    test(`in basic credentials is swapped inside the base64, which is then canonical: ${why}`, () => {
      const { headers, sensitive } = swap({ headers: ['Authorization', value] }, [{ kind: 'basic' }])
      assert.deepEqual(headers, ['Authorization', `Basic ${base64(written)}`])
      assert.deepEqual(sensitive, ['authorization'])
    })
  }

  const IN_PATH = 'canary-7f%2F3a%2Bb%26c%3Dd%3Fe%25f%3Bg'
  for (const { path, written, why } of [
    { path: `/bot${P}/sendMessage`, written: `/bot${IN_PATH}/sendMessage`, why: 'a segment, its structure kept' },
    { path: `/%2f/${P.replace('g', '%67')}/x`, written: `/%2f/${IN_PATH}/x`, why: 'an escape of lower-case hex, the rest as it was' },
    { path: `/${P.replace('_', '%5F')}${P}`, written: `/${IN_PATH}${IN_PATH}`, why: 'twice, once escaped' },
    { path: `/x?a=%41&key=${P}&b=+`, written: `/x?a=%41&key=${IN_PATH}&b=+`, why: 'a parameter' },
    {
      path: `/x?k%65y=%zz${P.replace('p', '%70')}%4`,
      written: `/x?k%65y=%zz${IN_PATH}%4`,
      why: 'a name with an escape, broken ones beside',
    },
  ]) {
    test(`in ${path.replaceAll(P, 'P')} becomes the secret: ${why}`, () => {
      assert.deepEqual(swap({ path }), { path: written, headers: [], sensitive: [] })
    })
  }

  test('with a colon in the path leaves one, as bot tokens are expected', () => {
    assert.equal(swap({ path: `/bot${P}/getMe` }, EVERYWHERE, 'COLON').path, '/botuser:canary/getMe')
  })

  test('that is user and password in one is swapped for a secret that is both', () => {
    const both = '123456789:SALLYPORTabcdefghijkl'
    const head = { headers: ['Authorization', `Basic ${base64(both)}`] }
    assert.deepEqual(swap(head, [{ kind: 'basic' }], 'COLON', both).headers, ['Authorization', `Basic ${base64('user:canary')}`])
    assert.equal(
      codeOf(() => swap(head, [{ kind: 'basic' }], 'OTHER', both)),
      'placeholder_misplaced',
    )
  })

  test('as the user’s name is not swapped for a secret that would end it', () => {
    const headers = ['Authorization', `Basic ${base64(`${P}:x`)}`]
    assert.equal(
      codeOf(() => swap({ headers }, EVERYWHERE, 'COLON')),
      'placeholder_misplaced',
    )
  })

  test('is not swapped for a value that would end its line (I1)', () => {
    for (const head of [{ headers: ['X-Api-Key', P] }, { path: `/${P}` }])
      assert.equal(
        codeOf(() => swap(head, EVERYWHERE, 'LINE')),
        'secret_unavailable',
      )
  })

  test('takes "$&" in the secret for what it is', () => {
    const one = { placeholder: P, places: EVERYWHERE, secret: new Secret('T', "$&$1$'canary") }
    const { headers } = swapInHead({ path: '/', headers: ['X-Api-Key', P] }, [one])
    assert.deepEqual(headers, ['X-Api-Key', "$&$1$'canary"])
  })

  test('does not keep another one from being swapped for its own', () => {
    const Q = 'glpat-SALLYPORTq8w7e6r5t4y3'
    const { headers } = swapInHead({ path: '/', headers: ['X-Api-Key', `${P}/${Q}`] }, [
      { placeholder: P, places: EVERYWHERE, secret: secretOf('TOKEN') },
      { placeholder: Q, places: EVERYWHERE, secret: secretOf('OTHER') },
    ])
    assert.deepEqual(headers, ['X-Api-Key', `${CANARY}/other-canary`])
  })
})

const MISPLACED = misplacedHeads(P)

for (const { why, path, headers, places } of MISPLACED) {
  test(`I23: a placeholder in ${why} is not swapped, and nothing is sent in its place`, () => {
    const head = { ...(path !== undefined && { path }), ...(headers && { headers }) }
    assert.equal(
      codeOf(() => swap(head, places)),
      'placeholder_misplaced',
    )
  })
}
