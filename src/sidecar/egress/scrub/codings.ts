import type { Transform } from 'node:stream'
import {
  constants,
  createBrotliCompress,
  createBrotliDecompress,
  createDeflate,
  createDeflateRaw,
  createGunzip,
  createGzip,
  createInflate,
  createInflateRaw,
  createZstdCompress,
  createZstdDecompress,
  type ZlibOptions,
} from 'node:zlib'
import { SallyportError } from '../../../kernel/errors.ts'
import { LIMITS } from '../../../kernel/limits.ts'

/** A content coding (RFC 9110 §8.4.1, RFC 7932, RFC 8878) that can be undone and done again. */
export type Coding = 'gzip' | 'deflate' | 'br' | 'zstd'

/** A compressor or decompressor of Node's. */
export type ZlibStream = Transform & { readonly bytesWritten: number; flush(kind: number, callback: () => void): void }

const NAMES: Readonly<Record<string, Coding | 'identity'>> = {
  gzip: 'gzip',
  'x-gzip': 'gzip',
  deflate: 'deflate',
  br: 'br',
  zstd: 'zstd',
  identity: 'identity',
}

/** The codings that Content-Encoding names, in the order in which they were applied. */
export function readCodings(values: readonly string[]): { codings: Coding[] } | { problem: SallyportError } {
  const codings: Coding[] = []
  for (const name of values.flatMap((value) => value.split(',')).map((part) => part.trim())) {
    if (name === '') continue
    const coding = Object.hasOwn(NAMES, name.toLowerCase()) ? NAMES[name.toLowerCase()] : undefined
    // I24: its name is not told, as it may have a secret in it.
    if (coding === undefined) return { problem: notScrubbable('the answer has a content coding that cannot be undone') }
    if (coding !== 'identity') codings.push(coding)
  }
  if (codings.length > LIMITS.contentCodingsMax) return { problem: notScrubbable(`the answer has ${codings.length} content codings`) }
  return { codings }
}

export function notScrubbable(message: string, cause?: unknown): SallyportError {
  return new SallyportError('answer_not_scrubbable', message, {
    hint: 'a secret is bound to this host, so its answers are looked into; have the operator see "scrub" of the rule',
    ...(cause !== undefined && { cause }),
  })
}

/** How one coding is undone and done again, fast rather than small: it is for one reader, who is near. */
export type Codec = {
  decompress(): ZlibStream
  compress(): ZlibStream
  /** What has the compressor give all that it took so far. */
  readonly flush: number
}

const CHUNK = { chunkSize: 64 * 1024 }
const FAST = { ...CHUNK, level: constants.Z_BEST_SPEED }

const GZIP = codecOf(createGunzip, createGzip)
const ZLIB = codecOf(createInflate, createDeflate)
const RAW = codecOf(createInflateRaw, createDeflateRaw)
const BROTLI: Codec = {
  decompress: () => createBrotliDecompress(CHUNK),
  // A window of 256 KB: its size is memory, for each answer that is under way.
  compress: () => createBrotliCompress({ ...CHUNK, params: { [constants.BROTLI_PARAM_QUALITY]: 1, [constants.BROTLI_PARAM_LGWIN]: 18 } }),
  flush: constants.BROTLI_OPERATION_FLUSH,
}
const ZSTD: Codec = {
  // RFC 9659 §3: a content coding needs no window over 8 MB.
  decompress: () => createZstdDecompress({ ...CHUNK, params: { [constants.ZSTD_d_windowLogMax]: 23 } }),
  compress: () => createZstdCompress({ ...CHUNK, params: { [constants.ZSTD_c_compressionLevel]: 1 } }),
  flush: constants.ZSTD_e_flush,
}

/** How many bytes tell which codec it is. */
export const CODEC_BYTES: Readonly<Record<Coding, number>> = { gzip: 0, deflate: 2, br: 0, zstd: 0 }

/** @param first the beginning of what is coded, `CODEC_BYTES` or more */
export function codecFor(coding: Coding, first: Buffer): Codec {
  if (coding === 'gzip') return GZIP
  if (coding === 'br') return BROTLI
  if (coding === 'zstd') return ZSTD
  // RFC 9110 §8.4.1.2: "deflate" is zlib's format (RFC 1950 §2.2), and some send what is inside of it alone.
  const isZlib = first.length >= 2 && ((first[0] ?? 0) & 0x8f) === 0x08 && first.readUInt16BE(0) % 31 === 0
  return isZlib ? ZLIB : RAW
}

function codecOf(decompress: (options: ZlibOptions) => ZlibStream, compress: (options: ZlibOptions) => ZlibStream): Codec {
  return { decompress: () => decompress(CHUNK), compress: () => compress(FAST), flush: constants.Z_SYNC_FLUSH }
}
