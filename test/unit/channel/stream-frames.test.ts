import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { encodeFrames, encodeJsonFrame, FrameDecoder } from '../../../src/channel/stream-frames.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { ExecRequest, FRAME, TerminalSize } from '../../../src/wire/stream-frames.ts'
import { inChunks } from '../../support/filtered.ts'

const frame = fc.tuple(fc.constantFrom(...Object.values(FRAME)), fc.uint8Array({ maxLength: 200 }))
const cuts = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 })

test('frames come out as they went in, however they are cut', () => {
  fc.assert(
    fc.property(fc.array(frame, { maxLength: 10 }), cuts, (frames, sizes) => {
      const decoder = new FrameDecoder()
      const found: [number, string][] = []
      for (const chunk of inChunks(Buffer.concat(frames.map(([type, payload]) => encodeFrames(type, payload))), sizes)) {
        for (const { type, payload } of decoder.push(chunk)) found.push([type, payload.toString('hex')])
      }
      assert.deepEqual(
        found,
        frames.map(([type, payload]) => [type, Buffer.from(payload).toString('hex')]),
      )
      assert.equal(decoder.isBetweenFrames, true)
    }),
  )
})

test('a payload that is longer than a frame goes in several', () => {
  const bytes = Buffer.alloc(2 * LIMITS.streamFrameBytesMax + 1, 'x')
  const frames = new FrameDecoder().push(encodeFrames(FRAME.stdout, bytes))
  assert.deepEqual(
    frames.map(({ payload }) => payload.length),
    [LIMITS.streamFrameBytesMax, LIMITS.streamFrameBytesMax, 1],
  )
})

for (const { bytes, why } of [
  { bytes: [FRAME.stdin, 0xff, 0xff, 0xff, 0xff], why: 'four gigabytes are announced' },
  { bytes: [FRAME.stdin, 0, 1, 0, 1], why: 'one byte too many is announced' },
  { bytes: [9, 0, 0, 0, 0], why: 'there is no such type' },
])
  test(`a stream ends when ${why}`, () => assert.throws(() => new FrameDecoder().push(Buffer.from(bytes)), { code: 'stream_lost' }))

test('whatever arrives, frames come of it or the stream ends, and no more than a frame is held', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), cuts, (bytes, sizes) => {
      const decoder = new FrameDecoder()
      try {
        for (const chunk of inChunks(bytes, sizes)) decoder.push(chunk)
      } catch (error) {
        assert.equal((error as { code: string }).code, 'stream_lost')
      }
    }),
  )
})

test('a value that does not fit into one frame is refused before it is sent', () => {
  assert.throws(() => encodeJsonFrame(FRAME.request, { argv: ['x'.repeat(LIMITS.streamFrameBytesMax)] }), { code: 'usage' })
})

test('no size that no terminal has, and no program with a NUL in its name, is a request', () => {
  for (const size of [
    { columns: 0, rows: 1 },
    { columns: 1e5, rows: 1 },
    { columns: 1.5, rows: 1 },
    { columns: 1 },
    { columns: 1, rows: 1, x: 1 },
  ])
    assert.equal(TerminalSize.safeParse(size).success, false, JSON.stringify(size))
  const terminal = { stdout: false, stderr: false }
  assert.equal(ExecRequest.safeParse({ argv: ['ls'], tty: false, terminal }).success, true)
  for (const argv of [[], ['a\0b'], 'ls']) assert.equal(ExecRequest.safeParse({ argv, tty: false, terminal }).success, false)
})
