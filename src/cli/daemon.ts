import { openController } from '../controller/controller.ts'
import { SallyportError } from '../kernel/errors.ts'
import { homeOf, packageRoot, parseFlags, type Command } from './command.ts'
import { withoutCoreDumps } from './core-dumps.ts'
import { beginForeground } from './foreground.ts'
import { vaultAccess } from './vault-access.ts'

export const daemonCommand: Command = {
  summary: 'run the controller: sessions, leases, vault and audit of this host',
  usage: `usage: sallyport daemon

Runs the controller in the foreground, as the operator: it starts and ends sessions, keeps their leases and secrets in memory, and writes
the audit. Prints one line of JSON when it is ready. The other commands (up, ls, exec …) reach it by $SALLYPORT_HOME/daemon.sock, which
only this user can open. Ended by SIGTERM or Ctrl-C; the sessions go on without it, for ten minutes with their secrets, and the next
daemon takes them over.

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
    parseFlags(argv, {}, { min: 0, max: 0 })
    if (process.getuid === undefined) throw new SallyportError('config_invalid', 'the controller runs on Linux and macOS')
    const { log, stop } = beginForeground(io)
    // A core dump would have every secret in it; so would what a debugger reads that SIGUSR1 lets in.
    process.on('SIGUSR1', () => undefined)
    if (!(await withoutCoreDumps())) log.warn('core dumps are not off: a crash may write secrets to the disk; start it after "ulimit -c 0"')
    await using controller = await openController(
      { home: homeOf(io.env), packageRoot, env: io.env, unlock: vaultAccess(io.env).unlock },
      log,
    )
    io.out(`${JSON.stringify({ event: 'ready', socket: controller.socket })}\n`)
    const signal = await stop
    log.info({ signal }, 'ending: sessions go on')
    return 0
  },
}
