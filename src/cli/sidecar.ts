import { existsSync, readFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { dirname, join } from 'node:path'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { VERSION } from '../kernel/version.ts'
import { GATE_PORTS as PORTS } from '../wire/gate-ports.ts'
import { loadPolicy, readWhole } from '../policy/policy.ts'
import { newSessionId, type SidecarConfig } from '../sidecar/sidecar.ts'
import { parseFlags, policyDirs, type Command, type Io } from './command.ts'
import { leaseOf, placeholderSeedOf, runGate, upstreamProxyOf } from './gate.ts'

export const sidecarCommand: Command = {
  summary: 'run the gate as the image does, configured by environment',
  usage: `usage: sallyport sidecar

What the image runs: the gate on its address in the jail, on loopback, in side networks that its controller names, and on no other
address. Ports: ${PORTS.proxy} (HTTP proxy), ${PORTS.socks} (SOCKS5), ${PORTS.http} and ${PORTS.https} (programs that know no proxy), ${PORTS.dns} (DNS), ${PORTS.gateway} (gateway), and each that rules of
protocol: tcp have for one host alone. SIGHUP and a changed policy or secret file make it read both anew. Configured by environment:

  SALLYPORT_SIDECAR_IP    its address in the jail network (required)
  SALLYPORT_SUBNET        the jail's subnet: clients from elsewhere are refused (required)
  SALLYPORT_POLICY        policy files, separated by ":" (required)
  SALLYPORT_AUDIT         the audit file (required without a controller; with one it is in memory until the controller has it)
  SALLYPORT_POLICY_RESTRICTED  policy files that may only deny or ask about what those allow, separated by ":"
  SALLYPORT_POLICY_DIRS   where extends and harnesses are looked for, separated by ":" (default: the image's, the home folder's)
  SALLYPORT_CA_DIR        folder for ca.crt and truststore.p12, shared with the agent (required)
  SALLYPORT_CA_PERSIST    folder of its own that keeps the certificate authority over restarts
  SALLYPORT_UPSTREAM_CA   PEM file of authorities that upstreams may be certified by
  SALLYPORT_EXTRA_CA      the same, for machines behind an inspecting proxy; may be an empty file
  SALLYPORT_UPSTREAM_PROXY  leave by this proxy: http://, https:// or socks5://, USER:PASSWORD@HOST:PORT,
                          or file:/path of a file with that URL
  SALLYPORT_LEASE         the session's lease, for policies that require one (network.lease)
  SALLYPORT_PLACEHOLDER_SEED  placeholders are made from it: the same text gives the same ones (default: the session's id)
  SALLYPORT_CONTROL       the way to a controller: unix:/path/control.sock, with the session's lease in the file "lease" beside it, or
                          stdio, where the controller attaches to standard input and output and all else goes to standard error.
                          Secrets, certificate authority and lease are the controller's then. auto:/path/control.sock is the first
                          where that file "lease" is there at the start, with the session in the file "session" and the audit in
                          memory until the controller has it; and no controller at all where it is not
  SALLYPORT_AGENT         id of the agent in the audit (default: agent)
  SALLYPORT_SESSION       id of the session in the audit (default: a new one; required with a controller)
  SALLYPORT_WORKSPACE     name of the workspace in the audit
  SALLYPORT_LOG_LEVEL     debug, info (default), warn, error, silent
`,
  async run(argv, io) {
    parseFlags(argv, {}, { min: 0, max: 0 })
    const address = required(io, 'SALLYPORT_SIDECAR_IP')
    if (isIP(address) !== 4) throw new SallyportError('config_invalid', `SALLYPORT_SIDECAR_IP "${address}" is not an IPv4 address`)
    const policies = required(io, 'SALLYPORT_POLICY').split(':').filter(Boolean)
    const restricted = (io.env['SALLYPORT_POLICY_RESTRICTED'] ?? '').split(':').filter(Boolean)
    const dirs = policyDirs(io.env)
    const hosts = [address, '127.0.0.1']
    const control = controlOf(io)
    const session = control ? (control.session ?? required(io, 'SALLYPORT_SESSION')) : io.env['SALLYPORT_SESSION'] || newSessionId()
    return runGate(
      {
        version: VERSION,
        session,
        ...(io.env['SALLYPORT_WORKSPACE'] && { workspace: io.env['SALLYPORT_WORKSPACE'] }),
        loadPolicy: () => readWhole([...policies, ...restricted, ...dirs], () => loadPolicy(policies, { policyDirs: dirs, restricted })),
        http: hosts.map((host) => ({ host, port: PORTS.proxy })),
        socks: hosts.map((host) => ({ host, port: PORTS.socks })),
        transparent: hosts.flatMap((host) => [
          { host, port: PORTS.http, meant: PORTS.http },
          { host, port: PORTS.https, meant: PORTS.https },
        ]),
        dns: hosts.map((host) => ({ host, port: PORTS.dns })),
        gateway: hosts.map((host) => ({ host, port: PORTS.gateway })),
        ...upstreamProxyOf(io.env['SALLYPORT_UPSTREAM_PROXY']),
        ...(control ? { control } : leaseOf(io)),
        placeholderSeed: placeholderSeedOf(io, session),
        caDir: required(io, 'SALLYPORT_CA_DIR'),
        ...(io.env['SALLYPORT_CA_PERSIST'] && { caPersist: io.env['SALLYPORT_CA_PERSIST'] }),
        upstreamCa: [io.env['SALLYPORT_UPSTREAM_CA'], io.env['SALLYPORT_EXTRA_CA']].flatMap((file) => (file ? [file] : [])),
        fixedAddresses: new Map(),
        audit: control ? auditOf(control, io) : required(io, 'SALLYPORT_AUDIT'),
        allowsClient: clientsOf(required(io, 'SALLYPORT_SUBNET')),
        env: io.env,
      },
      // Where the controller reads standard output nothing else is written there.
      control?.transport.kind === 'stdio' ? { ...io, out: (text) => io.err(text) } : io,
    )
  },
}

/** `session`: of a controller that was found by itself. */
type Control = NonNullable<SidecarConfig['control']> & { readonly session?: string }

/** A chain of one session alone: the file of a gate that has none by default goes on over many. */
function auditOf({ session }: Control, io: Io): string {
  return session === undefined ? (io.env['SALLYPORT_AUDIT'] ?? '') : ''
}

function controlOf(io: Io): Control | undefined {
  const text = io.env['SALLYPORT_CONTROL']
  if (!text) return undefined
  const agent = io.env['SALLYPORT_AGENT'] || 'agent'
  if (text === 'stdio') return { agent, transport: { kind: 'stdio', input: process.stdin, output: process.stdout } }
  if (text.startsWith('unix:/')) return { agent, transport: { kind: 'unix', path: text.slice('unix:'.length) } }
  if (text.startsWith('auto:/')) return foundControl(text.slice('auto:'.length), agent)
  throw new SallyportError('config_invalid', `SALLYPORT_CONTROL is "${text}"`, {
    hint: 'write unix:/run/sallyport/control.sock, auto:/run/sallyport/control.sock, or stdio',
  })
}

/** A lease is there as long as a controller says so, also while that one is away: without it the gate would be freer than with it. */
function foundControl(path: string, agent: string): Control | undefined {
  const folder = dirname(path)
  if (!existsSync(join(folder, 'lease'))) return undefined
  try {
    return { agent, session: readFileSync(join(folder, 'session'), 'utf8').trim(), transport: { kind: 'unix', path } }
  } catch (cause) {
    throw new SallyportError('config_invalid', `${folder} has a lease, and no session that it is for (${codeOf(cause)})`, {
      hint: 'is the daemon running? else run sallyport compose again',
      cause,
    })
  }
}

function required(io: Io, name: string): string {
  const value = io.env[name]
  if (value) return value
  throw new SallyportError('config_invalid', `${name} is not set`, {
    hint: 'sallyport compose writes a .env that has it; sallyport sidecar --help lists all',
  })
}

/** I13: the agent's subnet and this container itself. A host that routes to the jail address from elsewhere is not the agent. */
function clientsOf(subnet: string): (address: string) => boolean {
  const [network = '', bits = ''] = subnet.split('/')
  const clients = new BlockList()
  try {
    clients.addSubnet(network, Number(bits), 'ipv4')
    clients.addSubnet('127.0.0.0', 8, 'ipv4')
  } catch (cause) {
    throw new SallyportError('config_invalid', `SALLYPORT_SUBNET "${subnet}" is not a subnet`, {
      hint: 'write for example 10.213.7.0/24',
      cause,
    })
  }
  return (address) => isIP(address) === 4 && clients.check(address, 'ipv4')
}
