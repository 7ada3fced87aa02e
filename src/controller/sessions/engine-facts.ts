import { execFileSync } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { SallyportError } from '../../kernel/errors.ts'
import type { EngineNetwork } from './subnets.ts'

const TIMEOUT_MS = 30_000

/**
 * Every network of the engine that `docker` talks to.
 * @throws SallyportError engine_unavailable
 */
export function engineNetworks(): EngineNetwork[] {
  return readNetworks()
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const [project = '', subnets = ''] = line.split('|')
      return { project, subnets: subnets.split(' ').filter(Boolean) }
    })
}

/** A line a network. One that is removed between the list and the look at it makes the whole look fail: then it is listed anew. */
function readNetworks(triesLeft = 10): string {
  const ids = docker(['network', 'ls', '--quiet', '--no-trunc']).split('\n').filter(Boolean)
  if (ids.length === 0) return ''
  const format = '{{index .Labels "com.docker.compose.project"}}|{{range .IPAM.Config}}{{.Subnet}} {{end}}'
  try {
    return docker(['network', 'inspect', '--format', format, ...ids])
  } catch (error) {
    const said = error instanceof SallyportError && error.cause instanceof Error ? error.cause.message : ''
    if (triesLeft === 0 || !/network \S+ not found/i.test(said)) throw error
    return readNetworks(triesLeft - 1)
  }
}

/**
 * How many processors the engine's machine has.
 * @throws SallyportError engine_unavailable
 */
export function engineCpus(): number {
  const count = Number(docker(['info', '--format', '{{.NCPU}}']))
  return Number.isInteger(count) && count > 0 ? count : availableParallelism()
}

/**
 * Whether the engine can leave a bridge without any address of the host by itself: 28 (API 1.48) and newer.
 * @throws SallyportError engine_unavailable
 */
export function engineIsolates(): boolean {
  const [major = 0, minor = 0] = docker(['version', '--format', '{{.Server.APIVersion}}']).split('.').map(Number)
  return major > 1 || (major === 1 && minor >= 48)
}

/** The same of an engine that has told what it is. */
export function isolatesBridges({ apiVersion }: { readonly apiVersion: string }): boolean {
  const [major = 0, minor = 0] = apiVersion.split('.').map(Number)
  return major > 1 || (major === 1 && minor >= 48)
}

/**
 * Whether a container of a compose project runs.
 * @throws SallyportError engine_unavailable
 */
export function engineRuns(project: string): boolean {
  return docker(['ps', '--quiet', '--filter', `label=com.docker.compose.project=${project}`]) !== ''
}

/**
 * Whether the engine has an image already. Nothing is pulled.
 * @throws SallyportError engine_unavailable
 */
export function engineHasImage(name: string): boolean {
  return docker(['image', 'ls', '--quiet', name]) !== ''
}

function docker(args: readonly string[]): string {
  try {
    return execFileSync('docker', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: TIMEOUT_MS }).trim()
  } catch (cause) {
    throw new SallyportError('engine_unavailable', `docker ${args.slice(0, 2).join(' ')} failed`, {
      hint: 'is the Docker Engine running, and may you use it? "docker version" must show a Server',
      cause,
    })
  }
}
