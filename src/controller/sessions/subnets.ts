import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { codeOf } from '../../kernel/errors.ts'
import { chooseJail, jailOfSubnet, subnetsOverlap, type Jail } from './jail.ts'

/** A network of the engine: the compose project that made it (or an empty text) and its subnets in CIDR form. */
export type EngineNetwork = { readonly project: string; readonly subnets: readonly string[] }

/**
 * A jail for a project that nothing else on this machine uses: no network of the engine, no interface or route, and no other
 * project of `home`, whether it is up or not. It is reserved by a file, so that two commands at once don't choose the same.
 * `before` is the subnet that the project has had; it is kept while it is free.
 * @throws SallyportError subnet_exhausted
 */
export function reserveJail(home: string, project: string, before: string | undefined, networks: readonly EngineNetwork[]): Jail {
  const own = new Set(networks.filter((network) => network.project === project).flatMap((network) => network.subnets))
  const others = networks.filter((network) => network.project !== project).flatMap((network) => network.subnets)
  // Where the engine gives a bridge an address, a jail of this project that is up is among the routes of the host.
  const taken = [...others, ...hostSubnets().filter((subnet) => !own.has(subnet))]
  const folder = join(home, 'subnets')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  taken.push(...reservedByOthers(home, folder, project))
  for (;;) {
    const jail = keep(before, taken) ?? chooseJail(project, taken)
    if (reserve(folder, jail.subnet, project)) return jail
    taken.push(jail.subnet)
  }
}

/** Gives back what a project has reserved. Nothing happens where it has nothing. */
export function releaseJail(home: string, project: string): void {
  const folder = join(home, 'subnets')
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const file = join(folder, name)
    if (holderOf(file) === project) rmSync(file, { force: true })
  }
}

/** Nobody where the file was removed meanwhile. */
function holderOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return ''
    throw error
  }
}

/** What this machine's own interfaces and routes take, in CIDR form. */
export function hostSubnets(): string[] {
  return [...interfaceSubnets(), ...routeSubnets()]
}

function keep(before: string | undefined, taken: readonly string[]): Jail | undefined {
  const jail = before === undefined ? undefined : jailOfSubnet(before)
  return jail === undefined || taken.some((subnet) => subnetsOverlap(subnet, jail.subnet)) ? undefined : jail
}

/** Reservations of projects whose state is gone are dropped. */
function reservedByOthers(home: string, folder: string, project: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const holder = holderOf(join(folder, name))
    if (holder === project) return []
    if (holder !== '' && existsSync(join(home, holder))) return [name.replace('_', '/')]
    rmSync(join(folder, name), { force: true })
    return []
  })
}

function reserve(folder: string, subnet: string, project: string): boolean {
  const file = join(folder, subnet.replace('/', '_'))
  try {
    writeFileSync(file, `${project}\n`, { flag: 'wx', mode: 0o600 })
    return true
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
    return readFileSync(file, 'utf8').trim() === project
  }
}

function interfaceSubnets(): string[] {
  return Object.values(networkInterfaces()).flatMap((list = []) => list.flatMap(({ cidr }) => cidr ?? []))
}

/** Routes of a VPN have no interface address of their own. Linux only; elsewhere the engine runs in a machine of its own. */
function routeSubnets(): string[] {
  const file = '/proc/net/route'
  return existsSync(file) ? parseRoutes(readFileSync(file, 'utf8')) : []
}

/** The subnets of `/proc/net/route`, whose numbers are hexadecimal and little-endian. The default route takes everything and means nothing. */
export function parseRoutes(text: string): string[] {
  return text
    .trim()
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const [, destination = '', , , , , , mask = ''] = line.split(/\s+/)
      const bits = [...Buffer.from(mask, 'hex')].reduce((sum, byte) => sum + byte.toString(2).replaceAll('0', '').length, 0)
      return bits === 0 ? [] : [`${[...Buffer.from(destination, 'hex')].toReversed().join('.')}/${bits}`]
    })
}
