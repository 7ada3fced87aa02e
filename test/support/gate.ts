import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { loadPolicy } from '../../src/policy/policy.ts'
import { openSidecar, type Sidecar, type SidecarConfig } from '../../src/sidecar/sidecar.ts'
import type { System } from '../../src/kernel/system.ts'

export type TestGate = AsyncDisposable & {
  readonly sidecar: Sidecar
  readonly folder: string
  readonly port: number
  /** Ports of the other ways in, where they are open. */
  readonly ports: {
    readonly socks: number
    readonly plain: number
    readonly secure: number
    readonly dns: number
    readonly gateway: number
  }
  /** Writes another policy over the one in force and reloads. */
  setPolicy(text: string): Promise<boolean>
  /** The operational log so far. */
  log(): string
  /** The audit so far. */
  audit(): Promise<Record<string, unknown>[]>
  auditText(): Promise<string>
  caPem(): Promise<string>
}

export type TestGateOptions = {
  /** A policy file's text. */
  policy: string
  env?: Record<string, string>
  upstreamCa?: string[]
  /** Hosts that stand for loopback addresses. */
  hosts?: Record<string, string[]>
  config?: Partial<SidecarConfig>
  system?: System
}

/** Any free port of loopback. */
export const LOOPBACK = { host: '127.0.0.1', port: 0 } as const
/** Every way in, for `config`. */
export const ALL_WAYS = {
  http: [LOOPBACK],
  socks: [LOOPBACK],
  transparent: [
    { ...LOOPBACK, meant: 80 },
    { ...LOOPBACK, meant: 443 },
  ],
  dns: [LOOPBACK],
  gateway: [LOOPBACK],
} as const

/** A gate of its own in this process: real sockets on loopback, its files in a folder of its own. */
export async function openTestGate(options: TestGateOptions): Promise<TestGate> {
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-test-'))
  const lines: string[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) })
  const policyFile = join(folder, 'policy.yaml')
  await writeFile(policyFile, options.policy)
  const config: SidecarConfig = {
    version: 'test',
    session: 'test-session',
    loadPolicy: () => loadPolicy([policyFile], { policyDirs: [folder, join(import.meta.dirname, '../../policies')] }),
    http: [LOOPBACK],
    socks: [],
    transparent: [],
    dns: [],
    gateway: [],
    caDir: join(folder, 'ca'),
    upstreamCa: options.upstreamCa ?? [],
    fixedAddresses: new Map(Object.entries(options.hosts ?? {})),
    audit: join(folder, 'audit.jsonl'),
    placeholderSeed: 'test-seed',
    env: options.env ?? {},
    ...options.config,
  }
  const sidecar = await openSidecar(config, log, options.system)
  const auditText = (): Promise<string> => readFile(config.audit, 'utf8')
  return {
    sidecar,
    folder,
    port: portOf(sidecar.http[0]),
    ports: {
      socks: portOf(sidecar.socks[0]),
      plain: portOf(sidecar.transparent[0]),
      secure: portOf(sidecar.transparent[1]),
      dns: portOf(sidecar.dns[0]),
      gateway: portOf(sidecar.gateway[0]),
    },
    async setPolicy(text) {
      await writeFile(policyFile, text)
      return sidecar.reload()
    },
    log: () => lines.join(''),
    auditText,
    audit: async () =>
      (await auditText())
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    caPem: () => readFile(sidecar.caFile, 'utf8'),
    async [Symbol.asyncDispose]() {
      await sidecar[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function portOf(address: string | undefined): number {
  return Number(address?.split(':').at(-1))
}
