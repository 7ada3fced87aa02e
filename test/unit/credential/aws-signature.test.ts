import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import { test } from 'node:test'
import { inspect } from 'node:util'
import * as fc from 'fast-check'
import { needsBodyHash, payloadHashOf, readAwsSignature, signAws } from '../../../src/credential/aws-signature.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { agentAuthorization, agentHead, keysOf, PLACEHOLDER, valueOf } from '../../support/aws-agent.ts'
import { faultOfSignature, openAwsService, type AwsAccount } from '../../support/aws-verifier.ts'

const NOTHING = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

const KEYS = keysOf('AKIATRUEKEY000000001', 'trueSecretKeyCanary/0123456789+abcdefghi', 'trueSessionTokenCanary==')
const SCOPE = { region: 'eu-central-1', service: 's3' }
const ACCOUNT: AwsAccount = {
  ...SCOPE,
  accessKeyId: 'AKIATRUEKEY000000001',
  secretKey: 'trueSecretKeyCanary/0123456789+abcdefghi',
  sessionToken: 'trueSessionTokenCanary==',
}

function sign(headers: string[], path = '/key'): ReturnType<typeof signAws> {
  return signAws({ method: 'GET', path, headers, payloadHash: NOTHING }, KEYS, SCOPE)
}

test('what the agent says of its signature is read as it stands', () => {
  assert.deepEqual(readAwsSignature(agentHead()), {
    accessKeyId: PLACEHOLDER,
    date: '20240102T030405Z',
    region: 'eu-central-1',
    service: 's3',
    signedHeaders: ['host', 'x-amz-content-sha256', 'x-amz-date'],
  })
})

test('commas without a space and a Date instead of X-Amz-Date are read as well', () => {
  const headers = agentHead((head) => {
    head.fields.delete('x-amz-date')
    head.fields.set('Date', ['Tue, 02 Jan 2024 03:04:05 GMT'])
    head.authorization = agentAuthorization('20240102', 'eu-central-1/s3', 'date;host').replaceAll(', ', ',')
  })
  assert.equal((readAwsSignature(headers) as { date?: string }).date, '20240102T030405Z')
  assert.equal(
    faultOfSignature({ method: 'GET', url: '/key', rawHeaders: sign(headers).headers, body: Buffer.alloc(0) }, ACCOUNT),
    undefined,
  )
})

