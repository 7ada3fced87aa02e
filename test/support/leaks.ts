import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync, zstdDecompressSync } from 'node:zlib'

/** So many characters of a secret in a row are a leak. */
const PART_CHARS = 6
/** Encodings over encodings that are undone. */
const DEPTH = 3

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }
const SHORT: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' }

const latin1 = (bytes: Buffer): string => bytes.toString('latin1')
const code = (hex: string): string => String.fromCodePoint(Number.parseInt(hex, 16))

/** What an agent can do to find a secret in what it got. Written apart from what the gate does to hide it. */
const DECODERS: Readonly<Record<string, (text: string) => string>> = {
  percent: (text) => text.replaceAll(/%([0-9a-f]{2})/gi, (_all, hex: string) => code(hex)),
  plus: (text) => text.replaceAll('+', ' '),
  backslash: (text) =>
    text.replaceAll(/\\(?:u([0-9a-f]{4})|x([0-9a-f]{2})|([\s\S]))/gi, (_all, u?: string, x?: string, other?: string) =>
      other === undefined ? code(u ?? x ?? '') : (SHORT[other] ?? other),
    ),
  html: (text) =>
    text.replaceAll(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (all: string, hex?: string, decimal?: string, name?: string) =>
      hex !== undefined ? code(hex) : decimal !== undefined ? String.fromCodePoint(Number(decimal)) : (NAMED[name ?? ''] ?? all),
    ),
  unfolded: (text) => text.replaceAll(/\r?\n[ \t]?/g, ''),
  base64: (text) =>
    (text.match(/[A-Za-z0-9+/_-]{8,}/g) ?? [])
      .flatMap((run) => [0, 1, 2, 3].map((offset) => latin1(Buffer.from(run.slice(offset), 'base64url'))))
      .join('\n'),
  hex: (text) =>
    (text.match(/[0-9a-f]{12,}/gi) ?? [])
      .flatMap((run) => [0, 1].map((offset) => latin1(Buffer.from(run.slice(offset), 'hex'))))
      .join('\n'),
}

/** The first part of the secret that can be read in the bytes, and how; undefined where none can. */
export function leakIn(bytes: Buffer | string, secret: string): string | undefined {
  const parts = Array.from({ length: Math.max(secret.length - PART_CHARS + 1, 1) }, (_, i) => secret.slice(i, i + PART_CHARS))
  const first = typeof bytes === 'string' ? bytes : latin1(bytes)
  const seen = new Set([first])
  let level = [{ text: first, by: 'as it is' }]
  for (let depth = 0; depth <= DEPTH; depth++) {
    for (const { text, by } of level) {
      const part = parts.find((one) => text.includes(one))
      if (part !== undefined) return `"${part}" ${by}`
    }
    const next: typeof level = []
    for (const { text, by } of level) {
      for (const [name, decode] of Object.entries(DECODERS)) {
        const decoded = decode(text)
        if (decoded.length < PART_CHARS || seen.has(decoded)) continue
        seen.add(decoded)
        next.push({ text: decoded, by: `${by}, ${name}` })
      }
    }
    level = next
  }
  return undefined
}

/** A body without its content codings, as far as it can be read. */
export function unpacked(body: Buffer, contentEncoding: string | undefined): Buffer {
  const codings = (contentEncoding ?? '').split(',').map((name) => name.trim().toLowerCase())
  let bytes = body
  for (const coding of codings.toReversed()) {
    if (coding === 'gzip' || coding === 'x-gzip') bytes = gunzipSync(bytes)
    else if (coding === 'br') bytes = brotliDecompressSync(bytes)
    else if (coding === 'zstd') bytes = zstdDecompressSync(bytes)
    else if (coding === 'deflate') bytes = ((bytes[0] ?? 0) & 15) === 8 ? inflateSync(bytes) : inflateRawSync(bytes)
  }
  return bytes
}
