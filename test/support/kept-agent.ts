import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** One kept connection of an agent, on which answers are told apart by their Content-Length. */
export type KeptAgent = Disposable & {
  /** Sends bytes and gives the answer: its text, and in how many pieces it arrived. */
  ask(bytes: string): Promise<{ readonly text: string; readonly pieces: number }>
}

export async function openKeptAgent(port: number): Promise<KeptAgent> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return keepAsking(socket)
}

/** The same on a connection that is there, such as one with TLS. One question at a time. */
export function keepAsking(socket: Socket): KeptAgent {
  let text = ''
  let pieces = 0
  let waiting = Promise.withResolvers<void>()
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
    pieces += 1
    if (isWhole(text)) waiting.resolve()
  })
  socket.once('close', () => waiting.reject(new Error(`the connection ended before its answer was whole: ${text}`)))
  // Who has not asked does not hear of the end.
  waiting.promise.catch(() => {})
  return {
    async ask(bytes) {
      ;[text, pieces, waiting] = ['', 0, Promise.withResolvers<void>()]
      socket.write(bytes)
      await waiting.promise
      return { text, pieces }
    },
    [Symbol.dispose]: () => void socket.destroy(),
  }
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  const length = /^content-length: *(\d+)/im.exec(text.slice(0, end + 2))?.[1]
  return end !== -1 && length !== undefined && text.length >= end + 4 + Number(length)
}
