import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'
import type { PasskeyCreation, PasskeyRequest } from '../../src/wire/passkeys.ts'

/** What an authenticator, or the browser before it, says that it should not. */
export type Lie = {
  readonly origin?: string
  readonly rpId?: string
  /** UP 1, UV 4, BE 8, BS 16, AT 64. */
  readonly flags?: number
  readonly counter?: number
  readonly challenge?: string
  readonly type?: string
  readonly crossOrigin?: boolean
  readonly topOrigin?: string
  readonly userHandle?: string
  readonly id?: string
  readonly format?: string
  readonly statement?: readonly (readonly [string, unknown])[]
  /** Of the signature. */
  readonly isBroken?: boolean
}

/** A passkey in software, for what no honest one does. */
export type SoftwarePasskey = {
  readonly id: string
  make(options: PasskeyCreation, lie?: Lie): object
  use(options: Pick<PasskeyRequest, 'challenge'>, lie?: Lie): object
}

const VERIFIED = 0x05
const ATTESTED = 0x40

export function softwarePasskey(origin: string, idBytes = 32): SoftwarePasskey {
  const id = randomBytes(idBytes)
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  let counter = 0
  let user: string | undefined
  const clientData = (type: string, challenge: string, lie: Lie): Buffer =>
    Buffer.from(
      JSON.stringify({
        type: lie.type ?? type,
        challenge: lie.challenge ?? challenge,
        origin: lie.origin ?? origin,
        crossOrigin: lie.crossOrigin ?? false,
        ...(lie.topOrigin !== undefined && { topOrigin: lie.topOrigin }),
      }),
    )
  const head = (flags: number, lie: Lie): Buffer => {
    counter = lie.counter ?? counter + 1
    const count = Buffer.alloc(4)
    count.writeUInt32BE(counter)
    const domain = createHash('sha256').update(lie.rpId ?? 'localhost')
    return Buffer.concat([domain.digest(), Buffer.from([lie.flags ?? flags]), count])
  }
  const encodedId = id.toString('base64url')
  return {
    id: encodedId,
    make(options, lie = {}) {
      user = options.user.id
      const length = Buffer.alloc(2)
      length.writeUInt16BE(id.length)
      const authData = Buffer.concat([head(VERIFIED | ATTESTED, lie), Buffer.alloc(16), length, id, coseOf(publicKey)])
      const attestation = cbor(
        new Map<unknown, unknown>([
          ['fmt', lie.format ?? 'none'],
          ['attStmt', new Map(lie.statement ?? [])],
          ['authData', authData],
        ]),
      )
      return {
        id: lie.id ?? encodedId,
        rawId: lie.id ?? encodedId,
        type: 'public-key',
        clientExtensionResults: {},
        response: {
          clientDataJSON: clientData('webauthn.create', options.challenge, lie).toString('base64url'),
          attestationObject: attestation.toString('base64url'),
          transports: ['internal'],
        },
      }
    },
    use({ challenge }, lie = {}) {
      const said = clientData('webauthn.get', challenge, lie)
      const authData = head(VERIFIED, lie)
      const signature = sign('sha256', Buffer.concat([authData, createHash('sha256').update(said).digest()]), privateKey)
      if (lie.isBroken === true) signature[signature.length - 1] = (signature.at(-1) ?? 0) ^ 1
      return {
        id: lie.id ?? encodedId,
        rawId: lie.id ?? encodedId,
        type: 'public-key',
        clientExtensionResults: {},
        response: {
          clientDataJSON: said.toString('base64url'),
          authenticatorData: authData.toString('base64url'),
          signature: signature.toString('base64url'),
          userHandle: lie.userHandle ?? user,
        },
      }
    },
  }
}

/** ES256 as COSE has it (RFC 9053 §7.1). */
function coseOf(publicKey: KeyObject): Buffer {
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  return cbor(
    new Map<unknown, unknown>([
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, Buffer.from(x, 'base64url')],
      [-3, Buffer.from(y, 'base64url')],
    ]),
  )
}

/** RFC 8949, as much of it as an authenticator says. */
function cbor(value: unknown): Buffer {
  if (typeof value === 'number') return value < 0 ? cborHead(1, -1 - value) : cborHead(0, value)
  if (typeof value === 'string') return Buffer.concat([cborHead(3, Buffer.byteLength(value)), Buffer.from(value)])
  if (Buffer.isBuffer(value)) return Buffer.concat([cborHead(2, value.length), value])
  if (Array.isArray(value)) return Buffer.concat([cborHead(4, value.length), ...value.map(cbor)])
  if (value instanceof Map) return Buffer.concat([cborHead(5, value.size), ...[...value].flat().map(cbor)])
  throw new TypeError(`no CBOR is made of ${typeof value}`)
}

function cborHead(kind: number, count: number): Buffer {
  if (count < 24) return Buffer.from([(kind << 5) | count])
  if (count < 256) return Buffer.from([(kind << 5) | 24, count])
  return Buffer.from([(kind << 5) | 25, count >> 8, count & 255])
}
