import type { Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'
import type { Tunnel } from '../egress/facts.ts'

/** What is known of the connections from agents while they last. */
export type Connections = {
  /** False when there are too many. The connection is counted until it closes. */
  add(socket: Socket): boolean
  destroyAll(): void
  tunnelOf(socket: Socket): Tunnel | undefined
  setTunnel(socket: Socket, tunnel: Tunnel): void
  /** True while an answer is due on it. */
  isBusy(socket: Socket): boolean
  /** A request came in: which one of its connection it is, from 1, or undefined when too many wait for an answer. */
  begin(socket: Socket): number | undefined
  end(socket: Socket): void
  /**
   * The connection gets its last answer, to this request or to what never became one: nothing that comes behind is processed
   * (RFC 9112 §9.6). False when it had one before.
   */
  refuse(socket: Socket, request?: number): boolean
  /** True when the request, or else the next, is behind the last answer. */
  isRefused(socket: Socket, request?: number): boolean
}

type State = { begun: number; running: number; lastAnswered: number }

export function createConnections(): Connections {
  const open = new Set<Socket>()
  const tunnels = new WeakMap<Socket, Tunnel>()
  const states = new WeakMap<Socket, State>()
  function stateOf(socket: Socket): State {
    let state = states.get(socket)
    if (!state) states.set(socket, (state = { begun: 0, running: 0, lastAnswered: Infinity }))
    return state
  }
  return {
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
    isBusy: (socket) => stateOf(socket).running > 0,
    begin(socket) {
      const state = stateOf(socket)
      if (state.running >= LIMITS.pipelinedMax) return undefined
      // Each unanswered request listens for the end of its connection.
      if (state.begun === 0) socket.setMaxListeners(LIMITS.pipelinedMax + 16)
      state.running += 1
      state.begun += 1
      return state.begun
    },
    end(socket) {
      stateOf(socket).running -= 1
    },
    refuse(socket, request) {
      const state = stateOf(socket)
      const isFirst = state.lastAnswered === Infinity
      state.lastAnswered = Math.min(state.lastAnswered, request ?? state.begun)
      return isFirst
    },
    isRefused(socket, request) {
      const state = stateOf(socket)
      return (request ?? state.begun + 1) > state.lastAnswered
    },
  }
}
