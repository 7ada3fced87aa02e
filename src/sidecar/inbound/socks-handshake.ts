import type { Socket } from 'node:net'
import { ERRORS, type Refusal, type RefusalCode } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { readGreeting, readPassword, readRequest, SOCKS_METHOD, SOCKS_REPLY, type SocksRequest } from './socks-messages.ts'

/** Where `checkLease` is given, only a client whose password it takes is served. It compares in constant time. */
export type HandshakeOptions = { readonly checkLease?: ((token: string) => boolean) | undefined }

/**
 * How a handshake ended. `request`: the client waits for the reply. `refused`: with a `reply` the client waits for that one,
 * without one it has had its last bytes; then the connection is to be ended. `closed`: the client went away.
 */
export type Handshake =
  | { readonly kind: 'request'; readonly request: SocksRequest }
  | {
      readonly kind: 'refused'
      readonly refusal: Refusal
      readonly reply: number | undefined
      /** What was asked for, where that could be read. */
      readonly request?: SocksRequest
    }
  | { readonly kind: 'closed' }

type Stage = 'greeting' | 'password' | 'request'

/** What one message leads to: what is said to the client, and what comes next. `length` bytes of the connection are used up. */
type Step = { readonly say?: Buffer; readonly length: number; readonly next: Stage | Handshake }

/** RFC 1929 §2. */
const PASSWORD_OK = Buffer.of(1, 0)
const PASSWORD_WRONG = Buffer.of(1, 1)
/** SOCKS4: version 0 of the reply, 0x5b for rejected, then what a client has to ignore. */
const SOCKS4_REJECTED = Buffer.of(0, 0x5b, 0, 0, 0, 0, 0, 0)
const NOT_HTTP = 'This port speaks SOCKS5. For HTTP use the HTTP proxy port.\n'
const HTTP_ANSWER = Buffer.from(
  `HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: ${NOT_HTTP.length}\r\nconnection: close\r\n\r\n${NOT_HTTP}`,
)
const HTTP_METHOD = /^[A-Z][A-Z-]{0,15}(?: |$)/
const TLS_HANDSHAKE = 22
const NOTHING = Buffer.alloc(0)

/**
 * Reads a SOCKS5 handshake up to and with the request (RFC 1928, RFC 1929), and says everything before the reply to it.
 * `LIMITS.headTimeoutMs` is for the whole of it, and nothing in it is longer than 513 bytes. What a client sends behind the
 * request is put back; the socket is left paused. Never rejects, unless `checkLease` throws.
 */
export function negotiate(socket: Socket, options: HandshakeOptions = {}): Promise<Handshake> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = NOTHING
    let stage: Stage = 'greeting'
    const timer = setTimeout(() => {
      const refusal: Refusal = { code: 'head_timeout', message: 'the SOCKS handshake was not complete in time' }
      settle({ kind: 'refused', refusal, reply: stage === 'request' ? SOCKS_REPLY.ttlExpired : undefined })
    }, LIMITS.headTimeoutMs)

    function stop(): void {
      clearTimeout(timer)
      socket.off('data', onData)
      socket.off('close', onClosed)
      socket.off('end', onClosed)
      socket.pause()
      if (bytes.length > 0 && !socket.destroyed && !socket.readableEnded) socket.unshift(bytes)
    }
    function settle(handshake: Handshake): void {
      stop()
      resolve(handshake)
    }
    function onData(chunk: Buffer): void {
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
      try {
        advance()
      } catch (error) {
        stop()
        reject(error instanceof Error ? error : new Error('the handshake failed', { cause: error }))
      }
    }
    /** Clients may send all their messages at once: each is read as soon as it is there, at most three in all. */
    function advance(): void {
      for (;;) {
        const step = stepOf(stage, bytes, options)
        if (!step) return
        if (step.say) socket.write(step.say)
        bytes = bytes.subarray(step.length)
        if (typeof step.next !== 'string') return settle(step.next)
        stage = step.next
      }
    }
    function onClosed(): void {
      settle({ kind: 'closed' })
    }
    socket.on('error', () => socket.destroy())
    if (socket.destroyed || socket.readableEnded) return onClosed()
    socket.on('data', onData)
    socket.on('close', onClosed)
    socket.on('end', onClosed)
    socket.resume()
  })
}

/** The reply (RFC 1928 §6) that says best why something was refused or failed. `cause` is the code of a system error. */
export function replyFor(code: RefusalCode, cause?: string): number {
  switch (code) {
    case 'command_not_supported':
      return SOCKS_REPLY.commandNotSupported
    case 'host_invalid':
    case 'lease_required':
      return SOCKS_REPLY.notAllowed
    case 'upstream_name_failed':
      return SOCKS_REPLY.hostUnreachable
    // No router counted hops here, but clients have no other words for "timed out".
    case 'upstream_timeout':
    case 'head_timeout':
      return SOCKS_REPLY.ttlExpired
    case 'upstream_unreachable':
      return replyForCause(cause)
    default:
      return ERRORS[code].status === 403 ? SOCKS_REPLY.notAllowed : SOCKS_REPLY.generalFailure
  }
}

