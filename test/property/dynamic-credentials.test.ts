import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { readAwsSignature } from '../../src/credential/aws-signature.ts'
import { createTokenExchanges } from '../../src/credential/token-exchange.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { exchangeAt } from '../support/token-server.ts'

test('whatever a token server answers, it is a token that fits in a header or a coded error without a word of it', async () => {
  const field = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.integer(),
    fc.constantFrom('Bearer', 'bearer', 'visible-token', 3600, '60', null),
    fc.jsonValue(),
  )
  const grant = fc.record(
    {
      access_token: fc.oneof(fc.constant('visible-token'), field),
      token_type: fc.oneof(fc.constant('Bearer'), field),
      expires_in: fc.oneof(fc.constant(60), field),
      refresh_token: field,
      error: field,
    },
    { requiredKeys: ['access_token', 'token_type'] },
  )
  const body = fc.oneof(
    { arbitrary: grant.map((value) => JSON.stringify(value)), weight: 4 },
    { arbitrary: fc.json(), weight: 1 },
    { arbitrary: fc.string({ unit: 'binary' }), weight: 1 },
  )
  const answer = fc.record({
    status: fc.constantFrom(200, 200, 400, 401, 500, 302),
    contentType: fc.constantFrom('application/json', 'text/html', undefined),
    body,
  })
  let tokens = 0
  await fc.assert(
    fc.asyncProperty(answer, async ({ status, contentType, body: text }) => {
      const post = (): Promise<{ status: number; contentType: string | undefined; body: Buffer }> =>
        Promise.resolve({ status, contentType, body: Buffer.from(text) })
      const exchanges = createTokenExchanges(post, { now: () => 0 })
      try {
        const token = await exchanges.get('api', exchangeAt('https://auth.example.com/'), { secret: new Secret('CLIENT', 'password') })
        assert.match(token.reveal(), /^[\x21-\x7e]{6,}$/)
        assert.ok(text.includes(JSON.stringify(token.reveal())))
        assert.ok(status === 200 && contentType === 'application/json')
        tokens += 1
      } catch (error) {
        assert.ok(error instanceof SallyportError)
        assert.equal(error.code, 'token_exchange_failed')
        assert.match(
          error.message,
          /^no access token for the credential api: the (?:answer of the )?token server (?:is not JSON|answered \d{3}(?:, (?:invalid|unauthorized|unsupported)_[a-z_]+)?|gave (?:no token_type, or not Bearer|no access_token that can be sent|a refresh_token that cannot be sent|an expires_in that is no time ahead))$/,
        )
      }
    }),
    { numRuns: 2_000 },
  )
  assert.ok(tokens > 0, 'some of them are tokens')
})

test('whatever an agent sends as its signature, it is read whole and lower-case sorted or told why not', () => {
  const part = fc.constantFrom(
    'AWS4-HMAC-SHA256 ',
    'Credential=',
    'AKIA/20240102/r/s/aws4_request',
    ', ',
    ',',
    'SignedHeaders=',
    'host',
    ';',
    'date',
    'Signature=',
    '0'.repeat(64),
    ' ',
    '=',
    'A',
  )
  const whole = fc
    .tuple(fc.array(fc.constantFrom('a-b', 'date', 'host', 'x', 'X', ''), { maxLength: 4 }), fc.constantFrom(', ', ',', ',  '))
    .map(
      ([names, gap]) =>
        `AWS4-HMAC-SHA256 Credential=AKIA/20240102/r/s/aws4_request${gap}SignedHeaders=${['host', ...names].toSorted().join(';')}${gap}Signature=${'0'.repeat(64)}`,
    )
  const value = fc.oneof(
    whole,
    fc.array(part, { maxLength: 12 }).map((parts) => parts.join('')),
    fc.string(),
  )
  let readings = 0
  fc.assert(
    fc.property(value, fc.constantFrom('20240102T000000Z', '20240103T000000Z', ''), (authorization, date) => {
      const read = readAwsSignature(['Authorization', authorization, 'X-Amz-Date', date])
      if ('problem' in read) return assert.match(read.problem, /^[\x20-\x7e]{5,400}$/)
      readings += 1
      assert.deepEqual(read.signedHeaders, [...new Set(read.signedHeaders)].toSorted())
      assert.ok(read.signedHeaders.includes('host') && !/[A-Z]/.test(read.signedHeaders.join('')))
      assert.ok(authorization.includes(`${read.accessKeyId}/${read.date.slice(0, 8)}/${read.region}/${read.service}/aws4_request`))
    }),
    { numRuns: 3_000 },
  )
  assert.ok(readings > 0, 'some of them are signatures')
})
