import path from 'node:path'
import { gatePlan } from './gate.ts'
import type { Ability } from './measures.ts'
import { NPM_PEERS } from './npm-peers.ts'
import { BENCH, PORTS, TOKEN, inWork, port } from './places.ts'
import type { Abilities, ProxyPlan } from './proxy.ts'

/** The product, among the peers. */
export const GATE = 'sallyport'
/** What a full run compares with. The others are for those who ask. */
export const MAIN_PEERS = ['squid', 'trafficserver', 'dante', 'goref', 'bare-node', 'srt', 'http-mitm-proxy', 'proxy-chain']
export const QUICK_PEERS = ['squid', 'goref', 'trafficserver']
/** Peers of npm: the goals speak of the best of them. */
export const NPM_NAMES: readonly string[] = Object.keys(NPM_PEERS)

const TUNNEL: readonly Ability[] = ['connect', 'passthrough']
const SOCKS: readonly Ability[] = ['socks', 'sockspass']

/** Every peer by name. A peer may be several processes, where one can't do everything at once. */
export const PEERS: Readonly<Record<string, () => readonly ProxyPlan[]>> = {
  squid: () => [
    {
      label: 'squid',
      command: ['squid', '-N', '-n', `bench${PORTS}`, '-f', inWork('conf', 'squid.conf')],
      abilities: { ...on(10, ['forward', ...TUNNEL]), ...on(11, ['intercept']) },
    },
  ],
  trafficserver: () => [trafficserver()],
  dante: () => [{ label: 'dante', command: ['danted', '-f', inWork('conf', 'dante.conf'), '-N', '1'], abilities: on(17, SOCKS) }],
  goref: () => [
    goref('goref', 20, 21, { ...on(20, ['forward', ...TUNNEL]), ...on(21, SOCKS) }, []),
    goref('goref-intercept', 22, 23, on(22, ['intercept']), ['-intercept']),
  ],
  'bare-node': () => [bareNode('bare-node', 24, 'forward'), bareNode('bare-node-intercept', 25, 'intercept')],
  haproxy: () => [{ label: 'haproxy', command: ['haproxy', '-db', '-f', inWork('conf', 'haproxy.cfg')], abilities: on(15, ['forward']) }],
  tinyproxy: () => [
    { label: 'tinyproxy', command: ['tinyproxy', '-d', '-c', inWork('conf', 'tinyproxy.conf')], abilities: on(13, ['forward', ...TUNNEL]) },
  ],
  mitmproxy: () => [
    mitmproxy(
      'mitmproxy',
      30,
      ['forward', 'intercept'],
      ['--set', `ssl_verify_upstream_trusted_ca=${inWork('ca', 'upstream-ca.pem')}`, '--modify-headers', `/~q/X-Inject/${TOKEN}`],
    ),
    mitmproxy('mitmproxy-pass', 31, TUNNEL, ['--ignore-hosts', '.*']),
    mitmproxy('mitmproxy-socks', 32, SOCKS, ['--mode', 'socks5', '--ignore-hosts', '.*']),
  ],
  'proxy-chain': () => [npm('proxy-chain', 'proxy-chain', 40, ['forward', ...TUNNEL])],
  mockttp: () => [
    npm('mockttp', 'mockttp', 41, ['forward', ...TUNNEL, ...SOCKS], 'pass'),
    npm('mockttp-intercept', 'mockttp', 42, ['intercept'], 'intercept'),
  ],
  'http-mitm-proxy': () => [npm('http-mitm-proxy', 'http-mitm-proxy', 43, ['forward', 'intercept'])],
  srt: () => [
    npm('srt', 'srt', 44, ['forward', ...TUNNEL], 'pass'),
    npm('srt-intercept', 'srt', 45, ['intercept'], 'intercept'),
    npm('srt-socks', 'srt', 46, SOCKS, 'socks'),
  ],
}

/** Every process of every peer of a run: the gate first, then another build of it, then the others. */
export function plansFor(peers: readonly string[], clones: { gate?: string; against?: string }): Map<string, readonly ProxyPlan[]> {
  const plans = new Map<string, readonly ProxyPlan[]>()
  plans.set(GATE, [gatePlan({ label: GATE, ...(clones.gate !== undefined && { clone: clones.gate }) })])
  if (clones.against !== undefined) plans.set('against', [gatePlan({ label: 'against', clone: clones.against })])
  for (const peer of peers) plans.set(peer, PEERS[peer]?.() ?? [])
  return plans
}

function on(twoDigits: number, abilities: readonly Ability[]): Abilities {
  return Object.fromEntries(abilities.map((ability) => [ability, port(twoDigits)]))
}

function trafficserver(): ProxyPlan {
  const start = ['env', `PROXY_CONFIG_CONFIG_DIR=${inWork('run/trafficserver/etc')}`, 'traffic_server'] as const
  // It refuses to run as root.
  const asUser = ['setpriv', '--reuid=trafficserver', '--regid=trafficserver', '--clear-groups', ...start] as const
  return {
    label: 'trafficserver',
    command: process.getuid?.() === 0 ? [...asUser] : [...start],
    abilities: on(19, ['forward', ...TUNNEL]),
    program: 'traffic_server',
  }
}

function goref(label: string, http: number, socks: number, abilities: Abilities, flags: readonly string[]): ProxyPlan {
  const ports = ['-http', `127.0.0.1:${port(http)}`, '-socks', `127.0.0.1:${port(socks)}`]
  return { label, command: [inWork('bin', 'goref'), ...ports, '-ca', inWork('ca'), ...flags], abilities }
}

/** On the Node that the gate runs on, with the packages of the project. */
function bareNode(label: string, twoDigits: number, way: 'forward' | 'intercept'): ProxyPlan {
  return {
    label,
    command: [process.execPath, path.join(BENCH, 'peers', 'bare-node.mjs'), String(port(twoDigits)), way],
    abilities: on(twoDigits, [way]),
  }
}

function mitmproxy(label: string, twoDigits: number, abilities: readonly Ability[], flags: readonly string[]): ProxyPlan {
  const place = ['--listen-host', '127.0.0.1', '--listen-port', String(port(twoDigits)), '--set', `confdir=${inWork('run/mitmproxy')}`]
  return { label, command: ['mitmdump', '-q', ...place, ...flags], abilities: on(twoDigits, abilities) }
}

/** A peer of npm, on the Node that the gate runs on: only the proxies differ. */
function npm(label: string, peer: string, twoDigits: number, abilities: readonly Ability[], ...args: readonly string[]): ProxyPlan {
  const home = inWork('npm', peer)
  return {
    label,
    command: [process.execPath, path.join(home, NPM_PEERS[peer]?.script ?? ''), String(port(twoDigits)), ...args],
    abilities: on(twoDigits, abilities),
    program: path.join(home, '.installed'),
  }
}
