import { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { LIMITS } from '../../kernel/limits.ts'

/** RFC 6455 §7.4.1. */
const NORMAL_CLOSURE = 1000
const COUNT = /^\d{1,7}$/

/**
 * The bytes in the binary messages of a WebSocket, both ways. Neither side is ahead of the other without end: what the page sends is read
 * when there is room for it, and what is sent waits once the page has so much that it has not shown yet. A browser holds whatever arrives,
 * so the page says in text messages what it has shown.
 */
export function openMessages(socket: WebSocket): Duplex {
  let ahead = 0
  let waiting: (() => void) | undefined
  const goOn = (): void => {
    const done = waiting
    waiting = undefined
    done?.()
  }
  const stream = new Duplex({
    readableHighWaterMark: LIMITS.pageTerminalMessageBytesMax,
    read: () => socket.resume(),
    write(chunk: Buffer, _encoding, done) {
      ahead += chunk.length
      socket.send(chunk, (error) => {
        if (error instanceof Error) return done(error)
        if (ahead <= LIMITS.pageTerminalAheadBytesMax) return done()
        waiting = done
      })
    },
    final(done) {
      socket.close(NORMAL_CLOSURE)
      done()
    },
    destroy(error, done) {
      socket.terminate()
      goOn()
      done(error)
    },
  })
  socket.on('message', (data, isBinary) => {
    if (isBinary) return void (stream.push(data) || socket.pause())
    const count = (data as Buffer).toString('latin1')
    // More than was sent is said by no page of ours.
    if (!COUNT.test(count) || Number(count) > ahead) return void stream.destroy()
    ahead -= Number(count)
    if (ahead <= LIMITS.pageTerminalAheadBytesMax) goOn()
  })
  socket.on('error', () => stream.destroy())
  socket.on('close', () => stream.destroy())
  return stream
}
