import assert from 'node:assert/strict'
import { PassThrough, Readable } from 'node:stream'
import { test } from 'node:test'
import fc from 'fast-check'
import { readArchiveEntry } from '../../src/controller/sessions/archive.ts'
import { createFrameReader, splitFrames } from '../../src/controller/sessions/frames.ts'

const Frame = fc.record({ stream: fc.constantFrom(0, 1, 2), payload: fc.uint8Array({ maxLength: 300 }) })

function encode(frames: readonly { stream: number; payload: Uint8Array }[]): Buffer {
  return Buffer.concat(
    frames.map(({ stream, payload }) => {
      const header = Buffer.alloc(8)
      header[0] = stream
      header.writeUInt32BE(payload.length, 4)
      return Buffer.concat([header, payload])
    }),
  )
}

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = []
  let at = 0
  for (let index = 0; at < bytes.length; index += 1) {
    const size = sizes.length === 0 ? bytes.length : (sizes[index % sizes.length] ?? 1)
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}

const Sizes = fc.array(fc.integer({ min: 1, max: 50 }), { maxLength: 8 })
const joined = (frames: readonly { stream: number; payload: Uint8Array }[], isErr: boolean): Buffer =>
  Buffer.concat(frames.filter(({ stream }) => (stream === 2) === isErr).map(({ payload }) => payload))

test('frames come apart into the bytes that went in, however they are cut', () => {
  fc.assert(
    fc.property(fc.array(Frame, { maxLength: 20 }), Sizes, (frames, sizes) => {
      const out = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
      const read = createFrameReader((stream, piece) => out[stream].push(piece))
      for (const piece of cut(encode(frames), sizes)) read(piece)
      assert.deepEqual(Buffer.concat(out.stdout), joined(frames, false))
      assert.deepEqual(Buffer.concat(out.stderr), joined(frames, true))
    }),
  )
})

test('both streams of a framed one end with it, with every byte', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(Frame, { maxLength: 20 }), Sizes, async (frames, sizes) => {
      const { stdout, stderr } = splitFrames(Readable.from(cut(encode(frames), sizes), { objectMode: false }))
      const [out, err] = await Promise.all([stdout.toArray(), stderr.toArray()])
      assert.deepEqual(Buffer.concat(out as Buffer[]), joined(frames, false))
      assert.deepEqual(Buffer.concat(err as Buffer[]), joined(frames, true))
    }),
  )
})

test('a reader that is behind holds the source back', async () => {
  const source = new PassThrough({ highWaterMark: 1024 })
  const { stdout, stderr } = splitFrames(source)
  stderr.resume()
  const frame = encode([{ stream: 1, payload: Buffer.alloc(60_000) }])
  let sent = 0
  while (source.write(frame)) {
    sent += 1
    await new Promise((resolve) => setImmediate(resolve))
    assert.ok(sent < 100, 'it takes bytes without end')
  }
  source.end()
  let bytes = 0
  for await (const piece of stdout) bytes += (piece as Buffer).length
  assert.equal(bytes, (sent + 1) * 60_000)
})

for (const { what, header } of [
  { what: 'of an unknown kind', header: [3, 0, 0, 0, 0, 0, 0, 1] },
  { what: 'of four gigabytes', header: [1, 0, 0, 0, 255, 255, 255, 255] },
])
  test(`a frame ${what} ends the stream with an error instead of being believed`, async () => {
    const { stdout, stderr } = splitFrames(Readable.from([Buffer.from(header)], { objectMode: false }))
    stderr.on('error', () => {})
    await assert.rejects(stdout.toArray(), { code: 'engine_refused' })
  })

function tar(kind: string, size: number, content: Uint8Array, link = ''): Buffer {
  const header = Buffer.alloc(512)
  header.write('name')
  header.write(size.toString(8).padStart(11, '0'), 124)
  header.write(kind, 156)
  header.write(link, 157)
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)])
}

test('a file of an archive is read whole, however it is cut and whatever pax header stands before', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 2_000 }), Sizes, fc.boolean(), async (content, sizes, hasPax) => {
      const archive = Buffer.concat([...(hasPax ? [tar('x', 3, Buffer.from('abc'))] : []), tar('0', content.length, content)])
      const entry = await readArchiveEntry(Readable.from(cut(archive, sizes), { objectMode: false }), 10_000)
      assert.deepEqual(entry, { kind: 'file', content: Buffer.from(content) })
    }),
  )
})

test('an archive of any bytes gives an entry or nothing, within the bound', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 1_500 }), Sizes, async (bytes, sizes) => {
      const entry = await readArchiveEntry(Readable.from(cut(Buffer.from(bytes), sizes), { objectMode: false }), 1_000)
      if (entry?.kind === 'file') assert.ok(entry.content.length <= 1_000)
    }),
  )
})

test('a file above the bound, a folder, a device and a file that breaks off give nothing; a link gives its target', async () => {
  const read = (bytes: Buffer) => readArchiveEntry(Readable.from([bytes], { objectMode: false }), 1_000)
  assert.equal(await read(tar('0', 1_001, Buffer.alloc(1_001))), undefined)
  assert.equal(await read(tar('5', 0, Buffer.alloc(0))), undefined)
  assert.equal(await read(tar('3', 0, Buffer.alloc(0))), undefined)
  assert.equal(await read(tar('0', 900, Buffer.alloc(10))), undefined)
  assert.deepEqual(await read(tar('2', 0, Buffer.alloc(0), '../x')), { kind: 'link', target: '../x' })
})
