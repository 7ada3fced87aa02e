import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { importJWK, type CryptoKey, type JWK } from 'jose'
import { SallyportError } from '../../src/kernel/errors.ts'
import type { System } from '../../src/kernel/system.ts'
import { openLeases, type LeaseClaims, type Leases } from '../../src/lease/lease.ts'

export const CLAIMS: LeaseClaims = { session: 'aaaabbbbccccdddd', workspace: 'acme', agent: 'claude', audience: 'agent' }

/** A clock that stands still and numbers that never come twice. */
export function countingSystem(seed = 'seed'): Pick<System, 'now' | 'random'> {
  let count = 0
  return {
    now: () => 1_700_000_000_000,
    random(bytes) {
      count += 1
      return createHash('shake256', { outputLength: bytes }).update(`${seed} ${count}`).digest()
    },
  }
}

export type LeaseSetting = Disposable & {
  readonly dir: string
  readonly keyFile: string
  readonly leases: Leases
  /** Ids of leases whose sessions have ended. */
  readonly ended: Set<string>
  /** Another process' view of the same key file. */
  readonly again: () => Promise<Leases>
  /** The private key, as whoever stole the file has it. */
  readonly key: () => Promise<{ readonly kid: string; readonly key: CryptoKey; readonly jwk: JWK }>
}

/** Leases with a real key file in a folder of their own. A session lives unless a lease of it is said to have ended. */
export async function leaseSetting(): Promise<LeaseSetting> {
  const dir = mkdtempSync(join(tmpdir(), 'sallyport-lease-'))
  const keyFile = join(dir, 'lease.key')
  const ended = new Set<string>()
  const system = countingSystem(dir)
  const again = (): Promise<Leases> => openLeases(keyFile, (_session, id) => !ended.has(id), system)
  const leases = await again()
  return {
    dir,
    keyFile,
    leases,
    ended,
    again,
    async key() {
      const { token } = await leases.issue(CLAIMS)
      const { kid } = JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()) as { kid: string }
      const { current } = JSON.parse(readFileSync(keyFile, 'utf8')) as { current: JWK }
      return { kid, key: (await importJWK(current, 'EdDSA')) as CryptoKey, jwk: current }
    },
    [Symbol.dispose]: () => rmSync(dir, { recursive: true }),
  }
}

/** `ok`, or the class of what is wrong, after a look at all that the error says. */
export function outcome(
  leases: Leases,
  token: string,
  expected: { audience?: 'sidecar' | 'agent'; session?: string; method?: string } = {},
): string {
  try {
    leases.verify(token, { audience: CLAIMS.audience, session: CLAIMS.session, ...expected })
    return 'ok'
  } catch (error) {
    if (!(error instanceof SallyportError) || error.code !== 'lease_invalid') throw error
    const fault = /^the lease is not valid: ([a-z]+)$/.exec(error.message)?.[1]
    if (fault === undefined) throw new Error(`the error says more than the class: ${error.message}`, { cause: error })
    if (error.cause !== undefined) throw new Error('the error has a cause', { cause: error })
    return fault
  }
}
