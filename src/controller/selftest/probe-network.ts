import { createSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { decode, encode } from 'dns-packet'
import ipaddr from 'ipaddr.js'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { parseRoutes } from '../sessions/subnets.ts'
import { broken, finding, ranWell } from './probe-kernel.ts'
import type { ProbeTask } from './task.ts'
import type { Finding } from './ways.ts'

const GATE_PORT = 3128
const SIDECAR_PORTS = [3128, 1080, 7070, 443]
const HOST_NAMES = ['host.docker.internal', 'gateway.docker.internal', 'docker.for.mac.localhost', 'host.containers.internal']
/** What clouds answer at, spelled in several ways. The gate is asked to open a way there; nothing is sent on one that opens. */
const METADATA = [
  '169.254.169.254',
  'metadata.google.internal',
  '[fd00:ec2::254]',
  '100.100.100.200',
  '168.63.129.16',
  '[::ffff:169.254.169.254]',
  'instance-data',
]
/** RFC 8914 §4.16: only the gate says of a name that it is kept from being looked up. A resolver elsewhere does not. */
const DNS_BLOCKED = 15
const ENGINE_RESOLVER = '127.0.0.11'

/**
 * What a process in the agent's place can reach. `label` makes the name that is asked for one that nobody has asked before. Where the
 * kernel sends a packet does not depend on the gate, as long as no route leads by it (`routes`); what the gate answers is tried once it does.
 */
export async function tryNetwork(task: ProbeTask, label: string, proxy: string | undefined, gateReady: Promise<void>): Promise<Finding[]> {
  const alone: Tries = [
    ['host-services', () => hostServices(task)],
    ['host-datagrams', () => hostDatagrams(task)],
    ['ipv6', () => ipv6(task)],
    ['routes', () => Promise.resolve(routes(task))],
    ['other-sessions', () => otherSessions(task)],
    ['icmp', () => icmp(task)],
    ['raw-sockets', () => rawSockets()],
  ]
  const ofGate: Tries = [
    ['host-names', () => hostNames(task)],
    ['dns', () => dns(label)],
    ['udp-443', () => datagramToGate(task)],
    ['metadata', () => metadata(task, proxy)],
  ]
  const findings = await Promise.all([attemptAll(alone), gateReady.then(() => attemptAll(ofGate))])
  return findings.flat()
}

type Tries = readonly (readonly [Finding['id'], () => Promise<Finding>])[]

function attemptAll(tries: Tries): Promise<Finding[]> {
  return Promise.all(tries.map(([id, attempt]) => attempt().catch((error: unknown) => broken(id, error))))
}

async function hostServices({ host, subnet }: ProbeTask): Promise<Finding> {
  const addresses = [...new Set([...host.addresses, ...bridgeAddresses(subnet)])]
  const open = await filterAsync(addresses, async (address) => (await reach(address, host.port)) === 'connected')
  return finding(
    'host-services',
    open.length === 0,
    open.map((address) => `${address} answers`),
    `${addresses.length} addresses, none answers`,
  )
}

/** Whether one arrives is seen by the listener; here is known only what could be sent. */
async function hostDatagrams({ host, subnet }: ProbeTask): Promise<Finding> {
  const addresses = [...new Set([...host.addresses, ...bridgeAddresses(subnet)])]
  const answers = await Promise.all(addresses.map((address) => exchangeDatagram(address, host.port, Buffer.from('sallyport probe'))))
  const open = addresses.filter((_, index) => answers[index] instanceof Buffer)
  return finding(
    'host-datagrams',
    open.length === 0,
    open.map((address) => `${address} answers`),
    `${addresses.length} addresses, none answers`,
  )
}

async function hostNames({ sidecar }: ProbeTask): Promise<Finding> {
  const open = await filterAsync(HOST_NAMES, async (name) => {
    const { address } = await lookup(name).catch(() => ({ address: undefined }))
    // A rule of the policy may be about such a name: then it is the gate, like every name that exists.
    return address !== undefined && address !== sidecar
  })
  return finding('host-names', open.length === 0, open, `${HOST_NAMES.length} names, none exists`)
}

async function ipv6({ linkLocal, host }: ProbeTask): Promise<Finding> {
  const outer = Object.entries(networkInterfaces()).flatMap(([name, list = []]) =>
    list.filter(({ family, internal }) => family === 'IPv6' && !internal).map(({ address }) => `${address} on ${name}`),
  )
  const names = Object.keys(networkInterfaces()).filter((name) => name !== 'lo')
  const targets = linkLocal.flatMap((address) => names.map((name) => `${address}%${name}`))
  const reached = await filterAsync(targets, async (target) => (await reach(target, host.port)) === 'connected')
  const setting = '/proc/sys/net/ipv6/conf/all/disable_ipv6'
  const isOff = !existsSync(setting) || readFileSync(setting, 'utf8').trim() === '1'
  const open = [...outer, ...reached.map((target) => `${target} answers`), ...(isOff ? [] : ['IPv6 is not switched off'])]
  return finding('ipv6', open.length === 0, open, 'no address, switched off')
}

/** Older engines give internal networks a default route too, by an address that nobody has: `host-services` tries that. */
function routes({ subnet, sidecar }: ProbeTask): Finding {
  const text = readFileSync('/proc/net/route', 'utf8')
  const own = ipaddr.IPv4.parseCIDR(subnet)
  const interfaces = new Set(
    text
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.split(/\s+/)[0] ?? ''),
  )
  const outside = nextHops().filter((hop) => hop === sidecar || !ipaddr.IPv4.parse(hop).match(own))
  const foreign = parseRoutes(text).filter((route) => {
    const [address, bits] = ipaddr.IPv4.parseCIDR(route)
    return bits < own[1] || !address.match(own)
  })
  const open = [
    ...outside.map((hop) => `a default route by ${hop}`),
    ...foreign.map((route) => `a route to ${route}`),
    ...(interfaces.size > 1 ? [`${interfaces.size} interfaces`] : []),
  ]
  return finding('routes', open.length === 0, open, `${subnet} alone`)
}

