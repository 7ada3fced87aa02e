import type * as z from 'zod'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { SelftestRow, WayId } from '../selftest/selftest.ts'
import { chooseJail } from '../sessions/jail.ts'
import { hostSubnets } from '../sessions/subnets.ts'
import type { DoctorRow, DoctorOutcome as Outcome } from '../../wire/first-run.ts'
import { VERSION } from '../../kernel/version.ts'
import { complaintOf, createDocker, type Docker } from './docker.ts'
import {
  checkClock,
  checkLimits,
  checkMachine,
  checkMandatory,
  checkSeccomp,
  checkStorage,
  checkUsers,
  checkVersion,
  EngineInfo,
  EngineVersion,
} from './engine-checks.ts'
import { checkHome, checkKeyring, checkNode, freeBytesOf } from './host-checks.ts'
import { tryJail, trySocket, type ThrowAwayParts } from './throw-away.ts'

export { createDocker, type Docker } from './docker.ts'
export type { DoctorRow } from '../../wire/first-run.ts'

export type DoctorParts = {
  readonly docker: Docker
  /** The sidecar's. Containers are tried with it. */
  readonly image: string
  readonly home: string
  readonly packageRoot: string
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly system: System
  /** `v24.12.0`. */
  readonly nodeVersion: string
}

/** The same for each who asks on this machine. */
export function doctorParts({
  home,
  packageRoot,
  environment,
  system,
}: Omit<DoctorParts, 'docker' | 'image' | 'nodeVersion'>): DoctorParts {
  return {
    docker: createDocker('docker', environment),
    image: environment['SALLYPORT_SIDECAR_IMAGE'] || `sallyport/sidecar:${VERSION}`,
    home,
    packageRoot,
    environment,
    system,
    nodeVersion: process.version,
  }
}

type Check = { readonly id: string; readonly what: string; readonly run: (signal: AbortSignal) => Promise<Outcome> | Outcome }

/** Of the selftest: what each row of the doctor's is about. The first two are the engine's, the last is what containers are given. */
const JAIL_ROWS: readonly { readonly id: string; readonly what: string; readonly ways: readonly WayId[]; readonly todo: string }[] = [
  {
    id: 'jail',
    what: 'a session’s network has no way out (tried)',
    ways: ['host-services', 'host-datagrams', 'host-names', 'ipv6', 'routes', 'icmp', 'udp-443', 'metadata'],
    todo: 'this engine does not keep agents from this machine: use Docker Engine 20.10 or newer on Linux, or Docker Desktop as it comes',
  },
  {
    id: 'dns',
    what: 'names are asked of the gate alone (tried)',
    ways: ['dns'],
    todo: 'the engine’s resolver asks somebody else, or nobody (25.0.4 to 26.1.2, where sessions go past it by a resolv.conf): update it',
  },
  {
    id: 'hardening',
    what: 'containers get the hardening that is asked for (tried)',
    ways: [
      ...(['raw-sockets', 'root-filesystem', 'mounts', 'kernel-files', 'capabilities', 'no-new-privileges', 'seccomp', 'user'] as const),
      ...(['namespaces', 'engine-socket', 'sidecar-folders', 'leases', 'same-container'] as const),
    ],
    todo: 'look at daemon.json and the runtime: no session starts on this engine',
  },
]

/**
 * Looks at everything at once. Every check has its own bound, and one that fails or hangs says so in its row; what could not be looked
 * at because the engine does not answer is a failure too. Nothing is left behind. Works without a daemon.
 * @param tell hears of each row as it is known
 */
