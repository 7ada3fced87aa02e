import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as zlib from 'node:zlib'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { answerWith, CANARY, cut, MARKS, NEVER, openScrubbing } from '../../support/scrubbing.ts'

type Format = { code: (bytes: Buffer) => Buffer; decode: (bytes: Buffer) => Buffer }

/** Each by the functions that hold a whole body at once. */
const FORMATS: Readonly<Record<string, Format & { coding: string }>> = {
  gzip: { coding: 'gzip', code: zlib.gzipSync, decode: zlib.gunzipSync },
  'x-gzip': { coding: 'X-GZip', code: zlib.gzipSync, decode: zlib.gunzipSync },
  'deflate in zlib': { coding: 'deflate', code: zlib.deflateSync, decode: zlib.inflateSync },
  'deflate alone': { coding: 'deflate', code: zlib.deflateRawSync, decode: zlib.inflateRawSync },
  br: { coding: 'br', code: zlib.brotliCompressSync, decode: zlib.brotliDecompressSync },
  zstd: { coding: 'zstd', code: zlib.zstdCompressSync, decode: zlib.zstdDecompressSync },
  'deflate, gzip': {
    coding: 'deflate, gzip',
    code: (bytes) => zlib.gzipSync(zlib.deflateSync(bytes)),
    decode: (bytes) => zlib.inflateSync(zlib.gunzipSync(bytes)),
  },
  'br, zstd, deflate': {
    coding: 'br,identity ,zstd, deflate',
    code: (bytes) => zlib.deflateRawSync(zlib.zstdCompressSync(zlib.brotliCompressSync(bytes))),
    decode: (bytes) => zlib.brotliDecompressSync(zlib.zstdDecompressSync(zlib.inflateRawSync(bytes))),
  },
}

/** Looks random to a compressor. */
const noise = (seed: number, length: number): string => {
  let state = seed
  return Array.from({ length }, () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return String.fromCharCode(0x61 + ((state >> 16) % 16))
  }).join('')
}
const PARTS = [noise(1, 30_000), `"${CANARY}"`, noise(2, 300), CANARY, CANARY, noise(3, 20_000), CANARY]
const SECRET = Buffer.from(PARTS.join(''))
const CLEAN = SECRET.toString().replaceAll(CANARY, MARKS)

for (const [name, { coding, code, decode }] of Object.entries(FORMATS)) {
  for (const size of [1, 7, 1000, 1_000_000])
    test(`${name} in pieces of ${size}: no byte of the secret comes out, and everything else as it was`, async () => {
      const run = openScrubbing()
      const bytes = code(size === 1 ? SECRET.subarray(29_900, 31_000) : SECRET)
      await answerWith(run, ['content-encoding', coding], cut(bytes, size), ['t', CANARY])
      assert.deepEqual(run.failures, [])
      assert.equal(decode(run.behind.bytes).toString(), size === 1 ? CLEAN.slice(29_900, 31_000) : CLEAN)
      assert.deepEqual(run.behind.rawTrailers, ['t', MARKS])
    })

  test(`${name}: an empty body and no body at all come out as they are`, async () => {
    const run = openScrubbing()
    await answerWith(run, ['content-encoding', coding], [code(Buffer.alloc(0))])
    assert.deepEqual([run.failures, decode(run.behind.bytes).length], [[], 0])
    const none = openScrubbing()
    await answerWith(none, ['content-encoding', coding], [])
    assert.deepEqual([none.failures, none.behind.bytes.length, none.behind.isEnded], [[], 0, true])
  })

  for (const kept of [1, 0.5, -1])
    test(`${name} of which ${kept < 1 ? (kept < 0 ? 'the last byte is missing' : 'half is missing') : 'only a byte came'} does not end well`, async () => {
      const run = openScrubbing()
      const bytes = code(SECRET)
      await answerWith(run, ['content-encoding', coding], [bytes.subarray(0, kept < 1 && kept > 0 ? bytes.length / 2 : kept)])
      assert.deepEqual(codes(run), ['answer_not_scrubbable'])
      assert.equal(run.behind.isEnded, false)
      assert.doesNotMatch(run.behind.everything, /canary/)
    })

  for (const behind of ['garbage', '\0', 'G'])
    for (const isApart of [true, false])
      test(`${name} with ${JSON.stringify(behind)} behind its end${isApart ? ', in a chunk of its own,' : ''} does not end well`, async () => {
        const run = openScrubbing()
        const chunks = [code(SECRET), Buffer.from(behind)]
        await answerWith(run, ['content-encoding', coding], isApart ? chunks : [Buffer.concat(chunks)])
        assert.deepEqual(codes(run), ['answer_not_scrubbable'])
        assert.equal(run.behind.isEnded, false)
      })

  test(`${name} that is none is refused before a head is sent`, async () => {
    const run = openScrubbing()
    await answerWith(run, ['content-encoding', coding], [Buffer.from(`{"not": "compressed", "key": "${CANARY}"}`)])
    assert.deepEqual(codes(run), ['answer_not_scrubbable'])
    assert.equal(run.behind.isAnswered, false)
  })
}

