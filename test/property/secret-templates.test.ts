import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatTemplate, hasHandle, parseTemplate, type Piece } from '../../src/controller/handles/templates.ts'

const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'.split('')
const anyHandle = fc.array(fc.constantFrom(...LETTERS), { minLength: 32, maxLength: 32 }).map((letters) => `sph_${letters.join('')}`)
/** Much of what means something here. */
const anyText = fc
  .array(fc.oneof(fc.constantFrom('$', '$$', '{', '}', '${', '$${', 'sph_', '\n', '"'), fc.string({ unit: 'grapheme', maxLength: 4 })), {
    maxLength: 8,
  })
  .map((parts) => parts.join('').replaceAll('\0', ''))
  .filter((text) => text !== '' && !hasHandle(text))

/** Neighbouring texts are one. */
const anyPieces: fc.Arbitrary<Piece[]> = fc
  .array(
    fc.oneof(
      anyText.map((text): Piece => ({ text })),
      anyHandle.map((handle): Piece => ({ handle })),
    ),
    { maxLength: 8 },
  )
  .map((pieces) => pieces.filter((piece, at) => !('text' in piece && 'text' in (pieces[at - 1] ?? {}))))

test('what is written from pieces is read as the same pieces', () => {
  fc.assert(fc.property(anyPieces, (pieces) => assert.deepEqual(parseTemplate(formatTemplate(pieces), 'x'), pieces)))
})

test('a text is read in one way or refused, never with a handle in what is taken for text, and written again it reads the same', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        anyText,
        anyPieces.map(formatTemplate),
        fc.tuple(anyText, anyHandle, anyText).map((parts) => parts.join('')),
      ),
      (text) => {
        let pieces: Piece[]
        try {
          pieces = parseTemplate(text, 'x')
        } catch (error) {
          assert.equal((error as { code?: string }).code, 'template_invalid')
          return
        }
        assert.ok(pieces.every((piece) => !('text' in piece) || !hasHandle(piece.text)))
        assert.deepEqual(parseTemplate(formatTemplate(pieces), 'x'), pieces)
      },
    ),
  )
})