/** Where the kernel would send what is for elsewhere. */
function nextHops(): string[] {
  const text = readFileSync('/proc/net/route', 'utf8')
  return [...text.matchAll(/^\S+\s+00000000\s+([0-9A-F]{8})\s/gm)].map(([, hex = '']) =>
    [...Buffer.from(hex, 'hex')].toReversed().join('.'),
  )
}

/** What the bridge's own address is or would be: the next hop, else the first one of the subnet. */
function bridgeAddresses(subnet: string): string[] {
  const [network] = ipaddr.IPv4.parseCIDR(subnet)
  const first = [...network.octets.slice(0, 3), (network.octets[3] ?? 0) + 1].join('.')
  return [...new Set([...nextHops(), first])]
}

async function otherSessions({ neighbours }: ProbeTask): Promise<Finding> {
  const targets = neighbours.flatMap((address) => SIDECAR_PORTS.map((port) => ({ address, port })))
  const open = await filterAsync(targets, async ({ address, port }) => (await reach(address, port)) === 'connected')
  const shut = neighbours.length === 0 ? 'there is no other session' : `${neighbours.length} gates, none answers`
  return finding(
    'other-sessions',
    open.length === 0,
    open.map(({ address, port }) => `${address}:${port} answers`),
    shut,
  )
}

/** The name ends in a domain that can never exist (RFC 6761 §6.4): should it leave after all, it tells nothing to anybody. */
async function dns(label: string): Promise<Finding> {
  const resolvers = [...readFileSync('/etc/resolv.conf', 'utf8').matchAll(/^\s*nameserver\s+(\S+)/gm)].map((match) => match[1] ?? '')
  if (resolvers.length === 0) return finding('dns', true, [], 'no resolver at all')
  const said = await Promise.all(resolvers.map((resolver) => askResolver(resolver, `${label}.selftest.invalid`)))
  const open = resolvers.flatMap((resolver, index) => {
    const answer = said[index] ?? ''
    return answer === 'gate' ? [] : [`${resolver}${resolver === ENGINE_RESOLVER ? ' (the engine’s)' : ''}: ${answer}`]
  })
  return finding('dns', open.length === 0, open, `${resolvers.join(', ')}: NXDOMAIN, by the gate`)
}

async function askResolver(resolver: string, name: string): Promise<string> {
  const query = encode({
    type: 'query',
    id: 0x5a11,
    flags: 0x0100,
    questions: [{ type: 'TXT', class: 'IN', name }],
    additionals: [
      { type: 'OPT', name: '.', udpPayloadSize: 1232, flags: 0, extendedRcode: 0, ednsVersion: 0, flag_do: false, options: [] },
    ],
  })
  const answer = await exchangeDatagram(resolver, 53, query, LIMITS.probeAttemptMs)
  if (typeof answer === 'string') return answer === 'silent' ? 'does not answer' : answer
  const { answers = [], additionals = [], rcode } = decode(answer) as ReturnType<typeof decode> & { rcode?: string }
  if (answers.length > 0) return 'the name exists'
  if (rcode !== 'NXDOMAIN') return rcode ?? 'an answer without a code'
  const options = additionals.flatMap((record) => (record.type === 'OPT' ? record.options : []))
  const isBlocked = options.some((option) => {
    const { code, data } = option as unknown as { code: number; data?: Buffer }
    return code === DNS_BLOCKED && data !== undefined && data.length >= 2 && data.readUInt16BE(0) === DNS_BLOCKED
  })
  return isBlocked ? 'gate' : 'NXDOMAIN, but not by the gate: somebody else was asked'
}

async function datagramToGate({ sidecar }: ProbeTask): Promise<Finding> {
  // Long enough for a QUIC server to answer with the versions that it knows (RFC 9000 §6, §14.1).
  const initial = Buffer.concat([Buffer.from([0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8]), Buffer.alloc(1_200)])
  const answer = await exchangeDatagram(sidecar, 443, initial)
  return finding('udp-443', !(answer instanceof Buffer), ['the gate answers'], typeof answer === 'string' ? answer : '')
}

