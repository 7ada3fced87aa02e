import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createPlaceholders, describePlace, isListed, type FoundPlace } from '../../../src/credential/credential.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { misplacedHeads } from '../../support/misplaced.ts'

const SHAPES = {
  GH_TOKEN: 'ghp_<alnum:36>',
  AWS_ACCESS_KEY_ID: 'AKIA<upper:16>',
  BOT: '<digits:9>:<base64url:35>',
  TWILIO: 'AC<hex:32>',
  SUPABASE: 'jwt',
  TWO: 'x_<alnum:15>_<alnum:16>',
}
const DEFINITIONS = Object.entries(SHAPES).map(([name, shape]) => ({ name, shape }))
const base64 = (text: string): string => Buffer.from(text).toString('base64')

function valueOf(name: string, shape: string, seed = 'seed'): string {
  return createPlaceholders([{ name, shape }], seed).values[name] ?? ''
}

describe('the value of a placeholder', () => {
  for (const { shape, form } of [
    { shape: SHAPES.GH_TOKEN, form: /^ghp_SALLYPORT[A-Za-z0-9]{27}$/ },
    { shape: SHAPES.AWS_ACCESS_KEY_ID, form: /^AKIASALLYPORT[A-Z2-7]{7}$/ },
    { shape: SHAPES.BOT, form: /^\d{9}:SALLYPORT[\w-]{26}$/ },
    { shape: SHAPES.TWILIO, form: /^AC[0-9a-f]{32}$/ },
    { shape: SHAPES.TWO, form: /^x_[A-Za-z0-9]{15}_SALLYPORT[A-Za-z0-9]{7}$/ },
    { shape: '<alnum:20><alnum:20>', form: /^SALLYPORT[A-Za-z0-9]{31}$/ },
  ])
    test(`of the shape ${shape} has its form, and says whose it is where there is room`, () => assert.match(valueOf('N', shape), form))

  test('that is a token is one that clients can decode, and does not expire in our days', () => {
    const [header = '', payload = '', signature = '', ...more] = valueOf('N', 'jwt').split('.')
    assert.deepEqual(more, [])
    assert.deepEqual(JSON.parse(Buffer.from(header, 'base64url').toString()), { alg: 'HS256', typ: 'JWT' })
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { iss: string; exp: number }
    assert.equal(claims.iss, 'SALLYPORT')
    assert.ok(claims.exp > Date.UTC(2090, 0) / 1000)
    assert.equal(Buffer.from(signature, 'base64url').length, 32)
  })

  test('is the same for the same seed, name and shape, whatever else there is', () => {
    assert.equal(valueOf('GH_TOKEN', SHAPES.GH_TOKEN), createPlaceholders(DEFINITIONS.toReversed(), 'seed').values['GH_TOKEN'])
  })

  test('is another one for another seed, name or shape', () => {
    const of = new Set<string>()
    for (const seed of ['a', 'b'])
      for (const name of ['N', 'M']) for (const shape of ['<hex:32>', 'x<hex:32>']) of.add(valueOf(name, shape, seed))
    assert.equal(of.size, 8)
  })

  test('is none for a text that is no shape', () => {
    assert.throws(
      () => valueOf('N', '<alnum:4>'),
      (error) => error instanceof SallyportError && error.code === 'policy_invalid',
    )
  })
})

const PLACEHOLDERS = createPlaceholders(DEFINITIONS, 'seed-8')
const P = PLACEHOLDERS.values['GH_TOKEN'] ?? ''

function find(headers: string[], path = '/'): readonly { name: string; place: FoundPlace }[] {
  return PLACEHOLDERS.find({ path, headers })
}

