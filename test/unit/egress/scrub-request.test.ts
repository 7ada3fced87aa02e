import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scrubbableRequest } from '../../../src/sidecar/egress/scrub/scrubbed-agent.ts'

test('a request that asks for nothing that could not be looked into goes as it came, byte for byte', () => {
  const headers = ['host', 'a.example', 'Accept', '*/*', 'Accept-Encoding', 'gzip, deflate, br, zstd', 'Cookie', 'a=b']
  assert.deepEqual(scrubbableRequest(headers), headers)
  assert.deepEqual(scrubbableRequest([]), [])
})

for (const { name, value, why } of [
  { name: 'Range', value: 'bytes=0-9', why: 'a part may be a part of a secret' },
  { name: 'iF-rAnGe', value: '"abc"', why: 'it makes sense with Range alone' },
  { name: 'A-IM', value: 'gzip', why: 'differences of a body come without a Content-Encoding' },
  { name: 'Sec-WebSocket-Extensions', value: 'permessage-deflate', why: 'messages would be compressed' },
])
  test(`${name} does not go on: ${why}`, () => {
    assert.deepEqual(scrubbableRequest(['host', 'a.example', name, value, 'x', 'y']), ['host', 'a.example', 'x', 'y'])
  })

for (const { sent, goes } of [
  { sent: ['gzip;q=1.0, compress;q=0.5, BR'], goes: 'gzip;q=1.0, BR' },
  { sent: ['compress, dcb, dcz'], goes: 'identity' },
  { sent: ['*'], goes: 'identity' },
  { sent: [''], goes: 'identity' },
  { sent: ['identity;q=0, zstd'], goes: 'identity;q=0, zstd' },
  { sent: ['gzip', 'x, deflate'], goes: 'gzip, deflate' },
  { sent: ['gzipped, x-gzip'], goes: 'x-gzip' },
])
  test(`Accept-Encoding ${JSON.stringify(sent)} becomes ${goes}`, () => {
    const headers = ['a', 'b', ...sent.flatMap((value) => ['Accept-Encoding', value]), 'c', 'd']
    assert.deepEqual(scrubbableRequest(headers), ['a', 'b', 'Accept-Encoding', goes, 'c', 'd'])
  })

test('gRPC and Connect are asked for messages that are not compressed', () => {
  assert.deepEqual(scrubbableRequest(['grpc-accept-encoding', 'gzip,identity', 'Connect-Accept-Encoding', 'br', 'te', 'trailers']), [
    'grpc-accept-encoding',
    'identity',
    'Connect-Accept-Encoding',
    'identity',
    'te',
    'trailers',
  ])
})
