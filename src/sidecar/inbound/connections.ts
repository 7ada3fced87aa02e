import type { Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'

/** The connections from agents while they last. */
export type Connections = {
  /** False when there are too many. The connection is counted until it closes. */
  add(socket: Socket): boolean
  destroyAll(): void
}

/** @param within all of the gate, of which these are a part: they count there too, and end without the others */
export function createConnections(within?: Connections): Connections {
  const open = new Set<Socket>()
  return {
    add(socket) {
      open.add(socket)
      socket.once('close', () => open.delete(socket))
      return within ? within.add(socket) : open.size <= LIMITS.connectionsMax
    },
    destroyAll() {
      for (const socket of open) socket.destroy()
    },
  }
}
