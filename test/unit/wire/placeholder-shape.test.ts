import { describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { DEFAULT_SHAPE, parseShape, SHAPE_ALPHABETS } from '../../../src/wire/placeholder-shape.ts'

describe('the shape of a placeholder', () => {
  test('is literal text and slots, in their order', () => {
    assert.deepEqual(parseShape('github_pat_<alnum:22>_<alnum:59>'), {
      kind: 'template',
      parts: ['github_pat_', { alphabet: 'alnum', count: 22 }, '_', { alphabet: 'alnum', count: 59 }],
    })
    assert.deepEqual(parseShape('<digits:9>:<base64url:35>'), {
      kind: 'template',
      parts: [{ alphabet: 'digits', count: 9 }, ':', { alphabet: 'base64url', count: 35 }],
    })
    assert.deepEqual(parseShape('AC<hex:32>'), { kind: 'template', parts: ['AC', { alphabet: 'hex', count: 32 }] })
    assert.deepEqual(parseShape('AKIA<upper:16>'), { kind: 'template', parts: ['AKIA', { alphabet: 'upper', count: 16 }] })
  })

  test('is a JSON Web Token by one word', () => assert.deepEqual(parseShape('jwt'), { kind: 'jwt' }))

  test('is forty letters and digits where none is said', () =>
    assert.deepEqual(parseShape(DEFAULT_SHAPE), { kind: 'template', parts: [{ alphabet: 'alnum', count: 40 }] }))

  test('may have slots side by side, and 512 characters', () => {
    assert.equal(typeof parseShape('<digits:8><hex:8>'), 'object')
    assert.equal(typeof parseShape('<alnum:512>'), 'object')
  })

  for (const { text, complaint, why } of [
    { text: '', complaint: /slots have 0/, why: 'nothing' },
    { text: 'a-fixed-value-of-some-length', complaint: /slots have 0/, why: 'the same in every session' },
    { text: 'ghp_<alnum:15>', complaint: /slots have 15/, why: 'too few characters that differ' },
    { text: '<alnum:513>', complaint: /513 characters/, why: 'too long' },
    { text: `${'x'.repeat(500)}<alnum:16>`, complaint: /516 characters/, why: 'too long by its literals' },
    { text: '<alnum:0>x<alnum:20>', complaint: /no characters/, why: 'an empty slot' },
    {
      text: '<letters:40>',
      complaint: /"letters" is not one of the alphabets alnum, base64url, upper, hex, digits/,
      why: 'no such alphabet',
    },
    { text: '<constructor:40>', complaint: /"constructor" is not/, why: 'a name that every object has' },
    { text: '<alnum>', complaint: /<alphabet:count>/, why: 'no count' },
    { text: '<alnum:-4>', complaint: /<alphabet:count>/, why: 'a negative count' },
    { text: '<alnum:1e3>', complaint: /<alphabet:count>/, why: 'a count in another notation' },
    { text: '<ALNUM:40>', complaint: /<alphabet:count>/, why: 'other letters than the alphabet is named by' },
    { text: '<alnum:40', complaint: /pairs/, why: 'a bracket that stays open' },
    { text: 'x>alnum:40<', complaint: /pairs/, why: 'brackets the wrong way round' },
    { text: '<alnum:20>>x<<alnum:20>', complaint: /./, why: 'doubled brackets' },
    { text: 'a b<alnum:40>', complaint: /"a b"/, why: 'a space' },
    { text: 'a%41<alnum:40>', complaint: /%41/, why: 'an escape' },
    { text: 'a/<alnum:40>', complaint: /"a\/"/, why: 'a slash would be a border in a path' },
    { text: 'ü<alnum:40>', complaint: /"ü"/, why: 'not ASCII' },
    { text: 'a\n<alnum:40>', complaint: /character/, why: 'a line break' },
    { text: 'JWT', complaint: /slots have 0/, why: 'the word in capitals is literal text' },
  ]) {
    test(`${JSON.stringify(text.slice(0, 40))} is refused: ${why}`, () => {
      const answer = parseShape(text)
      assert.ok(typeof answer === 'string')
      assert.match(answer, complaint)
    })
  }

  test('every alphabet has each of its characters once, and none that a URL escapes', () => {
    for (const letters of Object.values(SHAPE_ALPHABETS)) {
      assert.equal(new Set(letters).size, letters.length)
      assert.equal(encodeURIComponent(letters), letters)
    }
  })
})
