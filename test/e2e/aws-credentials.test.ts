/** I5, I23, I24, I25: what an agent signs with worthless AWS keys arrives signed with the true ones, and nothing else does. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { LIMITS } from '../../src/kernel/limits.ts'
import { AWS_ACCOUNT, awsPolicy, openAwsSetting, type AwsSetting } from '../support/aws-setting.ts'
import type { ToSign } from '../support/aws-agent.ts'
import { cleanEnvironment, runProgram } from '../support/command.ts'
import { APPROACHES, ask, fieldOf, named, type Approach, type Asked, type Got } from '../support/every-client.ts'

const { FILES, QUEUE, OTHER, REGION } = AWS_ACCOUNT
let setting: AwsSetting

before(async () => {
  setting = await openAwsSetting()
})
after(() => setting[Symbol.asyncDispose]())

/** What an SDK asks for with the keys of its environment; `change` is what makes it another request. */
function signed(asked: ToSign, sdk: Partial<Parameters<AwsSetting['sign']>[1]> = {}): Asked {
  const { payload: _, ...rest } = asked
  return { ...rest, fields: setting.sign(asked, { region: REGION, service: asked.host === QUEUE ? 'sqs' : 's3', ...sdk }) }
}

const PLAIN: ToSign = { host: FILES, path: '/bucket/key' }
const FEW = APPROACHES.filter(({ way, version }) => way === 'absolute form' || (way === 'CONNECT' && version === 'HTTP/2'))
const CHUNKED = '5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n'

for (const { what, asked, approaches = APPROACHES } of [
  { what: 'no body', asked: PLAIN },
  { what: 'a body whose hash is signed', asked: { ...PLAIN, method: 'PUT', body: Buffer.alloc(100_000, 7) } },
  { what: 'a body whose hash is not signed', asked: { ...PLAIN, method: 'PUT', body: 'anything', payload: 'UNSIGNED-PAYLOAD' } },
  {
    what: 'a body that is larger than any that is held, and need not be',
    asked: { ...PLAIN, method: 'PUT', body: Buffer.alloc(LIMITS.heldBodyBytesMax + 1, 7), payload: 'UNSIGNED-PAYLOAD' },
    approaches: FEW,
  },
  {
    what: 'the same with its hash',
    asked: { ...PLAIN, method: 'PUT', body: Buffer.alloc(LIMITS.heldBodyBytesMax + 1, 7) },
    approaches: FEW,
  },
  {
    what: 'unsigned chunks with a trailer',
    asked: {
      ...PLAIN,
      method: 'PUT',
      body: CHUNKED,
      payload: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      fields: [
        ['Content-Encoding', 'aws-chunked'],
        ['X-Amz-Decoded-Content-Length', '5'],
        ['X-Amz-Trailer', 'x-amz-checksum-crc32'],
      ],
    },
  },
  {
    what: 'a body that only the gate hashes',
    asked: { host: QUEUE, method: 'POST', path: '/', body: '{"QueueName":"q"}', payload: 'none' },
  },
  { what: 'an empty body that only the gate hashes', asked: { host: QUEUE, method: 'POST', path: '/', body: '', payload: 'none' } },
  { what: 'no body and no hash', asked: { host: QUEUE, path: '/?Action=ListQueues', payload: 'none' } },
  {
    what: 'the largest body that is held',
    asked: { host: QUEUE, method: 'POST', path: '/', body: Buffer.alloc(LIMITS.heldBodyBytesMax, 0x20), payload: 'none' },
    approaches: FEW,
  },
  { what: 'escapes and reserved characters in a path', asked: { ...PLAIN, path: "/b/a%20b/%e2%82%ac/c+d/~x(y)!*'/e=f&g;h,i:@$/" } },
  { what: 'empty segments in a path of S3', asked: { ...PLAIN, path: '/b//double///slash//' } },
  { what: 'empty segments in a path of another service', asked: { host: QUEUE, path: '/b//double%2F/%252F/x//', payload: 'none' } },
  {
    what: 'a query that is neither sorted nor whole',
    asked: { ...PLAIN, path: '/b?list-type=2&prefix=a%2Fb%20c&delimiter=/&empty&x=&b=2&a=1&a=0&A=3&a-b=c=d&&k=%e2%82%ac+z&%7e=~' },
  },
  { what: 'a query and no path', asked: { ...PLAIN, path: '/?uploads' } },
  {
    what: 'fields with many spaces, and one field twice',
    asked: {
      ...PLAIN,
      fields: [
        ['X-Amz-Meta-Note', 'a   b \t c'],
        ['X-Amz-Meta-Tag', 'one'],
        ['X-Amz-Meta-Tag', 'two'],
        ['Accept-Encoding', 'identity;q=1, br'],
      ],
    },
  },
] satisfies { what: string; asked: ToSign; approaches?: readonly Approach[] }[]) {
  test(`I5 AWS takes what the gate signs anew, by every way in: ${what}`, async () => {
    for (const approach of approaches) {
      const since = setting.arrivals.length
      const got = await ask(setting.every, approach, signed(asked))
      assert.equal(got.status, 200, `${named(approach)}: ${String(got.body)}`)
      assert.deepEqual(setting.faults.slice(since), [undefined], named(approach))
      const [arrived] = setting.arrivals.slice(since)
      assert.deepEqual([arrived?.method, arrived?.url], [asked.method ?? 'GET', asked.path])
      assert.ok(arrived?.body.equals(Buffer.from(asked.body ?? '')), named(approach))
      assert.deepEqual(setting.strayIn(arrived === undefined ? [] : [arrived]), [])
    }
  })
}

