import type { Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'
import type { Tunnel } from '../egress/facts.ts'

/** What is known of the connections from agents while they last. */
export type Connections = {
  readonly size: number
  /** False when there are too many. The connection is counted until it closes. */
  add(socket: Socket): boolean
  destroyAll(): void
  tunnelOf(socket: Socket): Tunnel | undefined
  setTunnel(socket: Socket, tunnel: Tunnel): void
  /** True while an answer is due on it. */
  isBusy(socket: Socket): boolean
  /** A request came in. False when the connection has too many. */
  begin(socket: Socket): boolean
  end(socket: Socket): void
  /** True when it has got its last answer. */
  isRefused(socket: Socket): boolean
  /** The connection gets its last answer: what it still sends is nobody's. False when it had that before. */
  refuse(socket: Socket): boolean
}

export function createConnections(): Connections {
  const open = new Set<Socket>()
  const tunnels = new WeakMap<Socket, Tunnel>()
  const running = new WeakMap<Socket, number>()
  const refused = new WeakSet<Socket>()
  const count = (socket: Socket): number => running.get(socket) ?? 0
  return {
    get size() {
      return open.size
    },
    add(socket) {
      open.add(socket)
      socket.once('close', () => open.delete(socket))
      return open.size <= LIMITS.connectionsMax
    },
    destroyAll() {
      for (const socket of open) socket.destroy()
    },
    tunnelOf: (socket) => tunnels.get(socket),
    setTunnel: (socket, tunnel) => void tunnels.set(socket, tunnel),
    isBusy: (socket) => count(socket) > 0,
    begin(socket) {
      if (count(socket) >= LIMITS.pipelinedMax) return false
      // Each unanswered request listens for the end of its connection.
      socket.setMaxListeners(LIMITS.pipelinedMax + 16)
      running.set(socket, count(socket) + 1)
      return true
    },
    end: (socket) => void running.set(socket, count(socket) - 1),
    isRefused: (socket) => refused.has(socket),
    refuse(socket) {
      if (refused.has(socket)) return false
      refused.add(socket)
      return true
    },
  }
}