describe('a placeholder is found', () => {
  for (const { headers, path, place, why } of [
    { headers: ['authorization', `Bearer ${P}`], place: { kind: 'header', header: 'authorization' }, why: 'in a header' },
    { headers: ['X_Api_Key', `${P}${P}`], place: { kind: 'header', header: 'X_Api_Key' }, why: 'once, where it stands twice' },
    { headers: ['Authorization', `Basic ${P}`], place: { kind: 'header', header: 'Authorization' }, why: 'as the base64 itself' },
    { headers: ['Authorization', `basic  ${base64(`u:${P}`).replace(/=+$/, '')}`], place: { kind: 'basic' }, why: 'in basic credentials' },
    { path: `/a/b${P.replace('g', '%67')}?x`, place: { kind: 'path' }, why: 'in the path, escaped' },
    { path: `/?a+b%20c=${P}`, place: { kind: 'query', name: 'a b c' }, why: 'in a parameter, its name decoded' },
    { path: `/?a=1&=${P}`, place: { kind: 'query', name: '' }, why: 'in a parameter without a name' },
    { path: `/?a=?b=${P}`, place: { kind: 'query', name: 'a' }, why: 'in a parameter that looks like another one' },
  ] as { headers?: string[]; path?: string; place: FoundPlace; why: string }[])
    test(why, () => assert.deepEqual(find(headers ?? [], path), [{ name: 'GH_TOKEN', place }]))

  test('in every place where it stands, and each by its name', () => {
    const bot = PLACEHOLDERS.values['BOT'] ?? ''
    const found = find(['X-Api-Key', `${P} ${bot}`, 'Referer', P, 'x-api-key', P.toLowerCase()], `/bot${bot}/x`)
    assert.deepEqual(
      found.map(({ name, place }) => [name, place.kind === 'header' ? place.header : place.kind]),
      [
        ['GH_TOKEN', 'X-Api-Key'],
        ['BOT', 'X-Api-Key'],
        ['GH_TOKEN', 'Referer'],
        ['GH_TOKEN', 'elsewhere'],
        ['BOT', 'path'],
      ],
    )
  })

  test('in the name of a host, where case is lost', () => {
    const placeholders = createPlaceholders([{ name: 'N', shape: 'A-<alnum:20>' }], 's')
    assert.equal(placeholders.inHostname(`x${placeholders.values['N']?.toLowerCase()}.example.com`), 'N')
    assert.equal(placeholders.inHostname('sallyport.example.com'), undefined)
  })

  test('where a percent sign in front takes its first letters for an escape, and it is in no listed place', () => {
    const bot = PLACEHOLDERS.values['BOT'] ?? ''
    const found = find(['X-Api-Key', bot], `/?key=%${bot}`)
    assert.deepEqual(
      found.map(({ place }) => place.kind),
      ['header', 'elsewhere'],
    )
  })

  for (const { why, path, headers, places } of misplacedHeads(P))
    test(`I23: in ${why}, and in no listed place alone`, () => {
      const found = find(headers, path)
      assert.ok(found.length > 0)
      assert.ok(found.every(({ name }) => name === 'GH_TOKEN'))
      assert.ok(found.some(({ place }) => !isListed(places, place)))
    })
})

test('nothing is found where there is no placeholder, nor where there are none', () => {
  const headers = ['Authorization', `Basic ${base64('me:ghp_another')}`, 'X-Api-Key', 'SALLYPORT', 'Cookie', 'a=%%%25']
  assert.deepEqual(find(headers, '/SALLYPORT?ghp_=%zz;&='), [])
  const none = createPlaceholders([], 'seed')
  assert.equal(none.isEmpty, true)
  assert.deepEqual(none.find({ path: `/${P}`, headers }), [])
  assert.equal(none.inHostname(P), undefined)
})

test('a place is told in visible characters, whatever the agent named it', () => {
  const [found] = find([], `/?a%0d%0aX:%1b=${P}`)
  assert.equal(found && describePlace(found.place), 'the query parameter a??X:?')
})

test('a listed header without a name is any that services take credentials in, and no other', () => {
  for (const header of ['Authorization', 'x-api-key', 'X_API_KEY', 'DD-API-KEY', 'X-Vault-Token', 'apikey'])
    assert.ok(isListed([{ kind: 'header' }], { kind: 'header', header }), header)
  for (const header of ['Cookie', 'Referer', 'User-Agent', 'Host', 'X-Forwarded-For'])
    assert.ok(!isListed([{ kind: 'header' }], { kind: 'header', header }), header)
  assert.ok(isListed([{ kind: 'header', header: 'Cookie' }], { kind: 'header', header: 'cookie' }))
  assert.ok(!isListed([{ kind: 'body', at: { kind: 'form', field: 'f' } }], { kind: 'path' }))
})
