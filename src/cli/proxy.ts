import { isIP } from 'node:net'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { SallyportError } from '../kernel/errors.ts'
import { isHostname, parseHostname } from '../kernel/hostname.ts'
import { VERSION } from '../kernel/version.ts'
import { loadPolicy } from '../policy/policy.ts'
import { newSessionId } from '../sidecar/sidecar.ts'
import { homeOf, parseFlags, policyDirs, type Command } from './command.ts'
import { parseEndpoint, runGate } from './gate.ts'

export const proxyCommand: Command = {
  summary: 'run the gate in the foreground, without containers',
  usage: `usage: sallyport proxy --policy PATH [...]

Runs the gate in the foreground: an HTTP proxy that lets through what the policy allows and writes credentials into it.
When it listens it prints one JSON line to stdout; logs go to stderr. SIGTERM ends it after running requests.

  --policy PATH         a policy file; may be given several times, later files add to earlier ones
  --http HOST:PORT      where the proxy listens (default 127.0.0.1:3128; port 0 picks a free one). Whoever reaches it gets the
                        credentials written into their requests: keep it on loopback
  --gateway HOST:PORT   also serve GET /healthz and GET /ca.crt there
  --ca-dir DIR          where ca.crt and truststore.p12 (Java) go (default: a folder of this run under $SALLYPORT_HOME)
  --ca-persist DIR      keep the certificate authority there, with its key (0600), so that a restart has it again
  --upstream-ca FILE    PEM authorities that upstreams may be certified by, besides the system's; may be given several times
  --resolve HOST=ADDR   use this address for a host; it is judged like any other; may be given several times
  --audit FILE          the audit file (default: audit.jsonl in the folder of this run)

  Use it:  export https_proxy=http://127.0.0.1:3128 http_proxy=http://127.0.0.1:3128 CURL_CA_BUNDLE=DIR/ca.crt
  SALLYPORT_LOG_LEVEL   debug, info (default), warn, error, silent
`,
  async run(argv, io) {
    const { values } = parseFlags(
      argv,
      {
        policy: { type: 'string', multiple: true, default: [] },
        http: { type: 'string', default: '127.0.0.1:3128' },
        gateway: { type: 'string' },
        'ca-dir': { type: 'string' },
        'ca-persist': { type: 'string' },
        'upstream-ca': { type: 'string', multiple: true, default: [] },
        resolve: { type: 'string', multiple: true, default: [] },
        audit: { type: 'string' },
      },
      { min: 0, max: 0 },
    )
    if (values.policy.length === 0)
      throw new SallyportError('usage', 'no policy is given', { hint: 'add --policy PATH; policies/demo.yaml is an example' })
    const policy = loadPolicy(values.policy, { policyDirs: policyDirs(io.env) })
    const session = newSessionId()
    const folder = join(homeOf(io.env), 'sessions', session)
    if (values.audit === undefined) mkdirSync(folder, { recursive: true, mode: 0o700 })
    return runGate(
      {
        version: VERSION,
        session,
        policy,
        http: [parseEndpoint('--http', values.http)],
        gateway: values.gateway === undefined ? [] : [parseEndpoint('--gateway', values.gateway)],
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
