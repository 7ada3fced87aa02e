import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, isIPv6, type Socket } from 'node:net'
import { hostname } from 'node:os'
import { syslogMessage } from '../../audit/audit.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Receiver } from './copies.ts'
import type { CopyTarget } from './settings.ts'

type SyslogTarget = Extract<CopyTarget, { kind: 'syslog' }>
type UdpTarget = { readonly host: string; readonly port: number }

/** A receiver of RFC 5424: by UDP (RFC 5426), by TCP or a stream socket with octet counting (RFC 6587 §3.4.1). */
export function openSyslog(target: SyslogTarget): Receiver {
  const name = target.by === 'unix' ? `syslog unix:${target.path}` : `syslog ${target.by}://${target.host}:${target.port}`
  return target.by === 'udp' ? openUdp(name, target) : openStream(name, target)
}

function message(line: string): string {
  return syslogMessage(line, hostname(), process.pid)
}

function openUdp(name: string, { host, port }: UdpTarget): Receiver {
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4').unref()
  socket.on('error', () => undefined)
  return {
    name,
    async send(lines) {
      for (const line of lines) {
        const text = message(line).slice(0, LIMITS.auditSyslogBytesMax)
        await new Promise<void>((resolve, reject) =>
          socket.send(text, port, host, (error) => {
            if (error) reject(error)
            else resolve()
          }),
        )
      }
    },
    async [Symbol.asyncDispose]() {
      await new Promise<void>((resolve) => void socket.close(() => resolve()))
    },
  }
}

function openStream(name: string, target: Exclude<SyslogTarget, { by: 'udp' }>): Receiver {
  let socket: Socket | undefined
  const connected = async (signal: AbortSignal): Promise<Socket> => {
    if (socket !== undefined && !socket.destroyed && socket.writable) return socket
    const opened = target.by === 'unix' ? connect(target.path) : connect(target.port, target.host)
    opened.unref()
    socket = opened
    // A receiver has nothing to say; that it closed is seen by reading.
    opened.on('error', () => undefined).resume()
    try {
      await once(opened, 'connect', { signal })
    } catch (error) {
      opened.destroy()
      throw error
    }
    return opened
  }
  return {
    name,
    async send(lines, signal) {
      const stream = await connected(signal)
      const frames = lines.map((line) => message(line)).map((text) => `${text.length} ${text}`)
      const end = (): void => void stream.destroy()
      signal.addEventListener('abort', end, { once: true })
      try {
        await new Promise<void>((resolve, reject) => {
          stream.once('close', closed)
          stream.write(frames.join(''), 'latin1', (error) => {
            stream.off('close', closed)
            if (error) reject(error)
            else resolve()
          })
          function closed(): void {
            reject(Object.assign(new Error('the receiver closed the connection'), { code: 'ECONNRESET' }))
          }
        })
      } finally {
        signal.removeEventListener('abort', end)
      }
    },
    [Symbol.asyncDispose]() {
      socket?.end()
      return Promise.resolve()
    },
  }
}
