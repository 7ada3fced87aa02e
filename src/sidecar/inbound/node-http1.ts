import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { CameBy, Handle } from '../egress/handle.ts'
import { NodeHttp1Agent, NodeUpgradingAgent } from './node-http1-agent.ts'
import { createTurns } from './turns.ts'

/** HTTP/1 as Node's own server reads it, for the routes of the gateway. */
export type NodeHttp1 = {
  onRequest(request: IncomingMessage, response: ServerResponse): void
  onUpgrade(request: IncomingMessage, socket: Socket, head: Buffer): void
}

export function createNodeHttp1(handle: Handle, by: CameBy): NodeHttp1 {
  const turns = createTurns()
  /**
   * The end of the last request of a connection. One that is pipelined behind it waits: side by side a read could overtake
   * the write before it (RFC 9112 §9.3.2).
   */
  const ends = new WeakMap<Socket, Promise<void>>()
  return {
    onRequest(request, response) {
      const { socket } = request
      const before = turns.isBusy(socket) ? ends.get(socket) : undefined
      const number = turns.begin(socket)
      if (number === undefined) {
        socket.destroy()
        return
      }
      // The answer ends it, not the audit of its end. One that waits its turn may never be told.
      let isOver = false
      const end = (): void => {
        if (!isOver) turns.end(socket)
        isOver = true
      }
      response.once('finish', end).once('close', end)
      const turn = async (): Promise<void> => {
        await before
        // RFC 9112 §9.6: what comes behind a last answer is not processed.
        if (socket.destroyed || turns.isRefused(socket, number)) return
        await handle(new NodeHttp1Agent(request, response, turns, number), by)
      }
      const ended = turn()
        .catch(() => void socket.destroy())
        .finally(end)
      ends.set(socket, ended)
    },
    onUpgrade(request, socket, head) {
      // What it becomes and an answer that is still due would be one stream.
      const number = turns.isBusy(socket) ? undefined : turns.begin(socket)
      if (number === undefined || turns.isRefused(socket, number)) {
        socket.destroy()
        return
      }
      void handle(new NodeUpgradingAgent(request, socket, head, turns, number), by)
        .catch(() => socket.destroy())
        .finally(() => turns.end(socket))
    },
  }
}
