import * as z from 'zod'
import { SallyportError } from '../../kernel/errors.ts'
import { WAYS, type Finding, type WayId } from './ways.ts'

const Address = z.string().min(2).max(64)
const Path = z.string().startsWith('/').max(4096)

/** What the probe is told. Nothing in it is secret: it stands on a command line. */
export const ProbeTask = z.strictObject({
  /** A listener of the host, TCP and UDP on one port, by these IPv4 addresses. */
  host: z.strictObject({ addresses: z.array(Address).max(64), port: z.int().min(1).max(65_535) }),
  /** Link-local IPv6 addresses that the host has on the bridge. */
  linkLocal: z.array(Address).max(8),
  /** The jail's subnet, in CIDR form. */
  subnet: z.string().max(32),
  /** The gate's address in it. */
  sidecar: Address,
  /** Addresses of the gates of other sessions. */
  neighbours: z.array(Address).max(64),
  /** Mount points that may be written. */
  writable: z.array(Path).max(256),
  /** `pid:[4026531836]` and the like of the host, where they are known. */
  namespaces: z.array(z.string().max(64)).max(16),
  /** The policy says that the agent is root. */
  isRootAllowed: z.boolean(),
})
export type ProbeTask = z.infer<typeof ProbeTask>

const IDS = WAYS.map(({ id }) => id) as [WayId, ...WayId[]]
const Findings = z.array(z.strictObject({ id: z.enum(IDS), ok: z.boolean(), detail: z.string().max(1_000) })).max(WAYS.length)

/** The task of a command line. @throws SallyportError usage */
export function parseTask(text: string): ProbeTask {
  const parsed = ProbeTask.safeParse(jsonOf(text))
  if (parsed.success) return parsed.data
  throw new SallyportError('usage', `the task of the probe is not one: ${z.prettifyError(parsed.error)}`, {
    hint: 'the probe is run by sallyport selftest',
  })
}

/** What a probe printed. `undefined` for anything else. */
export function parseFindings(text: string): Finding[] | undefined {
  const parsed = Findings.safeParse(jsonOf(text))
  return parsed.success ? parsed.data : undefined
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
