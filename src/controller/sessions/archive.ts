import type { Readable } from 'node:stream'

const BLOCK_BYTES = 512

export type ArchiveEntry = { readonly kind: 'file'; readonly content: Buffer } | { readonly kind: 'link'; readonly target: string }

/**
 * The first file or symbolic link of a tar archive (POSIX.1-1988 ustar; pax extensions are skipped). `undefined` for a folder, for
 * anything else, for an archive that breaks off, and for a file of more than `bytesMax`.
 */
export async function readArchiveEntry(stream: Readable, bytesMax: number): Promise<ArchiveEntry | undefined> {
  const read = createReader(stream)
  for (let extensions = 0; extensions <= 2; extensions += 1) {
    const header = await read(BLOCK_BYTES)
    if (header === undefined) return undefined
    const size = Number.parseInt(text(header, 124, 12).trim() || '0', 8)
    const kind = String.fromCharCode(header[156] ?? 0)
    if (!Number.isSafeInteger(size) || size < 0 || size > bytesMax) return undefined
    if (kind === 'x' || kind === 'g') {
      if ((await read(Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES)) === undefined) return undefined
      continue
    }
    if (kind === '2') return { kind: 'link', target: text(header, 157, 100) }
    if (kind !== '0' && kind !== '\0') return undefined
    const content = await read(size)
    return content === undefined ? undefined : { kind: 'file', content }
  }
  return undefined
}

/** Gives so many bytes each time, or `undefined` when fewer are left. */
function createReader(stream: Readable): (bytes: number) => Promise<Buffer | undefined> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  let held: Buffer = Buffer.alloc(0)
  return async (bytes) => {
    const parts = [held]
    let length = held.length
    while (length < bytes) {
      const next = await chunks.next()
      if (next.done === true) return undefined
      parts.push(next.value)
      length += next.value.length
    }
    const all = Buffer.concat(parts)
    held = all.subarray(bytes)
    return all.subarray(0, bytes)
  }
}

function text(header: Buffer, start: number, length: number): string {
  const field = header.subarray(start, start + length)
  const end = field.indexOf(0)
  return field.subarray(0, end === -1 ? length : end).toString('utf8')
}
