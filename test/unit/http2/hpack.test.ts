import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HpackDecoder } from '../../../src/http2/hpack-decoder.ts'
import { encodeField, encodeIndexed, LITERAL } from '../../../src/http2/hpack-encoder.ts'
import { Output } from '../../../src/http2/output.ts'
import { CODE } from '../../../src/http2/protocol.ts'

const LIMITS = { bytesMax: 32_768, fieldsMax: 256 }
const bytes = (hex: string): Buffer => Buffer.from(hex.replaceAll(' ', ''), 'hex')

function decodeAll(...blocks: string[]): string[][] {
  const decoder = new HpackDecoder(LIMITS)
  return blocks.map((block) => {
    decoder.decode(bytes(block))
    return decoder.fields
  })
}

const REQUESTS = [
  [':method', 'GET', ':scheme', 'http', ':path', '/', ':authority', 'www.example.com'],
  [':method', 'GET', ':scheme', 'http', ':path', '/', ':authority', 'www.example.com', 'cache-control', 'no-cache'],
  [':method', 'GET', ':scheme', 'https', ':path', '/index.html', ':authority', 'www.example.com', 'custom-key', 'custom-value'],
]

test('RFC 7541 C.3: requests without Huffman code', () => {
  const blocks = [
    '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
    '8286 84be 5808 6e6f 2d63 6163 6865',
    '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
  ]
  assert.deepEqual(decodeAll(...blocks), REQUESTS)
})

test('RFC 7541 C.4: requests in Huffman code', () => {
  const blocks = [
    '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
    '8286 84be 5886 a8eb 1064 9cbf',
    '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
  ]
  assert.deepEqual(decodeAll(...blocks), REQUESTS)
})

test('RFC 7541 C.6: answers whose entries push others out of a table of 256 bytes', () => {
  const [, , third] = decodeAll(
    '3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3',
    '4883 640e ffc1 c0bf',
    '88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07',
  )
  assert.deepEqual(third, [
    ':status',
    '200',
    'cache-control',
    'private',
    'date',
    'Mon, 21 Oct 2013 20:13:22 GMT',
    'location',
    'https://www.example.com',
    'content-encoding',
    'gzip',
    'set-cookie',
    'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1',
  ])
})

for (const { why, block } of [
  { why: 'index 0', block: '80' },
  { why: 'an index that is in no table', block: 'be' },
  { why: 'a name that is in no table', block: '7e 0161' },
  { why: 'a table that changes behind a field', block: '82 20' },
  { why: 'a table larger than was offered', block: '3fe21f' },
  { why: 'a number that does not end', block: 'ffffffffffffffffff' },
  { why: 'a number that is cut off', block: 'ff80' },
  { why: 'a text that is cut off', block: '00 0161 0561' },
  { why: 'EOS in Huffman code', block: '00 0161 84ffffffff' },
  { why: 'Huffman code with a byte of padding', block: '00 0161 82 1fff' },
  { why: 'Huffman code whose padding is no EOS', block: '00 0161 81 18' },
]) {
  test(`a block with ${why} does not decode: its connection is over`, () => {
    assert.throws(() => decodeAll(block), { code: CODE.COMPRESSION_ERROR })
  })
}

for (const { why, block } of [
  { why: 'an upper-case name', block: '00 0141 0161' },
  { why: 'an empty name', block: '00 00 0161' },
  { why: 'a name with a space', block: '00 036120 62 0161' },
  { why: 'a value with CR', block: '00 0161 03610d62' },
  { why: 'a value with NUL', block: '00 0161 036100 62' },
  { why: 'a value with DEL', block: '00 0161 017f' },
  { why: 'a value that begins with a space', block: '00 0161 022061' },
  { why: 'a value that ends with a tab', block: '00 0161 026109' },
]) {
  test(`${why} is seen as malformed, also when a table has kept it, and later blocks are not`, () => {
    const decoder = new HpackDecoder(LIMITS)
    decoder.decode(bytes(block))
    assert.equal(decoder.isMalformed, true)
    decoder.decode(bytes(block.replace('00', '40')))
    decoder.decode(bytes('be'))
    assert.equal(decoder.isMalformed, true)
    decoder.decode(bytes('82'))
    assert.deepEqual([decoder.isMalformed, decoder.fields], [false, [':method', 'GET']])
  })
}

test('a block beyond the limits is read and not kept, and the table goes on', () => {
  const decoder = new HpackDecoder({ bytesMax: 10_000, fieldsMax: 100 })
  const value = Buffer.alloc(3_000, 'z')
  const entry = Buffer.concat([bytes('40 0178 7f'), bytes('b916'), value])
  decoder.decode(Buffer.concat([entry, Buffer.alloc(10_000, 0xbe)]))
  assert.deepEqual([decoder.isTooLarge, decoder.fields], [true, []])
  decoder.decode(Buffer.from([0xbe]))
  assert.deepEqual([decoder.isTooLarge, decoder.fields[1]?.length], [false, 3_000])
  decoder.decode(Buffer.alloc(101, 0x82))
  assert.equal(decoder.isTooLarge, true)
})

test('what is written is read again, and nothing of it enters a table', () => {
  const fields = [':status', '200', ':status', '418', 'x', '', 'date', 'a'.repeat(300), 'x-\xe9'.slice(0, 2) + 'y', '\xe9\xff'.repeat(90)]
  const out = new Output()
  for (let i = 0; i < fields.length; i += 2) {
    if (i < 4) encodeIndexed(out, fields[i] ?? '', fields[i + 1] ?? '')
    else encodeField(out, fields[i] ?? '', fields[i + 1] ?? '', i % 4 === 0 ? LITERAL.plain : LITERAL.neverIndexed)
  }
  const block = Buffer.from(out.take())
  const decoder = new HpackDecoder(LIMITS)
  decoder.decode(block)
  assert.deepEqual(decoder.fields, fields)
  assert.equal(decoder.isMalformed, false)
  assert.throws(() => decoder.decode(Buffer.from([0xbe])), { code: CODE.COMPRESSION_ERROR })
})
