import { isIP } from 'node:net'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { SallyportError } from '../kernel/errors.ts'
import { isHostname, parseHostname } from '../kernel/hostname.ts'
import { VERSION } from '../kernel/version.ts'
import { loadPolicy } from '../policy/policy.ts'
import { newSessionId, type Endpoint, type SidecarConfig } from '../sidecar/sidecar.ts'
import { homeOf, parseFlags, policyDirs, type Command } from './command.ts'
import { leaseOf, parseEndpoint, placeholderSeedOf, runGate, upstreamProxyOf } from './gate.ts'

export const proxyCommand: Command = {
  summary: 'run the gate in the foreground, without containers',
  usage: `usage: sallyport proxy --policy PATH [...]

Runs the gate in the foreground: an HTTP proxy that lets through what the policy allows and writes credentials into it.
When it listens it prints one JSON line to stdout; logs go to stderr. A changed policy or secret file, and SIGHUP, make it
read both anew; SIGTERM ends it after running requests.

  --policy PATH         a policy file; may be given several times, later files add to earlier ones
  --http HOST:PORT      where the proxy listens (default 127.0.0.1:3128; port 0 picks a free one). Whoever reaches it gets the
                        credentials written into their requests: keep it on loopback
  --socks HOST:PORT     also listen for SOCKS5 there
  --transparent HOST:PORT,HOST:PORT
                        also listen for programs that know no proxy: the first for plain http (80), the second for TLS (443),
                        and on those hosts for other TCP, on each port that rules of the policy have for one host alone
  --dns HOST:PORT       also answer DNS there, UDP and TCP: names that a rule allows get that address, others none
  --gateway HOST:PORT   also serve there GET /healthz, /ca.crt, /v1/placeholders, /v1/files/NAME (npmrc, netrc, pypirc, docker)
                        and the reverse routes of the policy (/route/NAME/)
  --ca-dir DIR          where ca.crt and truststore.p12 (Java) go (default: a folder of this run under $SALLYPORT_HOME)
  --ca-persist DIR      keep the certificate authority there, with its key (0600), so that a restart has it again
  --upstream-ca FILE    PEM authorities that upstreams may be certified by, besides the system's; may be given several times
  --resolve HOST=ADDR   use this address for a host; it is judged like any other; may be given several times
  --upstream-proxy URL  leave by this proxy: http://, https:// or socks5://, USER:PASSWORD@HOST:PORT. Better given by
                        SALLYPORT_UPSTREAM_PROXY, or as file:/path of a file with the URL, as a command line can be read by
                        every user of the machine
  --audit FILE          the audit file (default: audit.jsonl in the folder of this run)

  Use it:  export https_proxy=http://127.0.0.1:3128 http_proxy=http://127.0.0.1:3128 CURL_CA_BUNDLE=DIR/ca.crt
  SALLYPORT_LEASE       the session's lease, for policies that require one (network.lease)
  SALLYPORT_PLACEHOLDER_SEED
                        placeholders are made from it: the same text gives the same ones (default: each run its own)
  SALLYPORT_LOG_LEVEL   debug, info (default), warn, error, silent
`,
  async run(argv, io) {
    const { values } = parseFlags(
      argv,
      {
        policy: { type: 'string', multiple: true, default: [] },
        http: { type: 'string', default: '127.0.0.1:3128' },
        socks: { type: 'string' },
        transparent: { type: 'string' },
        dns: { type: 'string' },
        gateway: { type: 'string' },
        'ca-dir': { type: 'string' },
        'ca-persist': { type: 'string' },
        'upstream-ca': { type: 'string', multiple: true, default: [] },
        resolve: { type: 'string', multiple: true, default: [] },
        'upstream-proxy': { type: 'string' },
        audit: { type: 'string' },
      },
      { min: 0, max: 0 },
    )
    if (values.policy.length === 0)
      throw new SallyportError('usage', 'no policy is given', { hint: 'add --policy PATH; policies/demo.yaml is an example' })
    const session = newSessionId()
    const folder = join(homeOf(io.env), 'sessions', session)
    if (values.audit === undefined) mkdirSync(folder, { recursive: true, mode: 0o700 })
    return runGate(
      {
        version: VERSION,
        session,
        loadPolicy: () => loadPolicy(values.policy, { policyDirs: policyDirs(io.env) }),
        http: endpoints('--http', values.http),
        socks: endpoints('--socks', values.socks),
        transparent: parseTransparent(values.transparent),
        dns: endpoints('--dns', values.dns),
        gateway: endpoints('--gateway', values.gateway),
        ...upstreamProxyOf(values['upstream-proxy'] || io.env['SALLYPORT_UPSTREAM_PROXY']),
        ...leaseOf(io),
        placeholderSeed: placeholderSeedOf(io, session),
        caDir: values['ca-dir'] ?? folder,
        ...(values['ca-persist'] !== undefined && { caPersist: values['ca-persist'] }),
        upstreamCa: values['upstream-ca'],
        fixedAddresses: parseResolve(values.resolve),
        audit: values.audit ?? join(folder, 'audit.jsonl'),
        env: io.env,
      },
      io,
    )
  },
}

function endpoints(flag: string, text: string | undefined): Endpoint[] {
  return text === undefined ? [] : [parseEndpoint(flag, text)]
}

function parseTransparent(text: string | undefined): SidecarConfig['transparent'] {
  if (text === undefined) return []
  const [plain, secure, ...more] = text.split(',')
  if (plain === undefined || secure === undefined || more.length > 0) {
    throw new SallyportError('config_invalid', `--transparent "${text}" is not HOST:PORT,HOST:PORT`, {
      hint: 'the first is for plain http, the second for TLS: 127.0.0.1:8080,127.0.0.1:8443',
    })
  }
  return [
    { ...parseEndpoint('--transparent', plain), meant: 80 },
    { ...parseEndpoint('--transparent', secure), meant: 443 },
  ]
}

function parseResolve(entries: readonly string[]): Map<string, string[]> {
  const fixed = new Map<string, string[]>()
  for (const entry of entries) {
    const at = entry.indexOf('=')
    const host = parseHostname(entry.slice(0, Math.max(at, 0)))
    const address = entry.slice(at + 1)
    if (!isHostname(host) || isIP(address) === 0) {
      throw new SallyportError('config_invalid', `--resolve "${entry}" is not HOST=ADDRESS`, {
        hint: 'write for example --resolve api.example.com=127.0.0.1',
      })
    }
    fixed.set(host, [...(fixed.get(host) ?? []), address])
  }
  return fixed
}
