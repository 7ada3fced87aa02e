import { PassThrough, Writable, type Readable } from 'node:stream'
import { LIMITS } from '../../kernel/limits.ts'
import { SallyportError } from '../../kernel/errors.ts'

const HEADER_BYTES = 8

/** Takes the engine's frames (a byte for the stream, three of nothing, a length) apart: `each` gets pieces of payload as they come. */
export function createFrameReader(each: (stream: 'stdout' | 'stderr', piece: Buffer) => void): (chunk: Buffer) => void {
  let header: Buffer = Buffer.alloc(0)
  let left = 0
  let stream: 'stdout' | 'stderr' = 'stdout'
  return (chunk) => {
    let rest = chunk
    while (rest.length > 0) {
      if (left === 0) {
        const wanted = HEADER_BYTES - header.length
        header = Buffer.concat([header, rest.subarray(0, wanted)])
        rest = rest.subarray(wanted)
        if (header.length < HEADER_BYTES) return
        stream = streamOf(header)
        left = header.readUInt32BE(4)
        header = Buffer.alloc(0)
        continue
      }
      const piece = rest.subarray(0, left)
      left -= piece.length
      rest = rest.subarray(piece.length)
      each(stream, piece)
    }
  }
}

function streamOf(header: Buffer): 'stdout' | 'stderr' {
  const kind = header[0]
  if (kind === undefined || kind > 2 || header.readUInt32BE(4) > LIMITS.engineFrameBytesMax)
    throw new SallyportError('engine_refused', `the engine's stream has a frame of kind ${kind} with ${header.readUInt32BE(4)} bytes`)
  return kind === 2 ? 'stderr' : 'stdout'
}

/** Both streams of a framed one. A reader of either that is behind holds the source back. */
export function splitFrames(source: Readable): { readonly stdout: Readable; readonly stderr: Readable } {
  const stdout = new PassThrough()
  const stderr = new PassThrough()
  const waits = new Set<PassThrough>()
  const read = createFrameReader((stream, piece) => {
    const target = stream === 'stdout' ? stdout : stderr
    if (!target.write(piece)) waits.add(target)
  })
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      try {
        read(chunk)
      } catch (error) {
        return done(error as Error)
      }
      const behind = [...waits].filter((target) => target.writableNeedDrain && !target.destroyed)
      waits.clear()
      void Promise.all(behind.map(drained)).then(() => done())
    },
  })
  const end = (error?: Error): void => {
    for (const target of [stdout, stderr]) {
      if (error === undefined) target.end()
      else target.destroy(error)
    }
  }
  sink.on('finish', () => end())
  sink.on('error', (error) => end(error))
  source.on('error', (error) => end(error))
  source.on('close', () => end())
  source.pipe(sink)
  return { stdout, stderr }
}

function drained(target: PassThrough): Promise<void> {
  return new Promise((resolve) => {
    target.once('drain', resolve)
    target.once('close', resolve)
  })
}