const codes = ({ failures }: { failures: { code: string }[] }): string[] => failures.map(({ code }) => code)

test('gzip of several members is one body, a secret over their border included', async () => {
  for (const size of [1, 1_000_000]) {
    const run = openScrubbing()
    const members = [`one ${CANARY.slice(0, 9)}`, `${CANARY.slice(9)} two`, '', 'three'].map((text) => zlib.gzipSync(text))
    await answerWith(run, ['content-encoding', 'gzip'], cut(Buffer.concat(members), size))
    assert.equal(zlib.gunzipSync(run.behind.bytes).toString(), `one ${MARKS} twothree`)
  }
})

for (const name of ['br', 'deflate in zlib', 'deflate alone'])
  test(`${name} has one body: a second behind it ends the answer`, async () => {
    const { coding = '', code } = FORMATS[name] ?? {}
    const bytes = code?.(Buffer.from('one')) ?? Buffer.alloc(0)
    for (const chunks of [[bytes, bytes], [Buffer.concat([bytes, bytes])]]) {
      const run = openScrubbing()
      await answerWith(run, ['content-encoding', coding], chunks)
      assert.deepEqual(codes(run), ['answer_not_scrubbable'])
    }
  })

test('zstd of several frames is one body, and one of very many frames in a piece is refused', async () => {
  const frame = (text: string): Buffer => zlib.zstdCompressSync(Buffer.from(text))
  for (const size of [1, 1_000_000]) {
    const run = openScrubbing()
    await answerWith(run, ['content-encoding', 'zstd'], cut(Buffer.concat([frame('one can'), frame(CANARY.slice(3))]), size))
    assert.equal(zlib.zstdDecompressSync(run.behind.bytes).toString(), `one ${MARKS}`)
  }
  const run = openScrubbing()
  await answerWith(
    run,
    ['content-encoding', 'zstd'],
    [Buffer.concat(Array.from({ length: LIMITS.compressedMembersMax + 2 }, () => frame('')))],
  )
  assert.deepEqual(codes(run), ['answer_not_scrubbable'])
})

test('zstd that asks for a window of more than 8 MB is refused', async () => {
  const params = { [zlib.constants.ZSTD_c_windowLog]: 24, [zlib.constants.ZSTD_c_contentSizeFlag]: 0 }
  const compressor = zlib.createZstdCompress({ params })
  compressor.end('small')
  const run = openScrubbing()
  await answerWith(run, ['content-encoding', 'zstd'], (await compressor.toArray()) as Buffer[])
  assert.deepEqual(codes(run), ['answer_not_scrubbable'])
})

