import type { Http2Stream } from 'node:http2'

/** Small pieces are gathered in blocks of so many bytes. */
const BLOCK_BYTES = 16 * 1024

/**
 * Calls `whole` when END_STREAM arrives, and keeps what waits to be read no bigger than the stream's window.
 *
 * Node ends the readable side alike for END_STREAM and for a reset with NO_ERROR, which would make half an answer look like a
 * whole one; it marks the stream as closed before the latter only. And each DATA frame that waits holds all of the read that
 * it came in: an upstream that sends single bytes to an agent that does not read would hold a thousand times its window.
 */
export function watchArrival(stream: Http2Stream, whole: () => void): void {
  const push = stream.push.bind(stream)
  let block = Buffer.alloc(0)
  let used = 0
  function flush(): void {
    if (used > 0) push(block.subarray(0, used))
    block = Buffer.alloc(0)
    used = 0
  }
  stream.on('resume', flush)
  stream.push = (chunk: Buffer | null): boolean => {
    if (chunk === null) {
      if (!stream.closed && !stream.destroyed) whole()
      if (!stream.destroyed) flush()
      return push(null)
    }
    if (!stream.isPaused() || chunk.length >= BLOCK_BYTES) {
      flush()
      return push(chunk)
    }
    if (used + chunk.length > block.length) {
      flush()
      block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
    }
    used += chunk.copy(block, used)
    return false // no more, until somebody reads
  }
}