/** An echo by the kind of socket that needs no right where the kernel gives it to every group. */
async function icmp({ subnet }: ProbeTask): Promise<Finding> {
  const open = await filterAsync(bridgeAddresses(subnet), (address) => {
    const script = `use Socket;
socket(my $s, AF_INET, SOCK_DGRAM, 1) or exit 3;
send($s, pack('CCnnn', 8, 0, 0, 0, 0), 0, sockaddr_in(0, inet_aton('${address}'))) or exit 4;
my $r = ''; vec($r, fileno($s), 1) = 1;
exit 5 unless select($r, undef, undef, ${LIMITS.probeAnswerMs / 1_000});
defined recv($s, my $b, 64, 0) or exit 6; exit 0`
    return ranWell('perl', ['-e', script])
  })
  return finding(
    'icmp',
    open.length === 0,
    open.map((address) => `${address} answers`),
    'no answer',
  )
}

async function rawSockets(): Promise<Finding> {
  // IPPROTO_RAW and ICMP by AF_INET, then all of Ethernet by AF_PACKET.
  const kinds = { 'a raw socket': '2, 3, 1', 'a raw socket with its own headers': '2, 3, 255', 'a packet socket': '17, 3, 768' }
  const open = await filterAsync(Object.entries(kinds), ([, numbers]) =>
    ranWell('perl', ['-e', `socket(my $s, ${numbers}) or exit 1; exit 0`]),
  )
  return finding(
    'raw-sockets',
    open.length === 0,
    open.map(([name]) => `${name} could be opened`),
    'none can be opened',
  )
}

async function metadata({ sidecar }: ProbeTask, proxy: string | undefined): Promise<Finding> {
  const said = await Promise.all(METADATA.map((host) => askGate(sidecar, `${host}:80`, credentialsOf(proxy))))
  const open = METADATA.flatMap((host, index) => {
    const status = said[index] ?? ''
    return /^4\d\d$/.test(status) ? [] : [`${host}: ${status}`]
  })
  return finding('metadata', open.length === 0, open, `${METADATA.length} asked for, all refused`)
}

/** The status that the gate answers a CONNECT with, or what went wrong. What opens is closed at once, before a byte is sent. */
function askGate(sidecar: string, authority: string, credentials: string | undefined): Promise<string> {
  const lease = credentials === undefined ? '' : `Proxy-Authorization: Basic ${credentials}\r\n`
  return new Promise((resolve) => {
    const socket = connect({ host: sidecar, port: GATE_PORT, timeout: LIMITS.probeAttemptMs })
    const end = (status: string): void => {
      socket.destroy()
      resolve(status)
    }
    let head = ''
    socket.on('connect', () => socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${lease}\r\n`))
    socket.on('data', (chunk) => {
      head += chunk.toString('latin1')
      const status = /^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]
      if (status !== undefined) end(status)
    })
    socket.on('timeout', () => end('the gate does not answer'))
    socket.on('error', (error) => end(`the gate: ${codeOf(error)}`))
    socket.on('close', () => end('the gate closed the connection'))
  })
}

/** Of the agent's own proxy variable, for policies that want the lease. */
function credentialsOf(proxy: string | undefined): string | undefined {
  if (proxy === undefined || !URL.canParse(proxy)) return undefined
  const { username, password } = new URL(proxy)
  return username === '' ? undefined : Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')
}

/** `connected`, or what came instead. */
function reach(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: LIMITS.probeAnswerMs })
    const end = (result: string): void => {
      socket.destroy()
      resolve(result)
    }
    socket.on('connect', () => end('connected'))
    socket.on('timeout', () => end('silent'))
    socket.on('error', (error) => end(codeOf(error)))
  })
}

/** What answers to one datagram, or the kernel's reason, or `silent`. */
function exchangeDatagram(address: string, port: number, bytes: Buffer, waitMs: number = LIMITS.probeAnswerMs): Promise<Buffer | string> {
  return new Promise((resolve) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
    const timer = setTimeout(() => end('silent'), waitMs)
    const end = (result: Buffer | string): void => {
      clearTimeout(timer)
      socket.removeAllListeners().on('error', () => undefined)
      socket.close()
      resolve(result)
    }
    socket.on('error', (error) => end(codeOf(error)))
    socket.on('message', (message) => end(message))
    socket.connect(port, address, (...[error]: unknown[]) => {
      if (error) return end(codeOf(error))
      socket.send(bytes, (failed) => {
        if (failed) end(codeOf(failed))
      })
    })
  })
}

async function filterAsync<T>(list: readonly T[], isWanted: (item: T) => Promise<boolean>): Promise<T[]> {
  const wanted = await Promise.all(list.map(isWanted))
  return list.filter((_, index) => wanted[index])
}