test('I5 a session token of the agent is no part of what AWS gets, signed or not', async () => {
  for (const host of [FILES, QUEUE]) {
    for (const name of ['X-Amz-Security-Token', 'x_amz_security-token']) {
      const since = setting.arrivals.length
      const got = await ask(setting.every, FEW[0] as Approach, signed({ host, fields: [[name, 'own-token']] }))
      // What is signed and not sent makes any signature a wrong one.
      const isKnown = name === 'X-Amz-Security-Token'
      assert.equal(got.status, isKnown ? 200 : 403, String(got.body))
      const arrived = setting.arrivals.slice(since)
      assert.equal(JSON.stringify(arrived).includes('own-token'), false)
      assert.equal(arrived.length, isKnown ? 1 : 0)
    }
  }
})

const OF_KEY = (text: string): string => text.replace(/Credential=[^/]+/, 'Credential=AKIAANOTHERKEY000000')

/** The Authorization field as something else. */
function authorized(asked: Asked, change: (text: string) => string | undefined): Asked {
  const fields = (asked.fields ?? []).flatMap(([name, value]) => {
    const changed = name === 'Authorization' ? change(value) : value
    return changed === undefined ? [] : [[name, changed] as const]
  })
  return { ...asked, fields }
}

const SIGNATURE = 'aws_signature_refused'
const MISPLACED = 'placeholder_misplaced'

