import type { DoctorOutcome as Outcome } from '../../wire/first-run.ts'
import * as z from 'zod'

/** The parts of `docker version` and `docker info` that are looked at. The engine leaves fields out that it doesn't know. */
export const EngineVersion = z.object({ Server: z.object({ Version: z.string(), ApiVersion: z.string() }) })
export const EngineInfo = z.object({
  Driver: z.string().default(''),
  DockerRootDir: z.string().default(''),
  OperatingSystem: z.string().default(''),
  SystemTime: z.string().default(''),
  SecurityOptions: z
    .array(z.string())
    .nullish()
    .transform((list) => list ?? []),
  CgroupVersion: z.string().default('1'),
  CgroupDriver: z.string().default(''),
  MemoryLimit: z.boolean().default(false),
  SwapLimit: z.boolean().default(false),
  PidsLimit: z.boolean().default(false),
  CpuCfsQuota: z.boolean().default(false),
  NCPU: z.number().default(0),
  MemTotal: z.number().default(0),
})
export type EngineInfo = z.infer<typeof EngineInfo>

const OLDEST = [20, 10] as const
const GIB = 1024 ** 3
const FREE_BYTES_NEEDED = 2 * GIB
const FREE_BYTES_WANTED = 10 * GIB
const MEMORY_BYTES_WANTED = 2 * GIB
const SKEW_MS_NOTED = 5_000
const SKEW_MS_MAX = 60_000

/** 20.10 is the oldest that is tried. From 25.0.4 to 26.1.2 the engine's resolver does not ask a server inside an internal network. */
export function checkVersion(version: string): Outcome {
  const [major = 0, minor = 0, patch = 0] = version.split(/[^\d]+/).map(Number)
  const number = major * 1_000_000 + minor * 1_000 + patch
  if (number === 0) return { state: 'warning', found: `"${version.slice(0, 60)}" is no version that can be read` }
  if (number < OLDEST[0] * 1_000_000 + OLDEST[1] * 1_000)
    return { state: 'failure', found: version, todo: 'install Docker Engine 20.10 or newer' }
  if (number >= 25_000_004 && number <= 26_001_002)
    return {
      state: 'warning',
      found: `${version}: its resolver does not ask servers inside an internal network`,
      todo: 'update to 26.1.3 or newer; until then agents ask the gate by the resolv.conf that sessions mount',
    }
  return { state: 'ok', found: version }
}

/** `freeBytes` is undefined where the engine's folder is on another machine. */
export function checkStorage(info: EngineInfo, freeBytes: number | undefined): Outcome {
  const free = freeBytes === undefined ? 'free space is not seen from here' : `${(freeBytes / GIB).toFixed(1)} GiB free`
  const found = `${info.Driver || 'unknown driver'}, ${free}`
  if (freeBytes !== undefined && freeBytes < FREE_BYTES_NEEDED)
    return { state: 'failure', found, todo: `make room in ${info.DockerRootDir}: docker system df shows what takes it` }
  if (info.Driver === 'vfs')
    return {
      state: 'warning',
      found: `${found}; vfs copies every layer for every container`,
      todo: 'use overlay2 (storage-driver in daemon.json)',
    }
  if (freeBytes !== undefined && freeBytes < FREE_BYTES_WANTED)
    return { state: 'warning', found, todo: `images of agents are large; room is in ${info.DockerRootDir}: docker system df` }
  return { state: 'ok', found }
}

export function checkUsers({ SecurityOptions }: EngineInfo): Outcome {
  if (has(SecurityOptions, 'rootless')) return { state: 'ok', found: 'rootless: the engine itself is an ordinary user' }
  if (has(SecurityOptions, 'userns'))
    return {
      state: 'warning',
      found: 'uids of containers are other ones on the host (userns-remap)',
      todo: 'files that the agent makes in a workspace belong to the remapped uid; the control channel goes over the engine where sockets can’t be mounted',
    }
  return { state: 'ok', found: 'uids of containers are those of the host: sessions run as you, not as root' }
}

export function checkSeccomp({ SecurityOptions }: EngineInfo): Outcome {
  const option = SecurityOptions.find((text) => text.startsWith('name=seccomp'))
  if (option === undefined)
    return { state: 'failure', found: 'the engine filters no system calls', todo: 'use a kernel and an engine with seccomp' }
  const profile = /profile=([^,]+)/.exec(option)?.[1] ?? 'default'
  if (profile === 'unconfined')
    return { state: 'failure', found: 'the engine’s default profile is "unconfined"', todo: 'remove seccomp-profile from daemon.json' }
  return { state: 'ok', found: `profile ${profile}` }
}

export function checkMandatory({ SecurityOptions, OperatingSystem }: EngineInfo): Outcome {
  if (has(SecurityOptions, 'apparmor')) return { state: 'ok', found: 'AppArmor' }
  if (has(SecurityOptions, 'selinux')) return { state: 'ok', found: 'SELinux' }
  return {
    state: 'warning',
    found: `neither AppArmor nor SELinux${OperatingSystem === '' ? '' : ` (${OperatingSystem})`}`,
    todo: 'sessions are held without; with AppArmor in the kernel the engine adds a layer by itself',
  }
}

export function checkLimits(info: EngineInfo): Outcome {
  const missing = [
    ...(info.MemoryLimit ? [] : ['memory']),
    ...(info.PidsLimit ? [] : ['processes']),
    ...(info.CpuCfsQuota ? [] : ['processors']),
  ]
  const found = `cgroups ${info.CgroupVersion} (${info.CgroupDriver || 'no driver'})`
  if (missing.length > 0)
    return {
      state: 'failure',
      found: `${found}: no limits of ${missing.join(', ')}`,
      todo: 'a session without limits can take all of the machine; rootless engines need cgroups 2 with systemd delegation',
    }
  if (!info.SwapLimit) return { state: 'warning', found: `${found}: swap is not limited`, todo: 'boot with swapaccount=1, or without swap' }
  return { state: 'ok', found: `${found}: memory, swap, processors, processes` }
}

export function checkMachine({ NCPU, MemTotal }: EngineInfo): Outcome {
  const found = `${NCPU} processors, ${(MemTotal / GIB).toFixed(1)} GiB of memory`
  if (MemTotal < MEMORY_BYTES_WANTED)
    return { state: 'warning', found, todo: 'give the engine 2 GiB or more (a session is 1 GiB and its agent)' }
  return { state: 'ok', found }
}

/** Certificates and the audit carry times: the engine's machine and this one must agree. */
export function checkClock(engineTime: string, nowMs: number): Outcome {
  const theirs = Date.parse(engineTime)
  if (Number.isNaN(theirs)) return { state: 'warning', found: 'the engine does not say its time' }
  const skewMs = Math.abs(theirs - nowMs)
  const found = `${(skewMs / 1_000).toFixed(1)} s between this machine and the engine’s`
  const todo = 'set both clocks (NTP); in a virtual machine that slept, restart the engine'
  if (skewMs > SKEW_MS_MAX) return { state: 'failure', found, todo }
  return skewMs > SKEW_MS_NOTED ? { state: 'warning', found, todo } : { state: 'ok', found: 'this machine and the engine agree' }
}

function has(options: readonly string[], name: string): boolean {
  return options.some((option) => option === `name=${name}` || option.startsWith(`name=${name},`))
}
