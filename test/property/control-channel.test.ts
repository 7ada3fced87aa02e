import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createFrameDecoder, encodeFrame } from '../../src/channel/frames.ts'
import { createScanner } from '../../src/channel/marked-stream.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { Frame } from '../../src/wire/control.ts'

const MAX = 64 * 1024
const id = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER })
const word = fc.string({ minLength: 1, maxLength: 40, unit: 'binary' }).map((text) => text.toWellFormed())
const anything = fc.jsonValue({ maxDepth: 6 }) as fc.Arbitrary<unknown>
const frame: fc.Arbitrary<Frame> = fc.oneof(
  fc.record({ kind: fc.constant('request' as const), id, method: word, params: anything }),
  fc.record({ kind: fc.constant('answer' as const), id, result: anything }),
  fc.record({ kind: fc.constant('note' as const), method: word, params: anything }),
  fc.constant({ kind: 'beat' as const }),
)

/** The bytes in pieces, cut anywhere. */
function pieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b)
  return [...at, bytes.length].map((end, i) => Buffer.from(bytes.subarray(i === 0 ? 0 : at[i - 1], end)))
}

/** Frames until the decoder has no more, or the code of what it says of the bytes. */
function decodeAll(chunks: readonly Buffer[], max = MAX): { frames: unknown[]; code?: string } {
  const decoder = createFrameDecoder(() => max)
  const frames: unknown[] = []
  try {
    for (const chunk of chunks) {
      decoder.push(chunk)
      for (let next = decoder.next(); next; next = decoder.next()) frames.push(next.frame)
    }
    return { frames }
  } catch (error) {
    if (!(error instanceof SallyportError)) throw error
    return { frames, code: error.code }
  }
}

test('frames come out as they went in, however their bytes are cut', () => {
  fc.assert(
    fc.property(fc.array(frame, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 40 }), (frames, cuts) => {
      const bytes = Buffer.concat(frames.map((one) => encodeFrame(one, MAX)))
      // As JSON has them: it knows no -0.
      assert.deepEqual(decodeAll(pieces(bytes, cuts)), { frames: JSON.parse(JSON.stringify(frames)) as unknown[] })
    }),
    { numRuns: 400 },
  )
})

test('any bytes are frames or control_broken, in the same way however they are cut', () => {
  const hostile = fc.oneof(
    fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes)),
    // Behind a length that fits.
    fc.uint8Array({ minLength: 1, maxLength: 200 }).map((bytes) => Buffer.concat([lengthOf(bytes.length), bytes])),
    fc
      .string({ maxLength: 200, unit: fc.constantFrom('{', '}', '[', ']', '"', '\\', ':', ',', 'k', '1', 'e') })
      .map((text) => Buffer.concat([lengthOf(text.length), Buffer.from(text)])),
    frame.map((one) => encodeFrame(one, MAX)),
  )
  fc.assert(
    fc.property(fc.array(hostile, { maxLength: 6 }), fc.array(fc.nat(), { maxLength: 30 }), (parts, cuts) => {
      const bytes = Buffer.concat(parts)
      const whole = decodeAll([bytes])
      assert.deepEqual(decodeAll(pieces(bytes, cuts)), whole)
      assert.ok(whole.code === undefined || whole.code === 'control_broken')
      for (const one of whole.frames) assert.ok(Frame.safeParse(one).success)
    }),
    { numRuns: 600 },
  )
})

test('a length beyond the bound is refused with its fourth byte, whatever follows', () => {
  fc.assert(
    fc.property(fc.integer({ min: MAX + 1, max: 0xffff_ffff }), (length) => {
      assert.deepEqual(decodeAll([lengthOf(length)]), { frames: [], code: 'control_broken' })
    }),
  )
})

test('a frame nested deeper than the bound is refused, and brackets in texts are not nesting', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 2_000 }),
      fc.string({ unit: fc.constantFrom('[', '{', '"', '\\', 'x'), maxLength: 300 }),
      (depth, text) => {
        const params = `${'['.repeat(depth)}${JSON.stringify(text)}${']'.repeat(depth)}`
        const json = Buffer.from(`{"kind":"note","method":"x","params":${params}}`)
        const { frames } = decodeAll([Buffer.concat([lengthOf(json.length), json])])
        assert.equal(frames.length, depth + 1 <= LIMITS.controlDepthMax ? 1 : 0)
      },
    ),
  )
})

const nonce = fc.string({ minLength: 32, maxLength: 32, unit: fc.constantFrom(...Array.from('0123456789abcdef')) })
const between = fc.oneof(
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
  // The beginning of a mark, and one that is none.
  fc.constantFrom('\n', '\nSALLY', '\nSALLYPORT-CONTROL ', '\nSALLYPORT-CONTROL not-a-nonce\n').map((text) => Buffer.from(text)),
  frame.map((one) => encodeFrame(one, MAX)),
)

test('marks are found wherever they stand and however they are cut, and no byte between them is lost but what may become one', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(between, nonce), { maxLength: 5 }), fc.array(fc.nat(), { maxLength: 30 }), (parts, cuts) => {
      const bytes = Buffer.concat(parts.flatMap(([before, mark]) => [before, Buffer.from(`\nSALLYPORT-CONTROL ${mark}\n`)]))
      const scan = createScanner()
      const found: { before: string; mark: string }[] = []
      let before = ''
      for (const part of pieces(bytes, cuts).flatMap((piece) => scan(piece))) {
        if (typeof part !== 'string') before += part.toString('hex')
        else {
          found.push({ before, mark: part })
          before = ''
        }
      }
      assert.deepEqual(
        found,
        parts.map(([bytesBefore, mark]) => ({ before: bytesBefore.toString('hex'), mark })),
      )
    }),
    { numRuns: 500 },
  )
})

test('no frame has a mark in it', () => {
  fc.assert(
    fc.property(frame, fc.constantFrom('', '\nSALLYPORT-CONTROL 0123456789abcdef0123456789abcdef\n'), (one, text) => {
      const hostile = one.kind === 'note' ? { ...one, params: text } : one
      const parts = createScanner()(encodeFrame(hostile, MAX))
      assert.ok(parts.every((part) => typeof part !== 'string'))
    }),
  )
})

function lengthOf(bytes: number): Buffer {
  const prefix = Buffer.alloc(4)
  prefix.writeUInt32BE(bytes)
  return prefix
}