type Change = Parameters<typeof agentHead>[0]
const REFUSED: { why: string; change: Change; says: RegExp }[] = [
  { why: 'it is not signed', change: (head) => void (head.authorization = ''), says: /no Authorization/ },
  { why: 'it has a bearer token', change: (head) => void (head.authorization = 'Bearer abcdef'), says: /is not AWS4-HMAC-SHA256/ },
  {
    why: 'it is signed twice',
    change: (head) => head.fields.set('authorization', [head.authorization]),
    says: /more than one Authorization/,
  },
  {
    why: 'it is signed by version 4A',
    change: (head) => void (head.authorization = head.authorization.replace('HMAC-SHA256', 'ECDSA-P256-SHA256')),
    says: /4A/,
  },
  { why: 'a part is there twice', change: (head) => void (head.authorization += ', SignedHeaders=host'), says: /"SignedHeaders" twice/ },
  {
    why: 'a part is unknown',
    change: (head) => void (head.authorization += ', Region=x'),
    says: /is not Credential, SignedHeaders and Signature/,
  },
  {
    why: 'a part is missing',
    change: (head) => void (head.authorization = head.authorization.replace(/, Signature.*/, '')),
    says: /is not Cred/,
  },
  {
    why: 'the signature is none',
    change: (head) => void (head.authorization = head.authorization.replace(/0{64}/, 'A'.repeat(64))),
    says: /64 hex/,
  },
  {
    why: 'the scope has another end',
    change: (head) => void (head.authorization = head.authorization.replace('aws4_request', 'aws4')),
    says: /Credential/,
  },
  {
    why: 'the scope is too long',
    change: (head) => void (head.authorization = head.authorization.replace('/s3/', '/s3/x/')),
    says: /Credential/,
  },
  {
    why: 'the key is empty',
    change: (head) => void (head.authorization = head.authorization.replace(PLACEHOLDER, '')),
    says: /Credential/,
  },
  {
    why: 'its region is another',
    change: (head) => void (head.authorization = head.authorization.replace('eu-central-1', 'us-east-1')),
    says: /s3 in us-east-1/,
  },
  {
    why: 'its service is another',
    change: (head) => void (head.authorization = head.authorization.replace('/s3/', '/iam/')),
    says: /iam in eu-/,
  },
  {
    why: 'its scope is for another day',
    change: (head) => void (head.authorization = head.authorization.replace('/20240102/', '/20240103/')),
    says: /day 20240103/,
  },
  { why: 'it has no date', change: (head) => head.fields.delete('x-amz-date'), says: /X-Amz-Date/ },
  { why: 'it has two dates', change: (head) => head.fields.set('X-AMZ-Date', ['20240102T030405Z']), says: /X-Amz-Date/ },
  { why: 'its date is no date', change: (head) => head.fields.set('x-amz-date', ['20241302T030405Z']), says: /X-Amz-Date/ },
  { why: 'its date is in another form', change: (head) => head.fields.set('x-amz-date', ['2024-01-02T03:04:05Z']), says: /X-Amz-Date/ },
  {
    why: 'the list is not sorted',
    change: (head) => void (head.authorization = head.authorization.replace('host;x-amz-content-sha256', 'x-amz-content-sha256;host')),
    says: /not sorted/,
  },
  {
    why: 'the list names one twice',
    change: (head) => void (head.authorization = head.authorization.replace('host;', 'host;host;')),
    says: /not sorted/,
  },
  {
    why: 'the list has upper case',
    change: (head) => void (head.authorization = head.authorization.replace('host;', 'Host;')),
    says: /lower case/,
  },
  {
    why: 'the list has an empty name',
    change: (head) => void (head.authorization = head.authorization.replace('host;', 'host;;')),
    says: /lower case/,
  },
  { why: 'the list lacks host', change: (head) => void (head.authorization = head.authorization.replace('host;', '')), says: /lack host/ },
  {
    why: 'the list has the signature itself',
    change: (head) => void (head.authorization = head.authorization.replace('host;', 'authorization;host;')),
    says: /Authorization field itself/,
  },
  {
    why: 'a signed field does not pass the gate',
    change: (head) => void (head.authorization = head.authorization.replace('host;', 'connection;host;')),
    says: /connection/,
  },
  {
    why: 'each chunk is signed',
    change: (head) => head.fields.set('x-amz-content-sha256', ['STREAMING-AWS4-HMAC-SHA256-PAYLOAD']),
    says: /each piece/,
  },
  {
    why: 'each chunk and the trailer are signed',
    change: (head) => head.fields.set('x-amz-content-sha256', ['STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER']),
    says: /each piece/,
  },
  {
    why: 'each event is signed',
    change: (head) => head.fields.set('x-amz-content-sha256', ['STREAMING-AWS4-HMAC-SHA256-EVENTS']),
    says: /each piece/,
  },
  {
    why: 'the payload is said in two ways',
    change: (head) => head.fields.set('x-amz-content-sha256', ['UNSIGNED-PAYLOAD', NOTHING]),
    says: /more than one/,
  },
  { why: 'the payload is none', change: (head) => head.fields.set('x-amz-content-sha256', ['required']), says: /"required"/ },
]

