import { createHash } from 'node:crypto'
import type { ContainerInspection, ContainerOptions, HostConfig, NetworkInspection, NetworkOptions } from './engine.ts'

/** What was asked of the engine for one container, as it is kept: of variables only what tells their values apart, since some are leases. */
export type Asked = {
  readonly options: Omit<ContainerOptions, 'Env'>
  /** SHA-256 of each value, hex, by name: ours and those of the image. */
  readonly variables: Readonly<Record<string, string>>
  /** By name: every network that it shall be on, and no other. The ids where they are known. */
  readonly networks: Readonly<Record<string, string | undefined>>
}

/** A network that a container may be on, and need not: of one beside it, which comes and goes. */
export type Visit = { readonly address: string }

/** What the engine fills in by itself, and may: nothing of it opens anything. */
const ENGINE_DEFAULTS: Readonly<Record<string, readonly unknown[]>> = {
  ShmSize: [67_108_864],
  ConsoleSize: [[0, 0]],
  Isolation: ['default'],
  MemorySwappiness: [-1],
}

/** `environment`: what `Env` was, with what the image adds to it. */
export function askedOf({ Env, ...options }: ContainerOptions, imageEnvironment: readonly string[], networks: Asked['networks']): Asked {
  return { options, variables: digests([...imageEnvironment, ...Env]), networks }
}

/**
 * Every difference between what was asked for and what `inspect` shows, one a line: `HostConfig.Privileged is true instead of false`.
 * A field of the engine that nobody here knows must be empty: a setting that came with a newer engine, or was added to the container
 * on its way, is a difference too. Values of variables are never in a line.
 * @param visits networks that it may be on besides, by name
 */
