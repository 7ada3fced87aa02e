import type { Socket } from 'node:net'
import { sayFarewell } from '../egress/refuse.ts'

/** Alert descriptions of RFC 8446 §6. */
const ALERTS = { handshake_failure: 40, access_denied: 49, internal_error: 80, unrecognized_name: 112 } as const

/** Ends a connection that began with a ClientHello by a fatal alert: the one answer that its client can read. */
export function writeAlert(socket: Socket, alert: keyof typeof ALERTS): void {
  // Record of type alert, TLS 1.2 on the wire, two bytes: fatal, description.
  socket.end(Buffer.of(21, 3, 3, 0, 2, 2, ALERTS[alert]))
  sayFarewell(socket)
}