export async function examine(parts: DoctorParts, signal: AbortSignal, tell?: (row: DoctorRow) => void): Promise<DoctorRow[]> {
  const engine = readEngine(parts, signal)
  const jail = engine.then((facts) => inTime((bound) => tryWithImage(facts, (throwAway) => tryJail(throwAway, bound)), signal))
  jail.catch(() => undefined)
  const checks = [
    ...hostChecks(parts),
    ...engineChecks(parts, engine),
    ...JAIL_ROWS.map(({ id, what, ways, todo }) => ({
      id,
      what,
      run: async () => {
        const outcome = judge(await jail, ways, todo)
        return id === 'jail' ? { ...outcome, found: `${outcome.found} (${settingOf(await engine)})` } : outcome
      },
    })),
    {
      id: 'sockets',
      what: 'sockets of this machine can be mounted (tried)',
      run: async (bound: AbortSignal) => tryWithImage(await engine, (throwAway) => trySocket(throwAway, bound)),
    },
  ]
  return Promise.all(
    checks.map(async ({ id, what, run }) => {
      const row = { id, what, ...(await outcomeOf(run, signal)) }
      tell?.(row)
      return row
    }),
  )
}

function hostChecks(parts: DoctorParts): Check[] {
  return [
    { id: 'node', what: 'Node', run: () => checkNode(parts.nodeVersion) },
    { id: 'home', what: '$SALLYPORT_HOME', run: () => checkHome(parts.home) },
    { id: 'keyring', what: 'the system’s keyring', run: () => checkKeyring(parts.packageRoot, parts.environment) },
    {
      id: 'compose',
      what: 'docker compose',
      run: async (bound) => {
        const said = await parts.docker(['compose', 'version', '--short'], bound)
        const version = said.stdout.trim()
        if (said.code === 0 && /^v?(?:[2-9]|\d\d)\./.test(version)) return { state: 'ok', found: version }
        return {
          state: 'warning',
          found: version || complaintOf(said),
          todo: 'only for "sallyport compose": install the compose plugin, version 2',
        }
      },
    },
  ]
}

type EngineFacts = {
  readonly version: z.infer<typeof EngineVersion>['Server']
  readonly info: EngineInfo
  readonly throwAway: ThrowAwayParts
}

function engineChecks(parts: DoctorParts, engine: Promise<EngineFacts>): Check[] {
  const ofInfo = (check: (info: EngineInfo) => Outcome | Promise<Outcome>) => async () => check((await engine).info)
  return [
    {
      id: 'engine',
      what: 'the engine answers',
      run: async () => ({ state: 'ok', found: `API ${(await engine).version.ApiVersion}, ${(await engine).info.OperatingSystem}` }),
    },
    { id: 'version', what: 'the engine’s version', run: async () => checkVersion((await engine).version.Version) },
    {
      id: 'storage',
      what: 'images and containers',
      run: ofInfo(async (info) => checkStorage(info, await freeBytesOf(info.DockerRootDir))),
    },
    { id: 'machine', what: 'the engine’s machine', run: ofInfo(checkMachine) },
    { id: 'users', what: 'users of containers', run: ofInfo(checkUsers) },
    { id: 'seccomp', what: 'filter of system calls', run: ofInfo(checkSeccomp) },
    { id: 'apparmor', what: 'AppArmor or SELinux', run: ofInfo(checkMandatory) },
    { id: 'cgroups', what: 'limits', run: ofInfo(checkLimits) },
    { id: 'clock', what: 'clocks', run: ofInfo((info) => checkClock(info.SystemTime, parts.system.now())) },
    {
      id: 'subnets',
      what: 'a free subnet for a session',
      run: async () => ({ state: 'ok', found: chooseJail(parts.home, (await engine).throwAway.taken).subnet }),
    },
    {
      id: 'image',
      what: 'the sidecar’s image',
      run: async (bound) => {
        await engine
        return (await hasImage(parts, bound)) ? { state: 'ok', found: parts.image } : { state: 'warning', ...noImage(parts.image) }
      },
    },
  ]
}

