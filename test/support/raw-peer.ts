import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { VERSION } from '../../src/kernel/version.ts'
import { SESSION, SIDECAR_LEASE } from './control.ts'
import { CONTROL_PROTOCOL } from '../../src/wire/control.ts'

export type RawFrame = Readonly<Record<string, unknown>>

/** Whoever is at a control socket and says what it likes, written apart from the channel. */
export type RawPeer = Disposable & {
  readonly socket: Socket
  send(...frames: RawFrame[]): void
  /** The next frame, or `undefined` when the connection ends before. */
  next(): Promise<RawFrame | undefined>
  /** The next that is no heartbeat, as text. */
  said(): Promise<string | undefined>
  /** All that arrived until the end, heartbeats too. Resolves when the other side has ended it. */
  toEnd(): Promise<string>
}

export const HELLO = { protocol: CONTROL_PROTOCOL, image: VERSION, session: SESSION, agent: 'agent', lease: SIDECAR_LEASE }

export function framed(text: string | Buffer): Buffer {
  const body = Buffer.from(text)
  const prefix = Buffer.alloc(4)
  prefix.writeUInt32BE(body.length)
  return Buffer.concat([prefix, body])
}

export function requestOf(id: number, method: string, params: unknown = {}): RawFrame {
  return { kind: 'request', id, method, params }
}

export async function openRawPeer(socketDir: string): Promise<RawPeer> {
  const socket = connect({ path: join(socketDir, 'control.sock') })
  let all = Buffer.alloc(0)
  let taken = 0
  let ended = false
  const arrived = (): Promise<unknown> => Promise.race([new Promise((resolve) => socket.once('data', resolve)), closed])
  socket.on('error', () => undefined)
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve(void (ended = true))))
  socket.on('data', (chunk: Buffer) => (all = Buffer.concat([all, chunk])))
  await Promise.race([new Promise((resolve) => socket.once('connect', resolve)), closed])
  const peer: RawPeer = {
    socket,
    send: (...frames) => void socket.write(Buffer.concat(frames.map((frame) => framed(JSON.stringify(frame))))),
    async next() {
      for (;;) {
        const length = all.length >= taken + 4 ? all.readUInt32BE(taken) : Infinity
        if (all.length >= taken + 4 + length) {
          const text = all.toString('utf8', taken + 4, taken + 4 + length)
          taken += 4 + length
          return JSON.parse(text) as RawFrame
        }
        if (ended) return undefined
        await arrived()
      }
    },
    async said() {
      for (;;) {
        const frame = await peer.next()
        if (frame?.['kind'] !== 'beat') return frame && JSON.stringify(frame)
      }
    },
    async toEnd() {
      await closed
      return all.toString('latin1')
    },
    [Symbol.dispose]: () => void socket.destroy(),
  }
  return peer
}

/** One that has proven to be the session's sidecar. */
export async function openProvenPeer(socketDir: string): Promise<RawPeer> {
  const peer = await openRawPeer(socketDir)
  peer.send(requestOf(1, 'INIT_HELLO', HELLO))
  const said = await peer.said()
  if (said === undefined || !said.includes('"answer"')) throw new Error(`it was not let in: ${said}`)
  return peer
}