for (const { why, change, says } of REFUSED) {
  test(`nothing is signed when ${why}`, () => {
    assert.throws(
      () => sign(agentHead(change)),
      (error) => {
        assert.ok(error instanceof SallyportError)
        assert.equal(error.code, 'aws_signature_refused')
        assert.match(error.message, says)
        assert.doesNotMatch(inspect(error), /canary|AKIATRUE/i)
        return true
      },
    )
  })
}

test('signed chunks are refused with a hint that names the setting', () => {
  const headers = agentHead((head) => head.fields.set('x-amz-content-sha256', ['STREAMING-AWS4-HMAC-SHA256-PAYLOAD']))
  assert.throws(() => sign(headers), { hint: /payload_signing_enabled=false/ })
})

for (const payload of ['UNSIGNED-PAYLOAD', 'STREAMING-UNSIGNED-PAYLOAD-TRAILER', NOTHING]) {
  test(`the payload ${payload} is signed as it is said, and the body need not be known`, () => {
    const headers = agentHead((head) => head.fields.set('x-amz-content-sha256', [payload]))
    assert.equal(needsBodyHash(headers), false)
    const sent = sign(headers)
    assert.equal(valueOf(sent.headers, 'x-amz-content-sha256'), payload)
    assert.equal(faultOfSignature({ method: 'GET', url: '/key', rawHeaders: sent.headers, body: Buffer.alloc(0) }, ACCOUNT), undefined)
  })
}

test('a request that says nothing of its payload has its body hashed', () => {
  const headers = agentHead((head) => {
    head.fields.delete('x-amz-content-sha256')
    head.authorization = head.authorization.replace('x-amz-content-sha256;', '')
  })
  assert.equal(needsBodyHash(headers), true)
  const body = Buffer.from('{"TableName":"t"}')
  const sent = signAws({ method: 'POST', path: '/', headers, payloadHash: payloadHashOf(body) }, KEYS, SCOPE)
  const arrived = { method: 'POST', url: '/', rawHeaders: sent.headers, body }
  assert.equal(faultOfSignature(arrived, ACCOUNT), undefined)
  assert.equal(faultOfSignature({ ...arrived, body: Buffer.from('{}') }, ACCOUNT), 'SignatureDoesNotMatch')
})

test('the session token of the agent is gone in any spelling, ours is there once, signed, and both fields are named as ours', () => {
  const headers = agentHead((head) => {
    head.fields.set('X-Amz-Security-Token', ['agent-token']).set('x_amz_security_token', ['agent-token-2'])
    head.authorization = head.authorization.replace(';x-amz-date', ';x-amz-date;x-amz-security-token')
  })
  const { headers: sent, sensitive } = sign(headers)
  assert.doesNotMatch(sent.join('\n'), /agent-token/)
  assert.equal(sent.filter((text) => text.toLowerCase() === 'x-amz-security-token').length, 1)
  assert.equal(faultOfSignature({ method: 'GET', url: '/key', rawHeaders: sent, body: Buffer.alloc(0) }, ACCOUNT), undefined)
  assert.deepEqual(sensitive, ['authorization', 'x-amz-security-token'])

  const { sessionToken: _, ...lasting } = KEYS
  const without = signAws({ method: 'GET', path: '/key', headers, payloadHash: NOTHING }, lasting, SCOPE)
  assert.doesNotMatch(without.headers.join('\n'), /security.token/i)
  const { sessionToken: __, ...account } = ACCOUNT
  assert.equal(faultOfSignature({ method: 'GET', url: '/key', rawHeaders: without.headers, body: Buffer.alloc(0) }, account), undefined)
})