/** @throws SallyportError engine_unavailable */
async function readEngine(parts: DoctorParts, signal: AbortSignal): Promise<EngineFacts> {
  const ask = async (args: readonly string[]): Promise<string> => {
    const said = await parts.docker(args, signal)
    if (said.code === 0) return said.stdout
    const hint = 'start the engine and see that you may use it: "docker version" must show a Server'
    throw new SallyportError('engine_unavailable', complaintOf(said), { hint })
  }
  const [version, info, networks] = await Promise.all([
    ask(['version', '--format', '{{json .}}']),
    ask(['info', '--format', '{{json .}}']),
    subnetsOf(ask),
  ])
  const { Server } = EngineVersion.parse(JSON.parse(version))
  const [major = 0, minor = 0] = Server.ApiVersion.split('.').map(Number)
  const { docker, image, home, system } = parts
  const taken = [...networks, ...hostSubnets()]
  const throwAway = { docker, image, home, system, taken, canIsolate: major > 1 || minor >= 48 }
  return { version: Server, info: EngineInfo.parse(JSON.parse(info)), throwAway }
}

/** A network that goes between the list and the look at it is left out. */
async function subnetsOf(ask: (args: readonly string[]) => Promise<string>): Promise<string[]> {
  const ids = (await ask(['network', 'ls', '--quiet', '--no-trunc'])).split('\n').filter(Boolean)
  const format = '{{range .IPAM.Config}}{{.Subnet}} {{end}}'
  const found = await Promise.all(ids.map((id) => ask(['network', 'inspect', '--format', format, id]).catch(() => '')))
  return found.flatMap((line) => line.split(/\s+/).filter(Boolean))
}

async function tryWithImage<T>({ throwAway }: EngineFacts, attempt: (parts: ThrowAwayParts) => Promise<T>): Promise<T> {
  const { found, todo } = noImage(throwAway.image)
  if (!(await hasImage(throwAway, AbortSignal.timeout(LIMITS.doctorCallMs))))
    throw new SallyportError('engine_unavailable', found, { hint: todo })
  return attempt(throwAway)
}

async function hasImage({ docker, image }: Pick<DoctorParts, 'docker' | 'image'>, signal: AbortSignal): Promise<boolean> {
  return (await docker(['image', 'inspect', '--format', '{{.Id}}', image], signal)).code === 0
}

function noImage(image: string): { found: string; todo: string } {
  return {
    found: `${image} is not here`,
    todo: `docker build --target sidecar --tag ${image} . (in the folder of Sallyport), or docker pull`,
  }
}

/** What keeps the bridge of a jail from having an address of this machine. */
function settingOf({ throwAway }: EngineFacts): string {
  return throwAway.canIsolate ? 'inhibit_ipv4, gateway_mode_ipv4 isolated' : 'inhibit_ipv4'
}

function judge(rows: readonly SelftestRow[], ways: readonly WayId[], todo: string): Outcome {
  const about = rows.filter(({ id }) => ways.includes(id))
  const open = about.filter(({ ok }) => !ok)
  if (open.length > 0) return { state: 'failure', found: open.map(({ id, detail }) => `${id}: ${detail}`).join('; '), todo }
  return { state: 'ok', found: about.length === 1 ? (about[0]?.detail ?? '') : `${about.length} ways tried, all shut` }
}

async function outcomeOf(run: Check['run'], signal: AbortSignal): Promise<Outcome> {
  try {
    return await inTime(run, signal)
  } catch (error) {
    const found = error instanceof Error ? error.message.slice(0, 300) : String(error)
    const hint = error instanceof SallyportError ? error.hint : undefined
    return { state: 'failure', found, ...(hint !== undefined && { todo: hint }) }
  }
}

/** What doesn't end in time is left to itself, so that the others are not kept waiting; what it made, it removes. */
async function inTime<T>(work: (bound: AbortSignal) => Promise<T> | T, signal: AbortSignal): Promise<T> {
  const late = AbortSignal.timeout(LIMITS.doctorCheckMs)
  const bound = AbortSignal.any([signal, late])
  const { promise, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => {
    const message = late.aborted ? `no answer in ${LIMITS.doctorCheckMs / 1_000} s` : 'it was stopped'
    reject(new SallyportError('engine_unavailable', message))
  }
  bound.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([work(bound), promise])
  } finally {
    bound.removeEventListener('abort', onAbort)
  }
}