const BOMB_BYTES = LIMITS.expandedBytesMax * 2
for (const { name, coding, bomb } of [
  { name: 'gzip', coding: 'gzip', bomb: () => zlib.gzipSync(Buffer.alloc(BOMB_BYTES)) },
  {
    name: 'br',
    coding: 'br',
    bomb: () => zlib.brotliCompressSync(Buffer.alloc(BOMB_BYTES), { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
  },
  { name: 'zstd', coding: 'zstd', bomb: () => zlib.zstdCompressSync(Buffer.alloc(BOMB_BYTES)) },
  { name: 'gzip in gzip', coding: 'gzip, gzip', bomb: () => zlib.gzipSync(zlib.gzipSync(Buffer.alloc(BOMB_BYTES))) },
])
  test(`${name} that expands without end is broken off`, async () => {
    const run = openScrubbing()
    await answerWith(run, ['content-encoding', coding], cut(bomb(), 16_000))
    assert.deepEqual(codes(run), ['answer_not_scrubbable'])
    assert.equal(run.behind.isEnded, false)
  })

test('a large body that compresses as usual is no bomb', async () => {
  const run = openScrubbing()
  const block = Buffer.from(noise(5, 64 * 1024))
  const gzip = zlib.createGzip({ level: 1 })
  let bytes = 0
  const answered = answerWithStream(run, gzip)
  for (; bytes <= LIMITS.expandedBytesMax; bytes += block.length)
    if (!gzip.write(block)) await new Promise((resolve) => gzip.once('drain', resolve))
  gzip.end()
  await answered
  assert.deepEqual(run.failures, [])
  assert.equal(zlib.gunzipSync(run.behind.bytes).length, bytes)
})

async function answerWithStream(run: ReturnType<typeof openScrubbing>, stream: AsyncIterable<Buffer>): Promise<void> {
  const { agent } = run.scrubbed
  agent.start(200, 'OK', ['content-encoding', 'gzip'])
  for await (const chunk of stream) if (!agent.write(chunk)) await new Promise<void>((resolve) => agent.onceDrained(resolve))
  agent.end([])
  await run.scrubbed.settled(NEVER)
}

type Compressor = zlib.Gzip | zlib.BrotliCompress | zlib.ZstdCompress

const flushedBy = (stream: Compressor, kind: number): Promise<void> =>
  new Promise((resolve) => stream.flush(kind, () => setImmediate(resolve)))

for (const { coding, compressor, kind, soFar } of [
  { coding: 'gzip', compressor: () => zlib.createGzip(), kind: 2, soFar: (bytes: Buffer) => zlib.gunzipSync(bytes, { finishFlush: 2 }) },
  {
    coding: 'deflate',
    compressor: () => zlib.createDeflate(),
    kind: 2,
    soFar: (bytes: Buffer) => zlib.inflateSync(bytes, { finishFlush: 2 }),
  },
  {
    coding: 'br',
    compressor: () => zlib.createBrotliCompress(),
    kind: 1,
    soFar: (bytes: Buffer) => zlib.brotliDecompressSync(bytes, { finishFlush: 1 }),
  },
  {
    coding: 'zstd',
    compressor: () => zlib.createZstdCompress(),
    kind: 1,
    soFar: (bytes: Buffer) => zlib.zstdDecompressSync(bytes, { finishFlush: 1 }),
  },
])
  test(`each event that an upstream flushed in ${coding} comes out whole before it says more`, async () => {
    const run = openScrubbing()
    const { agent } = run.scrubbed
    const upstream: Compressor = compressor()
    agent.start(200, 'OK', ['content-type', 'text/event-stream', 'content-encoding', coding])
    upstream.on('data', (chunk: Buffer) => agent.write(chunk))
    let expected = ''
    for (const event of [`data: one ${CANARY}\n\n`, 'data: two\r\n\r\n', `data: ${CANARY.slice(0, 5)}\n\n`]) {
      upstream.write(event)
      await flushedBy(upstream, kind)
      expected += event.replace(CANARY, MARKS)
      await run.behind.until(() => run.behind.written.length > 0 && soFar(run.behind.bytes).toString() === expected)
    }
    assert.equal(run.behind.isEnded, false)
    agent.abort()
  })
