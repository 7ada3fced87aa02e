import { openController } from '../controller/controller.ts'
import { SallyportError } from '../kernel/errors.ts'
import { OPERATOR_PORT } from '../wire/operator.ts'
import { homeOf, packageRoot, parseFlags, type Command } from './command.ts'
import { withoutCoreDumps } from './core-dumps.ts'
import { beginForeground } from './foreground.ts'
import { vaultAccess } from './vault-access.ts'

const DAEMON = 'sallyport daemon [--web H:P | --no-web]'
const FLAGS = {
  web: { type: 'string' },
  'no-web': { type: 'boolean', default: false },
} as const

export const daemonCommand: Command = {
  summary: 'run the controller: sessions, leases, vault and audit of this host',
  usage: `usage: ${DAEMON}

Runs the controller in the foreground, as the operator: it starts and ends sessions, keeps their leases and secrets in memory, and writes
the audit. Prints one line of JSON when it is ready. The other commands (up, ls, exec …) reach it by $SALLYPORT_HOME/daemon.sock, which
only this user can open. Ended by SIGTERM or Ctrl-C; the sessions go on without it, for ten minutes with their secrets, and the next
daemon takes them over.

  --web H:P                         where the operator's page is served: loopback only, so H is localhost, 127.0.0.1 or [::1], and all of
                                    them mean both addresses (default localhost:${OPERATOR_PORT}, where that is free; port 0 takes any)
  --no-web                          no page
  SALLYPORT_HOME                    state of the controller (default ~/.sallyport)
  SALLYPORT_SIDECAR_IMAGE           image of the gate (default sallyport/sidecar of this version)
  SALLYPORT_AGENT_IMAGE             image of agents that name none (default sallyport/agent of this version)
  SALLYPORT_VAULT_PASSPHRASE_FILE   file with the passphrase of a vault that has one; without it the vault stays locked
  SALLYPORT_VAULT_KEY_FILE          file with the key of a vault that has one elsewhere
  SALLYPORT_EXTRA_CA                PEM file of authorities that upstreams may be certified by, for machines behind an inspecting proxy
  SALLYPORT_UPSTREAM_PROXY          sessions leave by this proxy (see sallyport sidecar --help)
  SALLYPORT_LOG_LEVEL               debug, info (default), warn, error, silent
  DOCKER_HOST                       the engine (default unix:///var/run/docker.sock)
`,
  async run(argv, io) {
    const { values } = parseFlags(argv, FLAGS, { min: 0, max: 0, usage: DAEMON })
    const page = pageOf(values.web, values['no-web'])
    if (process.getuid === undefined) throw new SallyportError('config_invalid', 'the controller runs on Linux and macOS')
    const { log, stop } = beginForeground(io)
    // A core dump would have every secret in it; so would what a debugger reads that SIGUSR1 lets in.
    process.on('SIGUSR1', () => undefined)
    if (!(await withoutCoreDumps())) log.warn('core dumps are not off: a crash may write secrets to the disk; start it after "ulimit -c 0"')
    await using controller = await openController(
      { home: homeOf(io.env), packageRoot, env: io.env, unlock: vaultAccess(io.env).unlock, ...(page && { web: page }) },
      log,
    )
    const { socket, web } = controller
    io.out(`${JSON.stringify({ event: 'ready', socket, web })}\n`)
    const signal = await stop
    log.info({ signal }, 'ending: sessions go on')
    return 0
  },
}

/** @throws usage, config_invalid */
function pageOf(web: string | undefined, isOff: boolean): { readonly port: number; readonly isDefault: boolean } | undefined {
  if (isOff && web !== undefined)
    throw new SallyportError('usage', '--web and --no-web contradict each other', { hint: `usage: ${DAEMON}` })
  if (isOff) return undefined
  if (web === undefined) return { port: OPERATOR_PORT, isDefault: true }
  const port = /^(?:localhost|127\.0\.0\.1|\[::1\]):(\d{1,5})$/.exec(web)?.[1]
  if (port !== undefined && Number(port) < 65_536) return { port: Number(port), isDefault: false }
  throw new SallyportError('config_invalid', `--web "${web}" is no address of this machine's loopback with a port`, {
    hint: `write it as localhost:${OPERATOR_PORT}: nobody else can reach it there`,
  })
}
