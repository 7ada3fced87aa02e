import { open, type FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { createGunzip, createInflate, createZstdDecompress, type Gunzip, type Inflate, type ZstdDecompress } from 'node:zlib'
import { LIMITS } from '../../kernel/limits.ts'
import type { Redactor } from '../../redactor/redactor.ts'

const CHUNK_BYTES = 64 * 1024
const HEAD_BYTES = 8

/** Kinds of compressed data that are looked into (RFC 1952, 1950, 8878), by their first bytes. */
const LAYERS = {
  gzip: createGunzip,
  zlib: createInflate,
  zstd: createZstdDecompress,
} as const
type Layer = keyof typeof LAYERS
type Expanding = Gunzip | Inflate | ZstdDecompress

/** Compressed data that is not looked into: bzip2, xz, 7z, zip, lz4, rar, compress. */
const CLOSED = [
  '425a68',
  'fd377a585a00',
  '377abcaf271c',
  '504b0304',
  '504b0506',
  '504b0708',
  '04224d18',
  '526172211a07',
  '1f9d',
  '1fa0',
].map((hex) => Buffer.from(hex, 'hex'))

export type CleanFileParts = {
  readonly redactor: Redactor
  /** Bytes that may still be looked through, of all files of one command: a few of them may be expanded to a lot each. */
  readonly budget: { bytes: number }
  readonly signal: AbortSignal
}

/**
 * Copies a file as it is looked through, and says whether nothing was found in it, nor in what it is expanded to where it is compressed.
 * What cannot be expanded to its last byte, or is more than there is a budget for, is not clean.
 */
export async function isCleanFile(file: FileHandle, copyPath: string, parts: CleanFileParts): Promise<boolean> {
  const layers: Layer[] = []
  let bytesBefore = 0
  for (;;) {
    await using copy = layers.length === 0 ? await open(copyPath, 'wx', 0o644) : undefined
    const { content, innermost } = contentOf(file, layers)
    const seen = await look(content, parts, (chunk) => copy?.writeFile(chunk))
    await copy?.chmod(0o644)
    if (seen === undefined) return false
    // Behind the end of such data there may be more, which other programs expand as well.
    if (innermost !== undefined && innermost.bytesWritten !== bytesBefore) return false
    bytesBefore = seen.bytes
    const next = layerOf(seen.head)
    if (next === 'none') return true
    if (next === 'closed' || layers.length >= LIMITS.useOutputLayersMax) return false
    layers.push(next)
  }
}

/** Undefined when something was found, it is too long, or no such data. */
async function look(
  content: Readable,
  { redactor, budget, signal }: CleanFileParts,
  keep: (chunk: Buffer) => Promise<void> | undefined,
): Promise<{ readonly head: Buffer; readonly bytes: number } | undefined> {
  const stream = redactor.open()
  let head = Buffer.alloc(0)
  let bytes = 0
  try {
    for await (const chunk of content as AsyncIterable<Buffer>) {
      signal.throwIfAborted()
      bytes += chunk.length
      budget.bytes -= chunk.length
      if (budget.bytes < 0) return undefined
      if (head.length < HEAD_BYTES) head = Buffer.concat([head, chunk.subarray(0, HEAD_BYTES - head.length)])
      stream.push(chunk)
      if (stream.hits > 0) return undefined
      await keep(chunk)
    }
  } catch (error) {
    if (signal.aborted || !isOfZlib(error)) throw error
    return undefined
  } finally {
    content.destroy()
  }
  stream.flush()
  return stream.hits > 0 ? undefined : { head, bytes }
}

/** `innermost` counts what it took of the data before it. */
function contentOf(file: FileHandle, layers: readonly Layer[]): { readonly content: Readable; readonly innermost?: Expanding } {
  let content: Readable = Readable.from(chunksOf(file), { objectMode: false })
  let innermost: Expanding | undefined
  for (const layer of layers) {
    const before = content
    const expanded = LAYERS[layer]()
    before.on('error', (error) => expanded.destroy(error))
    expanded.on('close', () => before.destroy())
    innermost = expanded
    content = before.pipe(expanded)
  }
  return { content, ...(innermost && { innermost }) }
}

async function* chunksOf(file: FileHandle): AsyncGenerator<Buffer> {
  for (let at = 0; at <= LIMITS.useOutputBytesMax;) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(CHUNK_BYTES), 0, CHUNK_BYTES, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

function layerOf(head: Buffer): Layer | 'closed' | 'none' {
  if (CLOSED.some((magic) => head.subarray(0, magic.length).equals(magic))) return 'closed'
  const [first = 0, second = 0] = head
  if (first === 0x1f && second === 0x8b) return 'gzip'
  // A frame, or one that is skipped before it (RFC 8878 §3.1.2).
  if (/^(?:28b52ffd|5.2a4d18)/.test(head.toString('hex'))) return 'zstd'
  // CM 8 with a window of 32 KiB, as all that write it do, and a check over both bytes.
  return head.length > 1 && first === 0x78 && (first * 256 + second) % 31 === 0 ? 'zlib' : 'none'
}

/** What is wrong with the data, and not with the disk. */
function isOfZlib(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return code.startsWith('Z_') || code.startsWith('ZSTD_') || code === 'ERR_ZLIB' || code === 'ERR_BUFFER_TOO_LARGE'
}
