import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { LIMITS } from '../../kernel/limits.ts'
import type { DirectReads } from './direct-reads.ts'

/**
 * Copies bytes both ways until both sides have ended or one breaks. Each side is read only as fast as the other takes it. What does
 * not pass is left out. `reads` is what the upstream was dialled with, if with any.
 */
export function relay(
  agent: Duplex,
  upstream: Duplex,
  passes?: (way: 'up' | 'down', chunk: Buffer) => boolean,
  reads?: DirectReads,
): Promise<{ bytesUp: number; bytesDown: number }> {
  return new Promise((resolve) => {
    let bytesUp = 0
    let bytesDown = 0
    let open = 2
    const onClosed = (other: Duplex): void => {
      // What was read before the close still goes out; then the other side ends too, or is given up.
      if (!other.destroyed) {
        watch(other, LIMITS.tunnelHalfIdleMs, () => other.destroy())
        other.end(() => other.destroy())
      }
      open -= 1
      if (open === 0) resolve({ bytesUp, bytesDown: reads ? reads.bytes + bytesDown : bytesDown })
    }
    // Every byte of either way is read from the agent or written to it: one clock sees them all.
    const watched = agent instanceof Socket ? agent : upstream
    watch(watched, LIMITS.tunnelIdleMs, () => {
      agent.destroy()
      upstream.destroy()
    })
    for (const [from, to] of [
      [agent, upstream],
      [upstream, agent],
    ] as const) {
      from.on('error', destroyItself)
      from.on('end', () => {
        to.end()
        if (watched instanceof Socket) watched.setTimeout(LIMITS.tunnelHalfIdleMs)
      })
      // An agent may go while the upstream is dialled: its 'close' will not come again.
      if (from.closed) onClosed(to)
      else from.on('close', () => onClosed(to))
    }
    copy(agent, upstream, (chunk) => {
      bytesUp += chunk.length
      return passes === undefined || passes('up', chunk)
    })
    if (upstream instanceof Socket && reads?.start(upstream) === true) return
    copy(upstream, agent, (chunk) => {
      bytesDown += chunk.length
      return passes === undefined || passes('down', chunk)
    })
  })
}

function copy(from: Duplex, to: Duplex, passes: (chunk: Buffer) => boolean): void {
  from.on('data', (chunk: Buffer) => {
    if (!passes(chunk) || to.write(chunk)) return
    from.pause()
    to.once('drain', () => from.resume())
  })
  from.resume()
}

function watch(side: Duplex, idleMs: number, end: () => void): void {
  if (side instanceof Socket) side.setTimeout(idleMs, end)
}

function destroyItself(this: Duplex): void {
  this.destroy()
}
