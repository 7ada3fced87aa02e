import type { Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'

/** The connections from agents while they last. */
export type Connections = {
  /** False when there are too many. The connection is counted until it closes. */
  add(socket: Socket): boolean
  destroyAll(): void
}

export function createConnections(): Connections {
  const open = new Set<Socket>()
  return {
    add(socket) {
      open.add(socket)
      socket.once('close', () => open.delete(socket))
      return open.size <= LIMITS.connectionsMax
    },
    destroyAll() {
      for (const socket of open) socket.destroy()
    },
  }
}
