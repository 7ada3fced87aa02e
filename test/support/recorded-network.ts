import { Resolver } from 'node:dns/promises'
import { Socket } from 'node:net'
import { mock } from 'node:test'

export type RecordedNetwork = Disposable & {
  /** Every name that this process looked up, once a question. */
  readonly asked: string[]
  /** Every address outside of 127.0.0.0/8 that a connection was tried to. None was made. */
  readonly dialled: string[]
  /** What the DNS says of a name. By default nothing. */
  answer: (host: string, family: 4 | 6) => readonly string[]
}

/**
 * The outside, as far as this process can tell: a DNS that the test makes up, and no way to any address but loopback. What was
 * asked for and dialled is written down, so that a test of what must not leave sends nothing anywhere even when it fails.
 */
export function recordNetwork(): RecordedNetwork {
  const recorded: Pick<RecordedNetwork, 'asked' | 'dialled' | 'answer'> = { asked: [], dialled: [], answer: () => [] }
  const ask = (family: 4 | 6) => async (host: string) => {
    recorded.asked.push(host)
    return recorded.answer(host, family).map((address) => ({ address, ttl: 1 }))
  }
  const connect = Object.getOwnPropertyDescriptor(Socket.prototype, 'connect')?.value as (...args: unknown[]) => Socket
  const mocks = [
    mock.method(Resolver.prototype, 'resolve4', ask(4) as never),
    mock.method(Resolver.prototype, 'resolve6', ask(6) as never),
    mock.method(Socket.prototype, 'connect', function (this: Socket, ...args: unknown[]): Socket {
      const host = hostIn(args)
      if (host === undefined || /^(127\.[\d.]+|localhost)$/.test(host)) return Reflect.apply(connect, this, args)
      recorded.dialled.push(host)
      process.nextTick(() => this.destroy(Object.assign(new Error('not dialled in a test'), { code: 'ENETUNREACH' })))
      return this
    } as never),
  ]
  return Object.assign(recorded, {
    [Symbol.dispose]: () => {
      for (const one of mocks) one.mock.restore()
    },
  })
}

/** The host of a call of `connect`; undefined where it is a path, or this machine. */
function hostIn(args: readonly unknown[]): string | undefined {
  const [first]: unknown[] = args.flat()
  if (typeof first === 'object' && first !== null && 'host' in first) return typeof first.host === 'string' ? first.host : undefined
  return typeof args[1] === 'string' ? args[1] : undefined
}
