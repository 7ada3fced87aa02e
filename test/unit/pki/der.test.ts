import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bmpString, der, integer, oid, pem, readValues, setOf, TAG, time, unsigned } from '../../../src/pki/der.ts'

for (const { bytes, expected, why } of [
  { bytes: '', expected: '020100', why: 'no bytes are zero' },
  { bytes: '00', expected: '020100', why: 'zero is one zero byte' },
  { bytes: '0000', expected: '020100', why: 'zeros in front go' },
  { bytes: '7f', expected: '02017f', why: 'the largest of one byte' },
  { bytes: '80', expected: '02020080', why: 'a high bit alone would be negative' },
  { bytes: '007f', expected: '02017f', why: 'a needless zero goes' },
  { bytes: '0080', expected: '02020080', why: 'a needed zero stays' },
  { bytes: '00ff00', expected: '020300ff00', why: 'zeros at the end stay' },
]) {
  test(`INTEGER of ${bytes || 'nothing'} is ${expected}: ${why}`, () => {
    assert.equal(unsigned(Buffer.from(bytes, 'hex')).toString('hex'), expected)
  })
}

test('INTEGER of a number is the shortest form', () => {
  assert.deepEqual(
    [0, 127, 128, 255, 256, 10_000].map((value) => integer(value).toString('hex')),
    ['020100', '02017f', '02020080', '020200ff', '02020100', '02022710'],
  )
})

for (const { length, header } of [
  { length: 0, header: '0400' },
  { length: 127, header: '047f' },
  { length: 128, header: '048180' },
  { length: 255, header: '0481ff' },
  { length: 256, header: '04820100' },
  { length: 65_535, header: '0482ffff' },
  { length: 65_536, header: '0483010000' },
]) {
  test(`a length of ${length} is written in its shortest form, and read back`, () => {
    const value = der(TAG.octetString, Buffer.alloc(length, 1))
    assert.equal(value.subarray(0, header.length / 2).toString('hex'), header)
    assert.equal(value.length, header.length / 2 + length)
    assert.deepEqual(readValues(value), [{ tag: TAG.octetString, contents: Buffer.alloc(length, 1), whole: value }])
  })
}

for (const { date, tag, text } of [
  { date: '1950-01-01T00:00:00Z', tag: TAG.utcTime, text: '500101000000Z' },
  { date: '1949-12-31T23:59:59Z', tag: TAG.generalizedTime, text: '19491231235959Z' },
  { date: '2049-12-31T23:59:59.999Z', tag: TAG.utcTime, text: '491231235959Z' },
  { date: '2050-01-01T00:00:00Z', tag: TAG.generalizedTime, text: '20500101000000Z' },
]) {
  test(`${date} is ${text}`, () => {
    const value = time(Date.parse(date))
    assert.equal(value[0], tag)
    assert.equal(value.toString('latin1', 2), text)
  })
}

test('object identifiers with arcs of more than seven bits', () => {
  assert.equal(oid('1.2.840.113549.1.7.1').toString('hex'), '06092a864886f70d010701')
  assert.equal(oid('2.16.840.1.113894.746875.1.1').toString('hex'), '060c6086480186f966adca7b0101')
})

test('the items of a SET OF stand in the order of their encodings', () => {
  assert.equal(setOf(integer(300), integer(2), integer(1)).toString('hex'), '310a0201010201020202012c')
})

test('a BMPString is big-endian', () => assert.equal(bmpString('aä').toString('hex'), '1e04006100e4'))

test('PEM lines have 64 characters, and no line is empty', () => {
  assert.equal(pem('X', Buffer.alloc(48)), `-----BEGIN X-----\n${'A'.repeat(64)}\n-----END X-----\n`)
  assert.equal(pem('X', Buffer.alloc(51)), `-----BEGIN X-----\n${'A'.repeat(64)}\nAAAA\n-----END X-----\n`)
})

for (const hex of ['02', '0201', '02ff', '0280', '1f0100', '0285010000000001', '02010002']) {
  test(`${hex} is not read as values`, () => assert.equal(readValues(Buffer.from(hex, 'hex')), undefined))
}