for (const { what, code, asked } of [
  { what: 'signed for another region', code: SIGNATURE, asked: () => signed(PLAIN, { region: 'us-east-1' }) },
  { what: 'signed for another service', code: SIGNATURE, asked: () => signed(PLAIN, { service: 'iam' }) },
  { what: 'signed with another key', code: SIGNATURE, asked: () => authorized(signed(PLAIN), OF_KEY) },
  { what: 'not signed', code: SIGNATURE, asked: () => authorized(signed(PLAIN), () => undefined) },
  { what: 'with a bearer token', code: SIGNATURE, asked: () => authorized(signed(PLAIN), () => 'Bearer own-token-123') },
  {
    what: 'signed by version 4A',
    code: SIGNATURE,
    asked: () => authorized(signed(PLAIN), (text) => text.replace('AWS4-HMAC-SHA256', 'AWS4-ECDSA-P256-SHA256')),
  },
  {
    what: 'signed by version 2',
    code: SIGNATURE,
    asked: () => authorized(signed(PLAIN), () => 'AWS AKIAANOTHERKEY000000:frJIUN8DYpKDtOLCwo//yllqDzg='),
  },
  {
    what: 'in chunks that are signed',
    code: SIGNATURE,
    asked: () => signed({ ...PLAIN, method: 'PUT', body: CHUNKED, payload: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' }),
  },
  {
    what: 'in chunks that are signed, with a trailer',
    code: SIGNATURE,
    asked: () => signed({ ...PLAIN, method: 'PUT', body: CHUNKED, payload: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER' }),
  },
  { what: 'with a hash that is none', code: SIGNATURE, asked: () => signed({ ...PLAIN, payload: 'e3b0c442' }) },
  {
    what: 'signed with a field that ends at the gate',
    code: SIGNATURE,
    asked: () => signed({ ...PLAIN, fields: [['Proxy-Authorization', 'x']] }),
  },
  {
    what: 'presigned with the placeholder',
    code: MISPLACED,
    asked: () => ({
      host: FILES,
      path: `/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=${setting.keyId}%2F20260101%2F${REGION}%2Fs3%2Faws4_request&X-Amz-Signature=${'0'.repeat(64)}`,
    }),
  },
  {
    what: 'presigned by version 2 with the placeholder',
    code: MISPLACED,
    asked: () => ({ host: FILES, path: `/b/k?AWSAccessKeyId=${setting.keyId}&Expires=1&Signature=abc` }),
  },
  { what: 'signed with the placeholder, for another host', code: MISPLACED, asked: () => signed({ ...PLAIN, host: OTHER }) },
  {
    what: 'with the id of the key where it does not belong',
    code: MISPLACED,
    asked: () => signed({ ...PLAIN, fields: [['X-Note', setting.keyId]] }),
  },
  { what: 'with the secret key in a field', code: MISPLACED, asked: () => signed({ ...PLAIN, fields: [['X-Note', setting.secretKey]] }) },
  { what: 'with the secret key in its query', code: MISPLACED, asked: () => signed({ ...PLAIN, path: `/b?k=${setting.secretKey}` }) },
  {
    what: 'with the secret key in basic credentials',
    code: MISPLACED,
    asked: () => ({
      ...PLAIN,
      fields: [['Authorization', `Basic ${Buffer.from(`${setting.keyId}:${setting.secretKey}`).toString('base64')}`]] as const,
    }),
  },
  { what: 'with the secret key, for another host', code: MISPLACED, asked: () => ({ host: OTHER, path: `/${setting.secretKey}` }) },
  {
    what: 'with the secret key in a body that is held',
    code: MISPLACED,
    asked: () => signed({ host: QUEUE, method: 'POST', body: `{"k":"${setting.secretKey}"}`, payload: 'none' }),
  },
  {
    what: 'with a body that has to be hashed and is too large for that',
    code: 'body_too_large',
    asked: () => signed({ host: QUEUE, method: 'POST', body: Buffer.alloc(LIMITS.heldBodyBytesMax + 1, 0x20), payload: 'none' }),
  },
] as { what: string; code: string; asked: () => Asked }[]) {
  test(`I23, I25 a request ${what} is refused with ${code} by every way in, and nothing of it arrives`, async () => {
    const since = setting.arrivals.length
    for (const approach of APPROACHES) {
      const got = await ask(setting.every, approach, asked())
      assert.equal(got.code, code, `${named(approach)}: ${got.status} ${got.refused ?? ''} ${String(got.body)}`)
      assert.equal(got.status, code === 'body_too_large' ? 413 : 403)
    }
    assert.deepEqual(setting.arrivals.slice(since), [])
  })
}

test('I23 the secret key in a body that is streamed breaks the request off, and does not arrive', async () => {
  for (const approach of APPROACHES) {
    const got = await ask(setting.every, approach, signed({ ...PLAIN, method: 'PUT', body: `x=${setting.secretKey}` }))
    assert.equal(got.code, MISPLACED, named(approach))
  }
  assert.equal(
    setting.arrivals.some(({ body }) => body.includes(setting.secretKey)),
    false,
  )
})

for (const { coding, encode } of [
  { coding: 'identity', encode: (text: string): Buffer => Buffer.from(text) },
  { coding: 'gzip', encode: (text: string): Buffer => gzipSync(text) },
]) {
  test(`I24 the id of the true key and the session token in an error document (${coding}) do not reach the agent`, async () => {
    setting.echo = ({ accessKeyId, sessionToken }) => ({
      headers: { 'content-encoding': coding, 'x-amz-note': `key ${accessKeyId}` },
      body: encode(`<Error><AWSAccessKeyId>${accessKeyId}</AWSAccessKeyId><Token-0>${sessionToken}</Token-0></Error>`),
    })
    for (const approach of APPROACHES) {
      const got = await ask(setting.every, approach, signed({ ...PLAIN, fields: [['Accept-Encoding', coding]] }))
      assert.equal(got.status, 403)
      assert.equal(fieldOf(got.headers, 'x-amz-note'), `key ${'*'.repeat(setting.account.accessKeyId.length)}`)
      assert.match(decoded(got, coding), /<AWSAccessKeyId>\*{20}<\/AWSAccessKeyId><Token-0>\*+<\/Token-0>/, named(approach))
      assert.deepEqual(setting.secretsIn(got.bytes.toString('latin1') + decoded(got, coding)), [])
    }
    setting.echo = undefined
  })
}

function decoded({ body, headers }: Got, coding: string): string {
  assert.equal(fieldOf(headers, 'content-encoding'), coding)
  return (coding === 'gzip' ? gunzipSync(body) : body).toString()
}

test('I1 no request, answer, log or audit line has the secret key, and the audit names the credential by its id', async () => {
  const got = await ask(setting.every, FEW[0] as Approach, signed(PLAIN))
  assert.equal(got.status, 200)
  assert.deepEqual(setting.strayIn(setting.arrivals), [])
  const { gate } = setting.every
  assert.deepEqual(setting.secretsIn(`${await gate.auditText()}${gate.log()}`), [])
  const decided = (await gate.audit()).findLast(({ event }) => event === 'decided')
  const said = [decided?.['credential'], decided?.['secret'], decided?.['own_credentials']]
  assert.deepEqual(said, ['files', 'AWS_SECRET,AWS_ID,AWS_TOKEN', undefined])
})

test('I23 own_credentials: pass leaves a signature of the agent as it is, and never one that was made with the placeholder', async () => {
  const approach = FEW[0] as Approach
  assert.ok(await setting.every.gate.setPolicy(awsPolicy(', own_credentials: pass')))
  const since = setting.arrivals.length
  const own = authorized(signed(PLAIN), OF_KEY)
  assert.equal(String((await ask(setting.every, approach, own)).body), 'InvalidClientTokenId')
  const [arrived] = setting.arrivals.slice(since)
  assert.equal(arrived && fieldOf(arrived.rawHeaders, 'authorization'), own.fields?.find(([name]) => name === 'Authorization')?.[1])
  const beside = await ask(setting.every, approach, signed({ ...PLAIN, fields: [['X-Amz-Security-Token', 'own-token']] }))
  assert.equal(beside.status, 200, String(beside.body))
  assert.deepEqual(setting.strayIn(setting.arrivals.slice(since)), [])
  assert.ok(await setting.every.gate.setPolicy(awsPolicy()))
})

for (const { service, host, args } of [
  { service: 's3', host: FILES, args: ['-T', import.meta.filename] },
  { service: 'sqs', host: QUEUE, args: ['-d', 'Action=ListQueues'] },
]) {
  test(`I5 curl signs for ${service} with what its environment has, and AWS takes what arrives`, async () => {
    const { gate } = setting.every
    const since = setting.arrivals.length
    const env = { ...cleanEnvironment(gate.folder), https_proxy: `http://127.0.0.1:${gate.port}`, CURL_CA_BUNDLE: gate.sidecar.caFile }
    const signing = ['--aws-sigv4', `aws:amz:${REGION}:${service}`, '--user', `${setting.keyId}:${setting.secretKey}`]
    const { code, stdout, stderr } = await runProgram(['curl', '-sS', ...signing, ...args, `https://${host}/a%20b?b=2&a=1`], env)
    assert.deepEqual([code, stdout], [0, 'ok'], stderr)
    assert.deepEqual(setting.strayIn(setting.arrivals.slice(since)), [])
    assert.equal(setting.arrivals.length, since + 1)
  })
}
