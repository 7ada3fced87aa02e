import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Audit } from '../../audit/audit.ts'
import { codeOf, SallyportError, type Refusal } from '../../kernel/errors.ts'
import { formatAuthority, isAddress, type Hostname } from '../../kernel/hostname.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { AllowedRule, Policy } from '../../policy/policy.ts'
import type { Addresses } from './addresses.ts'
import { dialTcp } from './dial.ts'
import { readAuthority, shown, type Tunnel } from './facts.ts'
import { recognise } from './recognise.ts'
import { refusalOf, statusOf, writeRefusal } from './refuse.ts'
import { relay } from './relay.ts'

export type TunnelParts = {
  readonly policy: Policy
  readonly audit: Audit
  readonly addresses: Addresses
  readonly log: Log
  readonly system: System
  /** Takes the socket over as the server of an HTTP connection, in TLS or not. */
  readonly serve: (socket: Socket, tunnel: Tunnel) => void
}

/** Answers one CONNECT. Never rejects; the socket is closed or handed on when it is done. */
export type OpenTunnel = (request: IncomingMessage, socket: Socket, head: Buffer) => Promise<void>

/** One CONNECT on its way. */
type Opening = { readonly requestId: string; readonly started: number; readonly host?: Hostname; readonly port?: number }

/**
 * The story of a CONNECT: authority → decision → 200 → recognise what comes → serve it as HTTP, or pass TLS through. A tunnel
 * that is served is not audited by itself: nothing leaves by it, each request inside has its own events.
 */
export function createTunnel(parts: TunnelParts): OpenTunnel {
  const { policy, audit, log, system } = parts

  return async (request, socket, head) => {
    const opening: Opening = { requestId: randomUUID(), started: system.elapsed() }
    socket.on('error', () => socket.destroy())
    try {
      const end = readAuthority(request.url ?? '', request.rawHeaders)
      if ('code' in end) return await refuse({ ...opening }, socket, end)
      const decision = policy.decideTunnel(end.host, end.port)
      if (decision.action === 'deny') return await refuse({ ...opening, ...end }, socket, decision.refusal)
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      if (head.length > 0) socket.unshift(head)
      await carry({ ...opening, ...end }, socket, decision.rule)
    } catch (error) {
      const refusal = refusalOf(error)
      log.error(
        { requestId: opening.requestId, code: refusal.code, err: refusal.code === 'internal' ? error : undefined },
        'tunnel refused',
      )
      if (socket.bytesWritten === 0) writeRefusal(socket, refusal, opening)
      else socket.destroy()
    }
  }

  /** The tunnel is open; what the agent sends says what becomes of it. */
  async function carry(opening: Opening & { host: Hostname; port: number }, socket: Socket, rule: AllowedRule): Promise<void> {
    const { host, port } = opening
    const found = await recognise(socket)
    switch (found.kind) {
      case 'closed':
        return
      case 'http':
        return parts.serve(socket, { scheme: 'http', host, port })
      case 'unknown':
        return await drop(opening, socket, {
          code: 'protocol_not_recognised',
          message: `in the tunnel to ${formatAuthority(host, port)} ${found.problem}`,
          rule: rule.id,
        })
      case 'tls': {
        // I2: an address has no server name to agree with (RFC 6066 §3). A client that names none is held to the tunnel's host.
        const { serverName } = found
        const isSame = serverName === undefined ? rule.tls === 'intercept' || isAddress(host) : serverName.toLowerCase() === host
        if (!isSame) {
          const said = serverName === undefined ? 'no server name' : `"${shown(serverName)}"`
          return await drop(opening, socket, {
            code: 'sni_mismatch',
            message: `TLS names ${said} in a tunnel to ${formatAuthority(host, port)}`,
            rule: rule.id,
          })
        }
        if (rule.tls === 'intercept') return parts.serve(socket, { scheme: 'https', host, port })
        return await passThrough(opening, socket, rule)
      }
    }
  }

  /** Bytes as they are, between the agent and the judged address. I8: no credential is ever near. */
  async function passThrough(opening: Opening & { host: Hostname; port: number }, socket: Socket, rule: AllowedRule): Promise<void> {
    await audit.append({
      event: 'decided',
      request: opening.requestId,
      lane: 'connect',
      ...end(opening),
      decision: 'allow',
      rule: rule.id,
      note: 'passthrough',
    })
    let bytes = { up: 0, down: 0 }
    let refusal: Refusal | undefined
    let address: string | undefined
    try {
      const judged = await parts.addresses.judge(opening.host, opening.port, rule)
      if ('code' in judged) {
        refusal = judged
      } else {
        address = judged.addresses[0]
        bytes = await relay(socket, await dialTcp({ ...judged, ...opening }))
      }
    } catch (error) {
      refusal = refusalOf(error)
      log.warn(
        {
          requestId: opening.requestId,
          host: opening.host,
          code: refusal.code,
          cause: codeOf(error instanceof SallyportError ? error.cause : error),
        },
        refusal.message,
      )
    }
    socket.destroy()
    log.info(
      { requestId: opening.requestId, host: opening.host, port: opening.port, rule: rule.id, code: refusal?.code, ...bytes },
      refusal ? 'tunnel failed' : 'tunnel closed',
    )
    await finish(opening, refusal, bytes, address)
  }

  /** Refuses with an answer: the CONNECT was not accepted yet. */
  async function refuse(opening: Opening, socket: Socket, refusal: Refusal): Promise<void> {
    await denied(opening, refusal)
    writeRefusal(socket, refusal, opening)
    await finish(opening, refusal)
  }

  /** Refuses by closing: inside an accepted tunnel there is no way to say why but the log. */
  async function drop(opening: Opening, socket: Socket, refusal: Refusal): Promise<void> {
    socket.destroy()
    await denied(opening, refusal)
    await finish(opening, refusal)
  }

  async function denied(opening: Opening, refusal: Refusal): Promise<void> {
    log.info(
      {
        requestId: opening.requestId,
        host: opening.host,
        port: opening.port,
        rule: refusal.rule,
        code: refusal.code,
        reason: refusal.message,
      },
      'egress denied',
    )
    await audit.append({
      event: 'decided',
      request: opening.requestId,
      lane: 'connect',
      ...end(opening),
      decision: 'deny',
      code: refusal.code,
      ...(refusal.rule !== undefined && { rule: refusal.rule }),
    })
  }

  async function finish(opening: Opening, refusal: Refusal | undefined, bytes = { up: 0, down: 0 }, address?: string): Promise<void> {
    await audit.append({
      event: 'finished',
      request: opening.requestId,
      ...(refusal && { status: statusOf(refusal.code), code: refusal.code }),
      ...(address !== undefined && { address }),
      bytes_up: bytes.up,
      bytes_down: bytes.down,
      duration_ms: Math.round(system.elapsed() - opening.started),
    })
  }
}

function end(opening: Opening): { method: string; host?: string; port?: number } {
  return {
    method: 'CONNECT',
    ...(opening.host !== undefined && { host: opening.host }),
    ...(opening.port !== undefined && { port: opening.port }),
  }
}