function replyForCause(cause: string | undefined): number {
  switch (cause) {
    case 'ECONNREFUSED':
      return SOCKS_REPLY.connectionRefused
    case 'ENETUNREACH':
    case 'ENETDOWN':
      return SOCKS_REPLY.networkUnreachable
    case 'EHOSTUNREACH':
    case 'EHOSTDOWN':
      return SOCKS_REPLY.hostUnreachable
    case 'ETIMEDOUT':
      return SOCKS_REPLY.ttlExpired
    default:
      return SOCKS_REPLY.generalFailure
  }
}

/** Undefined where the message of this stage is not complete. */
function stepOf(stage: Stage, bytes: Buffer, options: HandshakeOptions): Step | undefined {
  switch (stage) {
    case 'greeting':
      return greet(bytes, options)
    case 'password':
      return authenticate(bytes, options)
    case 'request':
      return accept(bytes)
  }
}

function greet(bytes: Buffer, { checkLease }: HandshakeOptions): Step | undefined {
  const greeting = readGreeting(bytes)
  if (greeting.state === 'incomplete') return undefined
  if (greeting.state === 'invalid') return notSocks5(bytes, greeting.problem)
  const { length } = greeting
  const { methods } = greeting.value
  // A client that only knows passwords is served without a lease too: what it says of itself is then nobody's business.
  const method = checkLease || !methods.includes(SOCKS_METHOD.none) ? SOCKS_METHOD.password : SOCKS_METHOD.none
  if (methods.includes(method)) {
    return { say: Buffer.of(5, method), length, next: method === SOCKS_METHOD.password ? 'password' : 'request' }
  }
  const refusal: Refusal = checkLease
    ? {
        code: 'lease_required',
        message: 'the SOCKS client offers no password, and the lease is wanted as one',
        hint: 'give the lease of the session as the password: socks5h://any:LEASE@…',
      }
    : { code: 'socks_malformed', message: 'the SOCKS client offers no method that is known here (none, password)' }
  return { say: Buffer.of(5, SOCKS_METHOD.noneAcceptable), length, next: { kind: 'refused', refusal, reply: undefined } }
}

/** RFC 1929. The password is the lease; the name is free, as clients insist on one. */
function authenticate(bytes: Buffer, { checkLease }: HandshakeOptions): Step | undefined {
  const message = readPassword(bytes)
  if (message.state === 'incomplete') return undefined
  if (message.state === 'invalid') {
    const refusal: Refusal = { code: 'socks_malformed', message: message.problem }
    return { say: PASSWORD_WRONG, length: bytes.length, next: { kind: 'refused', refusal, reply: undefined } }
  }
  const { length, value } = message
  if (!checkLease || checkLease(value.password.toString('utf8'))) return { say: PASSWORD_OK, length, next: 'request' }
  const refusal: Refusal = { code: 'lease_required', message: 'the password of the SOCKS client is not the lease of this session' }
  return { say: PASSWORD_WRONG, length, next: { kind: 'refused', refusal, reply: undefined } }
}

function accept(bytes: Buffer): Step | undefined {
  const message = readRequest(bytes)
  if (message.state === 'incomplete') return undefined
  if (message.state === 'invalid') {
    const refusal: Refusal = { code: 'socks_malformed', message: message.problem }
    return { length: bytes.length, next: { kind: 'refused', refusal, reply: message.reply ?? SOCKS_REPLY.generalFailure } }
  }
  const { length, value: request } = message
  if (request.command === 'connect') return { length, next: { kind: 'request', request } }
  const refusal: Refusal = { code: 'command_not_supported', message: `the SOCKS command ${request.command} is not carried` }
  return { length, next: { kind: 'refused', refusal, reply: SOCKS_REPLY.commandNotSupported, request } }
}

/** Who knocks at the wrong port gets an answer in its own language, where there is one. */
function notSocks5(bytes: Buffer, problem: string): Step {
  const refuse = (message: string, say?: Buffer): Step => ({
    ...(say && { say }),
    length: bytes.length,
    next: { kind: 'refused', refusal: { code: 'socks_malformed', message }, reply: undefined },
  })
  if (bytes[0] === 4) return refuse('it is SOCKS4, and only SOCKS5 is served', SOCKS4_REJECTED)
  if (HTTP_METHOD.test(bytes.subarray(0, 17).toString('latin1'))) return refuse('it is HTTP on the SOCKS port', HTTP_ANSWER)
  if (bytes[0] === TLS_HANDSHAKE) return refuse('it is TLS on the SOCKS port')
  return refuse(`it is not SOCKS5: ${problem}`)
}
