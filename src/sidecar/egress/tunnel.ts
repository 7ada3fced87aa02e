import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { codeOf, type Refusal } from '../../kernel/errors.ts'
import { formatAuthority, isAddress, type Hostname } from '../../kernel/hostname.ts'
import { shown } from '../../kernel/shown.ts'
import type { AllowedRule, Policy } from '../../policy/policy.ts'
import type { Addresses } from '../upstream/addresses.ts'
import { dialTcp } from '../upstream/dial.ts'
import { openExchange, type Exchange, type ExchangeParts, type Where } from './exchange.ts'
import { readAuthority, type Tunnel } from './facts.ts'
import { recognise } from '../inbound/recognise.ts'
import { refusalOf, writeRefusal } from './refuse.ts'
import { relay } from './relay.ts'

export type TunnelParts = ExchangeParts & {
  readonly policy: Policy
  readonly addresses: Addresses
  /** Takes the socket over as the server of an HTTP connection, in TLS or not. */
  readonly serve: (socket: Socket, tunnel: Tunnel) => void
}

/** Answers one CONNECT. Never rejects; the socket is closed or handed on when it is done. */
export type OpenTunnel = (request: IncomingMessage, socket: Socket, head: Buffer) => Promise<void>

/** The end that the agent asked for. */
type End = { readonly method: 'CONNECT'; readonly host: Hostname; readonly port: number }

/**
 * The story of a CONNECT: authority → decision → 200 → recognise what comes → serve it as HTTP, or pass TLS through. A tunnel
 * that is served is not audited by itself: nothing leaves by it, each request inside has its own events.
 */
export function createTunnel(parts: TunnelParts): OpenTunnel {
  return async (request, socket, head) => {
    const exchange = openExchange(parts, 'connect')
    let isAccepted = false
    socket.on('error', () => socket.destroy())
    try {
      const authority = readAuthority(request.url ?? '', request.rawHeaders)
      if ('code' in authority) return await refuse(exchange, socket, { method: 'CONNECT' }, authority)
      const end: End = { method: 'CONNECT', ...authority }
      const decision = parts.policy.decideTunnel(end.host, end.port)
      if (decision.action === 'deny') return await refuse(exchange, socket, end, decision.refusal)
      isAccepted = true
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      if (head.length > 0) socket.unshift(head)
      await carry(parts, exchange, socket, end, decision.rule)
    } catch (error) {
      const refusal = refusalOf(error)
      parts.log.error(
        { requestId: exchange.requestId, code: refusal.code, err: refusal.code === 'internal' ? error : undefined },
        'tunnel refused',
      )
      if (isAccepted) socket.destroy()
      else writeRefusal(socket, refusal, exchange)
    }
  }
}

/** The tunnel is open; what the agent sends says what becomes of it. */
async function carry(parts: TunnelParts, exchange: Exchange, socket: Socket, end: End, rule: AllowedRule): Promise<void> {
  const { host, port } = end
  const where = formatAuthority(host, port)
  const found = await recognise(socket)
  switch (found.kind) {
    case 'closed':
      // An agent that only ended its side would keep the socket, and its place among LIMITS.connectionsMax, for good.
      socket.destroy()
      return
    case 'http':
      return parts.serve(socket, { scheme: 'http', host, port })
    case 'unknown':
      return drop(exchange, socket, end, {
        code: 'protocol_not_recognised',
        message: `in the tunnel to ${where} ${found.problem}`,
        rule: rule.id,
      })
    case 'tls': {
      // I2: an address has no server name to agree with (RFC 6066 §3). A client that names none is held to the tunnel's host.
      const { serverName } = found
      const agrees = serverName === undefined ? rule.tls === 'intercept' || isAddress(host) : serverName.toLowerCase() === host
      if (!agrees) {
        const said = serverName === undefined ? 'no server name' : `"${shown(serverName)}"`
        return drop(exchange, socket, end, { code: 'sni_mismatch', message: `TLS names ${said} in a tunnel to ${where}`, rule: rule.id })
      }
      if (rule.tls === 'intercept') return parts.serve(socket, { scheme: 'https', host, port })
      return passThrough(parts, exchange, socket, end, rule)
    }
  }
}

/** Bytes as they are, between the agent and the judged address. I8: no credential is ever near. */
async function passThrough(parts: TunnelParts, exchange: Exchange, socket: Socket, end: End, rule: AllowedRule): Promise<void> {
  await exchange.allow(end, rule.id, undefined, 'passthrough')
  let bytes = { bytesUp: 0, bytesDown: 0 }
  let refusal: Refusal | undefined
  let address: string | undefined
  try {
    const judged = await parts.addresses.judge(end.host, end.port, rule)
    if ('code' in judged) {
      refusal = judged
    } else {
      address = judged.addresses[0]
      bytes = await relay(socket, await dialTcp({ ...judged, ...end }))
    }
  } catch (error) {
    refusal = refusalOf(error)
    parts.log.warn({ requestId: exchange.requestId, host: end.host, code: refusal.code, cause: codeOf(error) }, refusal.message)
  }
  socket.destroy()
  await exchange.finish(end, { ...bytes, refusal, address })
}

/** Refuses with an answer: the CONNECT was not accepted yet. */
async function refuse(exchange: Exchange, socket: Socket, where: Where, refusal: Refusal): Promise<void> {
  await exchange.deny(where, refusal)
  writeRefusal(socket, refusal, { requestId: exchange.requestId, host: where.host, port: where.port })
  await exchange.finish(where, { refusal, bytesUp: 0, bytesDown: 0 })
}

/** Refuses by closing: inside an accepted tunnel there is no way to say why but the log. */
async function drop(exchange: Exchange, socket: Socket, end: End, refusal: Refusal): Promise<void> {
  socket.destroy()
  await exchange.deny(end, refusal)
  await exchange.finish(end, { refusal, bytesUp: 0, bytesDown: 0 })
}
