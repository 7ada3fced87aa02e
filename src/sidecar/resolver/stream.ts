import type { Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'

const LENGTH_BYTES = 2

/**
 * Answers the queries of one TCP connection, each behind its length (RFC 1035 §4.2.2, RFC 7766). `answer` gives nothing when the
 * connection is to end. At most one query that is not complete is held, for `LIMITS.dnsQueryMs`: one that claims to be
 * longer than `LIMITS.dnsMessageBytesMax` closes the connection before it is sent.
 */
export function serveStream(socket: Socket, answer: (query: Buffer) => Buffer | undefined): void {
  let held = Buffer.alloc(0)
  let isEnding = false
  const closeIn = (ms: number): NodeJS.Timeout => setTimeout(() => socket.destroy(), ms)
  let deadline = closeIn(LIMITS.dnsConnectionIdleMs)
  socket.on('close', () => clearTimeout(deadline))
  socket.on('error', () => undefined) // the close that follows is enough

  socket.on('data', (chunk: Buffer) => {
    if (isEnding) return
    const hadBegun = held.length > 0
    const { answers, rest } = answerAll(hadBegun ? Buffer.concat([held, chunk]) : chunk, answer)
    // A copy: the rest of a few bytes must not hold on to the whole chunk.
    held = Buffer.from(rest ?? [])
    isEnding = rest === undefined
    if (answers.length > 0) socket.write(Buffer.concat(answers))
    if (isEnding) return socket.destroySoon()
    // It asks, and does not read.
    if (socket.writableLength > LIMITS.dnsPendingBytesMax) return void socket.destroy()
    const isSameQuery = hadBegun && answers.length === 0
    if (isSameQuery) return
    clearTimeout(deadline)
    deadline = closeIn(held.length > 0 ? LIMITS.dnsQueryMs : LIMITS.dnsConnectionIdleMs)
  })
}

/** The framed answers to all complete queries, and the bytes behind those; no rest: the connection is to end. */
function answerAll(bytes: Buffer, answer: (query: Buffer) => Buffer | undefined): { answers: Buffer[]; rest: Buffer | undefined } {
  const answers: Buffer[] = []
  let at = 0
  while (at + LENGTH_BYTES <= bytes.length) {
    const end = at + LENGTH_BYTES + bytes.readUInt16BE(at)
    if (end - at - LENGTH_BYTES > LIMITS.dnsMessageBytesMax) return { answers, rest: undefined }
    if (end > bytes.length) break
    const answered = answer(bytes.subarray(at + LENGTH_BYTES, end))
    if (answered === undefined) return { answers, rest: undefined }
    const length = Buffer.alloc(LENGTH_BYTES)
    length.writeUInt16BE(answered.length)
    answers.push(length, answered)
    at = end
  }
  return { answers, rest: bytes.subarray(at) }
}
