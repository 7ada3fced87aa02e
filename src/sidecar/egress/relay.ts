import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { LIMITS } from '../../kernel/limits.ts'

/**
 * Copies bytes both ways until both sides have ended or one breaks. Each side is read only as fast as the other takes it. What does
 * not pass is left out.
 */
export function relay(
  agent: Duplex,
  upstream: Duplex,
  passes: (way: 'up' | 'down', chunk: Buffer) => boolean = () => true,
): Promise<{ bytesUp: number; bytesDown: number }> {
  return new Promise((resolve) => {
    const bytes = { bytesUp: 0, bytesDown: 0 }
    let open = 2
    const onClosed = (other: Duplex): void => {
      // What was read before the close still goes out; then the other side ends too.
      if (!other.destroyed) other.end(() => other.destroy())
      open -= 1
      if (open === 0) resolve(bytes)
    }
    copy(agent, upstream, (chunk) => {
      bytes.bytesUp += chunk.length
      return passes('up', chunk)
    })
    copy(upstream, agent, (chunk) => {
      bytes.bytesDown += chunk.length
      return passes('down', chunk)
    })
    for (const [socket, other] of [
      [agent, upstream],
      [upstream, agent],
    ] as const) {
      if (socket instanceof Socket) socket.setTimeout(LIMITS.tunnelIdleMs, () => socket.destroy())
      socket.on('error', () => socket.destroy())
      // An agent may go while the upstream is dialled: its 'close' will not come again.
      if (socket.closed) onClosed(other)
      else socket.on('close', () => onClosed(other))
    }
  })
}

function copy(from: Duplex, to: Duplex, passes: (chunk: Buffer) => boolean): void {
  from.on('data', (chunk: Buffer) => {
    if (!passes(chunk) || to.write(chunk)) return
    from.pause()
    to.once('drain', () => from.resume())
  })
  from.on('end', () => to.end())
  from.resume()
}
