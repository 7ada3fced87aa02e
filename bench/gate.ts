import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { ROOT } from '../scripts/steps.ts'
import { USUAL_SIZE, gatePolicy, type PolicySize } from './gate-policy.ts'
import { TOKEN, inWork } from './places.ts'
import type { Ability } from './measures.ts'
import type { Abilities, ProxyPlan } from './proxy.ts'

const HTTP_ABILITIES: readonly Ability[] = ['forward', 'connect', 'passthrough', 'intercept']
const SOCKS_ABILITIES: readonly Ability[] = ['socks', 'sockspass']

export type GateOptions = {
  /** Also the name of its folder: gates that run at the same time each have their own. */
  readonly label: string
  /** A clone with `dist/`. Default: this one. */
  readonly clone?: string
  /** From the sources instead, where functions have their names. */
  readonly isFromSource?: boolean
  readonly size?: PolicySize
  /** For Node, besides those of the image. */
  readonly flags?: readonly string[]
}

/** The gate as the image starts it: bundled, with the flags of the Dockerfile, HTTP and SOCKS open, the audit on disk. */
export function gatePlan({ label, clone = ROOT, isFromSource = false, size = USUAL_SIZE, flags = [] }: GateOptions): ProxyPlan {
  const home = inWork('run', label)
  const policy = path.join(home, 'policy.yaml')
  const entry = path.join(clone, isFromSource ? 'src/main.ts' : 'dist/sallyport.js')
  const ways = ['--http', '127.0.0.1:0', '--socks', '127.0.0.1:0']
  const files = [
    '--upstream-ca',
    inWork('ca', 'upstream-ca.pem'),
    '--ca-dir',
    path.join(home, 'ca'),
    '--audit',
    path.join(home, 'audit.jsonl'),
  ]
  const dockerfile = readFileSync(path.join(clone, 'Dockerfile'), 'utf8')
  const node = [...imageFlags(dockerfile), ...flags]
  return {
    label,
    command: [process.execPath, ...node, entry, 'proxy', '--policy', policy, ...ways, ...files],
    abilities: {},
    can: [...HTTP_ABILITIES, ...SOCKS_ABILITIES],
    program: entry,
    env: { ...imageEnv(dockerfile), BENCH_TOKEN: TOKEN, SALLYPORT_HOME: home },
    prepare() {
      rmSync(home, { recursive: true, force: true })
      mkdirSync(path.join(home, 'ca'), { recursive: true, mode: 0o700 })
      writeFileSync(policy, gatePolicy(size))
    },
    readReady,
  }
}

/** Node's flags of the image's ENTRYPOINT, so that what is measured is what is shipped. @throws Error when there is none */
export function imageFlags(dockerfile: string): string[] {
  const entry = [...dockerfile.matchAll(/^ENTRYPOINT (\[.*sallyport.*\])$/gm)][0]?.[1]
  if (entry === undefined) throw new Error('the Dockerfile has no ENTRYPOINT for the gate')
  return (JSON.parse(entry) as string[]).filter((word) => word.startsWith('--'))
}

/** What the image tells malloc. */
export function imageEnv(dockerfile: string): Record<string, string> {
  return Object.fromEntries([...dockerfile.matchAll(/\b(MALLOC_\w+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]))
}

function readReady(line: string): { abilities: Abilities; ca?: string } | undefined {
  if (!line.startsWith('{"event":"ready"')) return undefined
  const { http, socks, ca } = JSON.parse(line) as { http: string; socks: string; ca: string }
  const on = (address: string, abilities: readonly Ability[]): [Ability, number][] =>
    abilities.map((ability) => [ability, Number(address.split(':').at(-1))])
  return { abilities: Object.fromEntries([...on(http, HTTP_ABILITIES), ...on(socks, SOCKS_ABILITIES)]), ca }
}
