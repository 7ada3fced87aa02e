import assert from 'node:assert/strict'
import { test } from 'node:test'
import { payloadHashOf, signAws } from '../../../src/credential/aws-signature.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { agentAuthorization, keysOf, valueOf } from '../../support/aws-agent.ts'

const NOTHING = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const latin1 = (text: string): string => Buffer.from(text).toString('latin1')

// The published test suite of Signature Version 4 (2015), and what its C library adds to it.
const SUITE = {
  keys: keysOf('AKIDEXAMPLE', 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'),
  scope: { region: 'us-east-1', service: 'service' },
}
const SUITE_TOKEN =
  'AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=='
const UNRESERVED = '-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

for (const { name, method = 'GET', path = '/', fields = [], signed = 'host;x-amz-date', body, token, signature } of [
  { name: 'get-vanilla', signature: '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31' },
  { name: 'post-vanilla', method: 'POST', signature: '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b' },
  {
    name: 'get-vanilla-query-order-key-case',
    path: '/?Param2=value2&Param1=value1',
    signature: 'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
  },
  {
    name: 'get-vanilla-query-order-encoded',
    path: '/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1',
    signature: '371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac',
  },
  {
    name: 'get-vanilla-query-unreserved',
    path: `/?${UNRESERVED}=${UNRESERVED}`,
    signature: '9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197',
  },
  {
    name: 'get-vanilla-utf8-query',
    path: latin1('/?ሴ=bar'),
    signature: '2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04',
  },
  {
    name: 'get-vanilla-empty-query-key',
    path: '/?Param1=value1',
    signature: 'a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb',
  },
  { name: 'get-unreserved', path: `/${UNRESERVED}`, signature: '07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f' },
  { name: 'get-utf8', path: latin1('/ሴ'), signature: '8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85' },
  { name: 'get-space', path: '/example space/', signature: '652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741' },
  { name: 'get-relative', path: '/example/..', signature: '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31' },
  {
    name: 'get-relative-relative',
    path: '/example1/example2/../..',
    signature: '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  },
  { name: 'get-slash', path: '//', signature: '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31' },
  { name: 'get-slash-dot-slash', path: '/./', signature: '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31' },
  { name: 'get-slash-pointless-dot', path: '/./example', signature: 'ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5' },
  { name: 'get-slashes', path: '//example//', signature: '9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84' },
  {
    name: 'get-header-key-duplicate',
    fields: ['My-Header1', 'value2', 'My-Header1', 'value2', 'My-Header1', 'value1'],
    signed: 'host;my-header1;x-amz-date',
    signature: 'c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea',
  },
  {
    name: 'get-header-value-order',
    fields: ['My-Header1', 'value4', 'My-Header1', 'value1', 'My-Header1', 'value3', 'My-Header1', 'value2'],
    signed: 'host;my-header1;x-amz-date',
    signature: '08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01',
  },
  {
    name: 'get-header-value-trim',
    fields: ['My-Header1', ' value1', 'My-Header2', ' "a   b   c"'],
    signed: 'host;my-header1;my-header2;x-amz-date',
    signature: 'acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736',
  },
  {
    name: 'post-header-key-sort',
    method: 'POST',
    fields: ['My-Header1', 'value1'],
    signed: 'host;my-header1;x-amz-date',
    signature: 'c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c',
  },
  {
    name: 'post-x-www-form-urlencoded',
    method: 'POST',
    fields: [
      'Content-Type',
      'application/x-www-form-urlencoded',
      'Content-Length',
      '13',
      'x-amz-content-sha256',
      payloadHashOf(Buffer.from('Param1=value1')),
    ],
    signed: 'content-length;content-type;host;x-amz-content-sha256;x-amz-date',
    body: 'Param1=value1',
    signature: 'd3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b',
  },
  {
    name: 'get-vanilla-with-session-token',
    token: '6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267',
    signature: '07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8',
  },
  {
    name: 'post-sts-header-before',
    method: 'POST',
    token: SUITE_TOKEN,
    signature: '85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead',
  },
] as {
  name: string
  method?: string
  path?: string
  fields?: string[]
  signed?: string
  body?: string
  token?: string
  signature: string
}[]) {
  test(`what an agent signed with another key gets the published signature: ${name}`, () => {
    const headers = ['Host', 'example.amazonaws.com', ...fields, 'X-Amz-Date', '20150830T123600Z']
    headers.push('Authorization', agentAuthorization('20150830', 'us-east-1/service', signed))
    const keys = { ...SUITE.keys, ...(token !== undefined && { sessionToken: new Secret('TOKEN', token) }) }
    const sent = signAws(
      { method, path, headers, payloadHash: payloadHashOf(body === undefined ? undefined : Buffer.from(body)) },
      keys,
      SUITE.scope,
    )
    const names = token === undefined ? signed : `${signed};x-amz-security-token`
    assert.equal(
      valueOf(sent.headers, 'authorization'),
      `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=${names}, Signature=${signature}`,
    )
  })
}

// "Signature Calculations for the Authorization Header: Transferring Payload in a Single Chunk" (Amazon S3 API Reference).
const S3 = {
  keys: keysOf('AKIAIOSFODNN7EXAMPLE', 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'),
  scope: { region: 'us-east-1', service: 's3' },
}

for (const { name, method = 'GET', path, fields = [], hash = NOTHING, date = ['x-amz-date', '20130524T000000Z'], signed, signature } of [
  {
    name: 'GET Object with a range',
    path: '/test.txt',
    fields: ['Range', 'bytes=0-9'],
    signed: 'host;range;x-amz-content-sha256;x-amz-date',
    signature: 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
  {
    name: 'PUT Object, with Date instead of X-Amz-Date signed as well',
    method: 'PUT',
    path: '/test$file.text',
    fields: ['Date', 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class', 'REDUCED_REDUNDANCY'],
    hash: '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
    signed: 'date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class',
    signature: '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  },
  {
    name: 'GET Bucket Lifecycle, a query name without a value',
    path: '/?lifecycle',
    signed: 'host;x-amz-content-sha256;x-amz-date',
    signature: 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  },
  {
    name: 'GET Bucket, listing objects',
    path: '/?max-keys=2&prefix=J',
    signed: 'host;x-amz-content-sha256;x-amz-date',
    signature: '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
] as {
  name: string
  method?: string
  path: string
  fields?: string[]
  hash?: string
  date?: string[]
  signed: string
  signature: string
}[]) {
  test(`what an agent signed with another key gets the signature of the S3 documentation: ${name}`, () => {
    const headers = ['Host', 'examplebucket.s3.amazonaws.com', ...fields, 'x-amz-content-sha256', hash, ...date]
    headers.push('Authorization', agentAuthorization('20130524', 'us-east-1/s3', signed))
    const sent = signAws({ method, path, headers, payloadHash: 'not asked for' }, S3.keys, S3.scope)
    assert.equal(valueOf(sent.headers, 'authorization')?.split('Signature=')[1], signature)
  })
}
