import type { Socket } from 'node:net'
import { LIMITS } from '../../kernel/limits.ts'

/** Which requests of a connection are answered, and which is the last. */
export type Turns = {
  /** True while an answer is due on it. */
  isBusy(socket: Socket): boolean
  /** A request came in: which one of its connection it is, from 1, or undefined when too many wait for an answer. */
  begin(socket: Socket): number | undefined
  end(socket: Socket): void
  /** The connection gets its last answer, to this request: nothing that comes behind is processed (RFC 9112 §9.6). */
  refuse(socket: Socket, request: number): void
  /** True when the request is behind the last answer. */
  isRefused(socket: Socket, request: number): boolean
}

type State = { begun: number; running: number; lastAnswered: number }

export function createTurns(): Turns {
  const states = new WeakMap<Socket, State>()
  function stateOf(socket: Socket): State {
    let state = states.get(socket)
    if (!state) states.set(socket, (state = { begun: 0, running: 0, lastAnswered: Infinity }))
    return state
  }
  return {
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
      state.lastAnswered = Math.min(state.lastAnswered, request)
    },
    isRefused: (socket, request) => request > stateOf(socket).lastAnswered,
  }
}
