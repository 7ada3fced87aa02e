import type { Readable } from 'node:stream'

/** The lines of a stream, without their ends and none that is empty. @throws Error for one of more than `bytesMax` bytes */
export async function* linesOf(stream: Readable, bytesMax: number): AsyncGenerator<Buffer, void> {
  let parts: Buffer[] = []
  let length = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let from = 0
    for (let at = chunk.indexOf(0x0a); at !== -1; at = chunk.indexOf(0x0a, from)) {
      const line = Buffer.concat([...parts, chunk.subarray(from, at)])
      if (line.length > bytesMax) throw new Error('a line is too long')
      parts = []
      length = 0
      from = at + 1
      if (line.length > 0) yield line
    }
    const rest = chunk.subarray(from)
    length += rest.length
    if (length > bytesMax) throw new Error('a line is too long')
    if (rest.length > 0) parts.push(Buffer.from(rest))
  }
  if (parts.length > 0) yield Buffer.concat(parts)
}