test('whatever the target, the fields and the body are, an independent verifier takes what is signed, and the secret key is in none of it', () => {
  const chars = `abAB09-._~/%$&=+;:@!*(),'"<>[]{}|^\``.split('')
  const piece = fc.array(
    fc.oneof(fc.constantFrom(...chars), fc.constantFrom('%2F', '%2f', '%20', '%C3%A4', '..', '//', '?', '&&', '%zz')),
    { maxLength: 24 },
  )
  const target = piece.map((parts) => `/${parts.join('')}`)
  const value = fc.stringMatching(/^[\x21-\x7e]([\x20-\x7e\t]{0,20}[\x21-\x7e])?$/)
  const fields = fc.dictionary(fc.stringMatching(/^x-amz-meta-[a-z0-9_]{1,6}$/), fc.array(value, { minLength: 1, maxLength: 3 }), {
    maxKeys: 4,
  })
  fc.assert(
    fc.property(
      target,
      fields,
      fc.constantFrom('s3', 'dynamodb', 'execute-api'),
      fc.uint8Array({ maxLength: 40 }),
      (path, extra, service, bytes) => {
        const body = Buffer.from(bytes)
        const names = ['host', 'x-amz-date', ...Object.keys(extra)].toSorted()
        const headers = agentHead((head) => {
          head.fields.delete('x-amz-content-sha256')
          for (const [name, values] of Object.entries(extra)) head.fields.set(name, values)
          head.authorization = agentAuthorization('20240102', `eu-central-1/${service}`, names.join(';'))
        })
        const scope = { region: 'eu-central-1', service }
        const sent = signAws({ method: 'PUT', path, headers, payloadHash: payloadHashOf(body) }, KEYS, scope)
        assert.equal(faultOfSignature({ method: 'PUT', url: path, rawHeaders: sent.headers, body }, { ...ACCOUNT, service }), undefined)
        assert.doesNotMatch(sent.headers.join('\n'), /trueSecretKeyCanary/)
      },
    ),
    { numRuns: 500 },
  )
})

test('a service that verifies takes the request from the wire, and refuses it when a byte of path, field or body is another', async () => {
  await using service = await openAwsService({ ...ACCOUNT, service: 'dynamodb' })
  const body = '{"TableName":"things"}'
  const headers = agentHead((head) => {
    head.fields.delete('x-amz-content-sha256')
    head.fields.set('x-amz-target', ['DynamoDB_20120810.GetItem'])
    head.authorization = agentAuthorization('20240102', 'eu-central-1/dynamodb', 'host;x-amz-date;x-amz-target')
  })
  const sent = signAws({ method: 'POST', path: '/a%20b/?x=1', headers, payloadHash: payloadHashOf(Buffer.from(body)) }, KEYS, {
    ...SCOPE,
    service: 'dynamodb',
  })
  assert.equal(await send(service.port, '/a%20b/?x=1', sent.headers, body), 200)
  assert.equal(await send(service.port, '/a%20b/?x=2', sent.headers, body), 403)
  assert.equal(await send(service.port, '/a%20b/?x=1', sent.headers, body.replace('things', 'others')), 403)
  const tampered = sent.headers.map((text) => text.replace('GetItem', 'PutItem'))
  assert.equal(await send(service.port, '/a%20b/?x=1', tampered, body), 403)
  assert.deepEqual(service.faults, [undefined, 'SignatureDoesNotMatch', 'SignatureDoesNotMatch', 'SignatureDoesNotMatch'])
})

function send(port: number, path: string, headers: readonly string[], body: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { host: '127.0.0.1', port, method: 'POST', path, headers: [...headers, 'content-length', `${body.length}`] },
      (response) => {
        response.resume().on('end', () => resolve(response.statusCode))
      },
    )
    request.on('error', reject).end(body)
  })
}

test('a field with thirty thousand spaces is signed as one with a single space', () => {
  const headers = agentHead((head) => {
    head.fields.set('x-amz-meta-a', [`a${' '.repeat(30_000)}b`])
    head.authorization = head.authorization.replace(';x-amz-date', ';x-amz-date;x-amz-meta-a')
  })
  const { headers: sent } = sign(headers)
  assert.equal(faultOfSignature({ method: 'GET', url: '/key', rawHeaders: sent, body: Buffer.alloc(0) }, ACCOUNT), undefined)
})
