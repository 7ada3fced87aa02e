import { Resolver } from 'node:dns/promises'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import type { Hostname } from '../../kernel/hostname.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { memo } from '../../kernel/memo.ts'
import type { System } from '../../kernel/system.ts'

/**
 * All addresses of an upstream's name, IPv4 first, never empty; undefined where the upstream proxy resolves it. At once where they are
 * known, and the same array for as long as they are. @throws upstream_name_failed
 */
export type Resolve = (host: Hostname) => readonly string[] | undefined | Promise<readonly string[] | undefined>

/** One question to the DNS, one record type: addresses with their time to live in seconds. */
export type AskDns = (host: string, family: 4 | 6) => Promise<readonly { address: string; ttl: number }[]>

/**
 * Looks names up once per time to live. Names are asked for as they are, without search domains. Only names that the
 * policy allows get here. `fixed` are the operator's own answers (`--resolve`), then comes /etc/hosts, then the DNS.
 * With `isLeftToProxy` the DNS is not asked: whoever is behind an upstream proxy often has none that knows the outside.
 */
export function createResolve(
  options: { fixed: ReadonlyMap<string, readonly string[]>; hostsFile?: string; ask?: AskDns; isLeftToProxy?: boolean },
  system: Pick<System, 'now'>,
): Resolve {
  const known = new Map([...readHosts(options.hostsFile ?? '/etc/hosts'), ...options.fixed])
  const ask = options.ask ?? askSystemDns()
  const literal = memo(LIMITS.textsKeptMax, LIMITS.textKeptCharsMax, (host): readonly string[] => [host])
  const cache = new Map<string, Entry>()

  return (host) => {
    if (isIP(host) !== 0) return literal(host)
    const local = known.get(host)
    if (local) return local
    if (options.isLeftToProxy === true) return undefined
    const cached = cache.get(host)
    if (cached && cached.until > system.now()) return cached.answer
    cache.delete(host)
    // While the question is under way its entry stands, so that one look-up serves all who ask meanwhile.
    const entry: Entry = { answer: [], until: Infinity }
    const answer = lookUp(host, ask).then(
      ({ addresses, ttlMs }) => {
        entry.until = system.now() + ttlMs
        entry.answer = addresses
        return addresses
      },
      (error: unknown) => {
        if (cache.get(host) === entry) cache.delete(host)
        throw error
      },
    )
    if (cache.size >= LIMITS.dnsCacheMax) cache.delete(cache.keys().next().value ?? '')
    entry.answer = answer
    cache.set(host, entry)
    return answer
  }
}

type Entry = { answer: readonly string[] | Promise<readonly string[]>; until: number }

async function lookUp(host: Hostname, ask: AskDns): Promise<{ addresses: readonly string[]; ttlMs: number }> {
  const [v4, v6] = await Promise.allSettled([ask(host, 4), ask(host, 6)])
  const records = [v4, v6].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  if (records.length === 0) {
    const cause: unknown = v4.status === 'rejected' ? v4.reason : v6.status === 'rejected' ? v6.reason : undefined
    throw new SallyportError(
      'upstream_name_failed',
      `"${host}" could not be resolved (${cause === undefined ? 'no address' : codeOf(cause)})`,
      { cause },
    )
  }
  const ttlMs = Math.min(...records.map((record) => record.ttl)) * 1000
  return {
    addresses: [...new Set(records.map((record) => record.address))],
    ttlMs: Math.min(Math.max(ttlMs, LIMITS.dnsTtlMinMs), LIMITS.dnsTtlMaxMs),
  }
}

/** c-ares rather than getaddrinfo: it gives the time to live, and slow names don't take the threads that write the audit. */
function askSystemDns(): AskDns {
  const resolver = new Resolver({ timeout: LIMITS.dnsMs / 2, tries: 2 })
  return (host, family) => (family === 4 ? resolver.resolve4(host, { ttl: true }) : resolver.resolve6(host, { ttl: true }))
}

function readHosts(file: string): Map<string, string[]> {
  const known = new Map<string, string[]>()
  let text = ''
  try {
    text = readFileSync(file, 'utf8')
  } catch {
    return known // no hosts file: the DNS answers
  }
  for (const line of text.split('\n')) {
    const [address = '', ...names] = (line.split('#')[0] ?? '').trim().split(/\s+/)
    const family = isIP(address)
    if (family === 0) continue
    for (const name of names) {
      const addresses = known.get(name.toLowerCase()) ?? []
      known.set(name.toLowerCase(), family === 4 ? [address, ...addresses] : [...addresses, address])
    }
  }
  return known
}
