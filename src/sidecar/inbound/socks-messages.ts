import ipaddr from 'ipaddr.js'

/** The methods that a client offers (RFC 1928 §3), as they came: unknown ones and doubles included. */
export type SocksGreeting = { readonly methods: readonly number[] }

/** What a client says of itself (RFC 1929 §2), 0 to 255 bytes each. Secret: never shown. */
export type SocksPassword = { readonly username: Buffer; readonly password: Buffer }

/** Where a client wants to go (RFC 1928 §4). */
export type SocksRequest = {
  /** A number is a command that RFC 1928 does not know. */
  readonly command: 'connect' | 'bind' | 'udp_associate' | number
  /** The bytes of a domain are given as latin1 text, and nobody has looked at them: `parseHostname` does. IPv6 has no brackets. */
  readonly address: { readonly kind: 'domain' | 'ipv4' | 'ipv6'; readonly text: string }
  /** 0 only where the command is not `connect`. */
  readonly port: number
}

/**
 * What the first bytes of a connection are so far. More bytes never change an answer that is not `incomplete`. `length` is
 * where the message ends; `reply` is what RFC 1928 §6 answers to a request like that.
 */
export type Parsed<T> =
  | { readonly state: 'incomplete' }
  | { readonly state: 'invalid'; readonly problem: string; readonly reply?: number }
  | { readonly state: 'complete'; readonly value: T; readonly length: number }

/** RFC 1928 §6. */
export const SOCKS_REPLY = {
  succeeded: 0,
  generalFailure: 1,
  notAllowed: 2,
  networkUnreachable: 3,
  hostUnreachable: 4,
  connectionRefused: 5,
  ttlExpired: 6,
  commandNotSupported: 7,
  addressTypeNotSupported: 8,
} as const

/** RFC 1928 §3. */
export const SOCKS_METHOD = { none: 0x00, password: 0x02, noneAcceptable: 0xff } as const

const VERSION = 5
/** RFC 1929 §2: the version of the subnegotiation, not of SOCKS. */
const PASSWORD_VERSION = 1
const COMMANDS = new Map<number, SocksRequest['command']>([
  [1, 'connect'],
  [2, 'bind'],
  [3, 'udp_associate'],
])
const IPV4 = 1
const DOMAIN = 3
const IPV6 = 4

const incomplete = { state: 'incomplete' } as const

/** The first message of a client. Never throws. */
export function readGreeting(bytes: Buffer): Parsed<SocksGreeting> {
  const [version, count] = bytes
  if (version !== undefined && version !== VERSION) return { state: 'invalid', problem: `the first byte is ${version}, not 5` }
  if (count === undefined || bytes.length < 2 + count) return incomplete
  return { state: 'complete', value: { methods: [...bytes.subarray(2, 2 + count)] }, length: 2 + count }
}

/** The message after the method 2 was chosen. Its buffers are parts of `bytes`. Never throws. */
export function readPassword(bytes: Buffer): Parsed<SocksPassword> {
  const [version, nameLength] = bytes
  if (version !== undefined && version !== PASSWORD_VERSION)
    return { state: 'invalid', problem: `the version of the password message is ${version}, not 1` }
  if (nameLength === undefined) return incomplete
  const passwordAt = 2 + nameLength + 1
  const passwordLength = bytes[passwordAt - 1]
  if (passwordLength === undefined || bytes.length < passwordAt + passwordLength) return incomplete
  const length = passwordAt + passwordLength
  return {
    state: 'complete',
    value: { username: bytes.subarray(2, passwordAt - 1), password: bytes.subarray(passwordAt, length) },
    length,
  }
}

/** The message that says where to go. It is judged byte by byte, so that what is wrong does not depend on how it is cut. Never throws. */
export function readRequest(bytes: Buffer): Parsed<SocksRequest> {
  const [version, commandByte, reserved, type] = bytes
  if (version !== undefined && version !== VERSION) return malformed(`the version of the request is ${version}, not 5`)
  if (reserved !== undefined && reserved !== 0) return malformed(`the reserved byte of the request is ${reserved}, not 0`)
  if (commandByte === undefined || type === undefined) return incomplete
  const addressAt = type === DOMAIN ? 5 : 4
  const addressLength = addressLengthOf(type, bytes)
  if (addressLength === undefined) {
    return { state: 'invalid', problem: `the address type ${type} is unknown`, reply: SOCKS_REPLY.addressTypeNotSupported }
  }
  if (addressLength === 'unknown') return incomplete
  if (addressLength === 0) return malformed('the name in the request is empty')
  const length = addressAt + addressLength + 2
  if (bytes.length < length) return incomplete
  const command = COMMANDS.get(commandByte) ?? commandByte
  const port = bytes.readUInt16BE(length - 2)
  // A client that asks for UDP may leave the port open (RFC 1928 §7); nobody can be connected to port 0.
  if (port === 0 && command === 'connect') return malformed('the port in the request is 0')
  return {
    state: 'complete',
    value: { command, address: readAddress(type, bytes.subarray(addressAt, length - 2)), port },
    length,
  }
}

/**
 * The answer to a request (RFC 1928 §6). `bound` is an address literal and a port; a gate does not tell where it connects
 * from, so 0.0.0.0:0 where none is given.
 */
export function writeReply(
  reply: number,
  bound: { readonly address: string; readonly port: number } = { address: '0.0.0.0', port: 0 },
): Buffer {
  const address = ipaddr.parse(bound.address).toByteArray()
  return Buffer.of(VERSION, reply, 0, address.length === 4 ? IPV4 : IPV6, ...address, bound.port >> 8, bound.port & 0xff)
}

function malformed(problem: string): Parsed<never> {
  return { state: 'invalid', problem, reply: SOCKS_REPLY.generalFailure }
}

/** `unknown` where the byte that says it is not there yet, `undefined` where there is no such type. */
function addressLengthOf(type: number, bytes: Buffer): number | 'unknown' | undefined {
  switch (type) {
    case IPV4:
      return 4
    case DOMAIN:
      return bytes[4] ?? 'unknown'
    case IPV6:
      return 16
    default:
      return undefined
  }
}

function readAddress(type: number, bytes: Buffer): SocksRequest['address'] {
  if (type === DOMAIN) return { kind: 'domain', text: bytes.toString('latin1') }
  if (type === IPV4) return { kind: 'ipv4', text: bytes.join('.') }
  const groups = Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(2 * i).toString(16))
  return { kind: 'ipv6', text: groups.join(':') }
}