export function containerDifferences(
  asked: Asked,
  found: ContainerInspection,
  engine: { readonly hasAppArmor: boolean },
  visits: ReadonlyMap<string, Visit> = new Map(),
): string[] {
  const { options } = asked
  const { Config: config } = found
  const lines = new Differences()
  lines.compare('Name', options.name, found.Name.replace(/^\//, ''))
  lines.compare('Image', options.Image, found.Image)
  for (const field of ['User', 'Entrypoint', 'Cmd', 'WorkingDir', 'Tty', 'OpenStdin', 'StdinOnce'] as const)
    lines.compare(`Config.${field}`, options[field], config[field])
  // The image's times stay beside it; without a test they mean nothing.
  lines.compare('Config.Healthcheck.Test', options.Healthcheck.Test, config.Healthcheck?.Test)
  for (const [name, value] of Object.entries(options.Labels)) lines.compare(`Config.Labels.${name}`, value, config.Labels?.[name])
  const added = Object.keys(config.Labels ?? {}).filter((name) => name.startsWith('sallyport.') && options.Labels[name] === undefined)
  for (const name of added) lines.add(`Config.Labels.${name} was added`)
  compareVariables(lines, asked.variables, digests(config.Env ?? []))
  compareHost(lines, options.HostConfig, found.HostConfig)
  compareMounts(lines, options.HostConfig, found)
  compareNetworks(lines, asked, found, visits)
  if (engine.hasAppArmor && (found.AppArmorProfile ?? '') === '') lines.add('AppArmorProfile is missing')
  if (found.AppArmorProfile === 'unconfined') lines.add('AppArmorProfile is unconfined')
  return lines.all
}

/** The same for a network. `containers`: who may be on it, by name. */
export function networkDifferences(asked: NetworkOptions, found: NetworkInspection, containers: readonly string[]): string[] {
  const lines = new Differences()
  for (const field of ['Name', 'Driver', 'Internal', 'Attachable', 'Ingress', 'EnableIPv6', 'Labels'] as const)
    lines.compare(`network ${asked.Name}: ${field}`, asked[field], found[field])
  lines.compare(`network ${asked.Name}: IPAM.Config`, subnets(asked), subnets(found))
  const ours = (options: Readonly<Record<string, string>> | null) =>
    Object.fromEntries(
      Object.entries(options ?? {}).filter(([name]) => name.startsWith('com.docker.network.bridge.') || name in asked.Options),
    )
  lines.compare(`network ${asked.Name}: Options`, asked.Options, ours(found.Options))
  for (const { Name } of Object.values(found.Containers ?? {}))
    if (!containers.includes(Name)) lines.add(`network ${asked.Name}: ${Name} is on it`)
  return lines.all
}

function subnets({ IPAM }: Pick<NetworkOptions, 'IPAM'>) {
  return (IPAM.Config ?? []).map(({ Subnet, IPRange }) => ({ Subnet, IPRange }))
}

class Differences {
  readonly all: string[] = []

  add(line: string): void {
    this.all.push(line)
  }

  compare(field: string, asked: unknown, found: unknown): void {
    if (canonical(asked) !== canonical(found)) this.add(`${field} is ${shown(found)} instead of ${shown(asked)}`)
  }
}

function compareVariables(lines: Differences, asked: Asked['variables'], found: Asked['variables']): void {
  for (const name of Object.keys(asked)) {
    if (found[name] === undefined) lines.add(`Config.Env: ${name} is missing`)
    else if (found[name] !== asked[name]) lines.add(`Config.Env: ${name} has another value`)
  }
  for (const name of Object.keys(found)) if (asked[name] === undefined) lines.add(`Config.Env: ${name} was added`)
}

function compareHost(lines: Differences, asked: HostConfig, found: ContainerInspection['HostConfig']): void {
  const known: Readonly<Record<string, unknown>> = asked
  for (const [field, value] of Object.entries(known)) {
    // Where the kernel does not count swap the engine says so and writes -1; memory itself stays limited.
    if (field === 'MemorySwap' && found[field] === -1 && found['Memory'] === asked.Memory) continue
    lines.compare(`HostConfig.${field}`, value, found[field])
  }
  for (const [field, value] of Object.entries(found)) {
    if (field in known || canonical(value) === NOTHING) continue
    if (ENGINE_DEFAULTS[field]?.some((usual) => canonical(usual) === canonical(value)) === true) continue
    lines.compare(`HostConfig.${field}`, undefined, value)
  }
}

/** What is really mounted: also what an image's volumes or another container brought. */
function compareMounts(lines: Differences, { Mounts }: HostConfig, { Mounts: found }: ContainerInspection): void {
  const asked = new Map(
    Mounts.map(({ Source, Target, ReadOnly }) => [Target, { Type: 'bind', Source, RW: !ReadOnly, Propagation: 'rprivate' }]),
  )
  for (const { Type, Source, Destination, RW, Propagation } of found) {
    const wanted = asked.get(Destination)
    if (wanted === undefined) lines.add(`Mounts: ${Type} ${Source || '(new)'} at ${Destination} was added`)
    else lines.compare(`Mounts: ${Destination}`, wanted, { Type, Source, RW, Propagation })
    asked.delete(Destination)
  }
  for (const target of asked.keys()) lines.add(`Mounts: ${target} is missing`)
}

function compareNetworks(
  lines: Differences,
  { networks, options }: Asked,
  { NetworkSettings, State }: ContainerInspection,
  visits: ReadonlyMap<string, Visit>,
): void {
  const found = NetworkSettings.Networks ?? {}
  // Without a process it has no place in its networks.
  const isUp = State.Running && State.Restarting !== true
  for (const [name, { IPAddress }] of Object.entries(found)) {
    if (name in networks) continue
    const visit = visits.get(name)
    if (visit === undefined) lines.add(`NetworkSettings: the network ${name} was added`)
    // It has one from the moment that it is in the network, or none.
    else if (isUp && IPAddress !== '') lines.compare(`NetworkSettings: the address on ${name}`, visit.address, IPAddress)
  }
  for (const [name, id] of Object.entries(networks)) {
    const shownNetwork = found[name]
    if (shownNetwork === undefined) lines.add(`NetworkSettings: the network ${name} is missing`)
    else if (isUp && id !== undefined) lines.compare(`NetworkSettings: the id of ${name}`, id, shownNetwork.NetworkID)
    const address = options.NetworkingConfig.EndpointsConfig[name]?.IPAMConfig?.IPv4Address
    if (isUp && address !== undefined) lines.compare(`NetworkSettings: the address on ${name}`, address, shownNetwork?.IPAddress)
  }
  const open = Object.entries(NetworkSettings.Ports ?? {}).filter(([, bindings]) => canonical(bindings) !== NOTHING)
  for (const [port] of open) lines.add(`NetworkSettings: port ${port} is published`)
}

function digests(environment: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    environment.map((entry) => {
      const [name = '', ...value] = entry.split('=')
      return [name, createHash('sha256').update(value.join('=')).digest('hex')]
    }),
  )
}

const NOTHING = 'null'

/** Text that is the same for the same meaning: the engine writes what is not set as null, false, zero, or an empty text, list or table. */
function canonical(value: unknown): string {
  return JSON.stringify(meaning(value) ?? null)
}

function meaning(value: unknown): unknown {
  if (value === undefined || value === null || value === false || value === 0 || value === '') return undefined
  if (Array.isArray(value)) return value.length === 0 ? undefined : value.map((item) => meaning(item) ?? null)
  if (typeof value !== 'object') return value
  const entries = Object.entries(value)
    .map(([key, item]) => [key, meaning(item)] as const)
    .filter(([, item]) => item !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}
