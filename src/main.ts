import { homedir } from 'node:os'
import { unknownWord, type Command, type Io } from './cli/command.ts'
import { SallyportError } from './kernel/errors.ts'
import { VERSION } from './kernel/version.ts'
import { visible } from './kernel/visible.ts'

/** Each command is loaded when it is asked for: the sidecar starts without the code of the others. */
const COMMANDS: Readonly<Record<string, { summary: string; load: () => Promise<Command> }>> = {
  daemon: { summary: 'run the controller of this host', load: async () => (await import('./cli/daemon.ts')).daemonCommand },
  up: { summary: 'start a hardened session and attach to it', load: async () => (await import('./cli/up.ts')).upCommand },
  run: { summary: 'start a session for one command', load: async () => (await import('./cli/up.ts')).runCommand },
  ls: { summary: 'list the sessions', load: async () => (await import('./cli/ls.ts')).lsCommand },
  inspect: { summary: 'show all that is known of a session', load: async () => (await import('./cli/ls.ts')).inspectCommand },
  attach: { summary: 'connect the terminal with a session', load: async () => (await import('./cli/attach.ts')).attachCommand },
  exec: { summary: 'run a program in a session', load: async () => (await import('./cli/exec.ts')).execCommand },
  logs: { summary: 'print what a session printed', load: async () => (await import('./cli/logs.ts')).logsCommand },
  forward: { summary: 'reach a port of a session from this machine', load: async () => (await import('./cli/forward.ts')).forwardCommand },
  reset: { summary: "start a session's agent anew from its image", load: async () => (await import('./cli/ls.ts')).resetCommand },
  down: { summary: 'end a session and remove all of it', load: async () => (await import('./cli/ls.ts')).downCommand },
  selftest: { summary: 'try the ways out of a running session', load: async () => (await import('./cli/selftest.ts')).selftestCommand },
  approve: { summary: 'answer what agents ask', load: async () => (await import('./cli/approve.ts')).approveCommand },
  deny: { summary: 'say no to what an agent asks', load: async () => (await import('./cli/approve.ts')).denyCommand },
  pending: { summary: 'list what waits for an answer', load: async () => (await import('./cli/pending.ts')).pendingCommand },
  approver: { summary: "set the operator's password", load: async () => (await import('./cli/approver.ts')).approverCommand },
  proposals: {
    summary: 'list what agents proposed and was applied, and take it back',
    load: async () => (await import('./cli/proposals.ts')).proposalsCommand,
  },
  open: { summary: "open the operator's page", load: async () => (await import('./cli/open.ts')).openCommand },
  secret: { summary: 'keep secrets in an encrypted vault', load: async () => (await import('./cli/secret.ts')).secretCommand },
  mcp: { summary: 'list, check, try and wrap MCP servers', load: async () => (await import('./cli/mcp.ts')).mcpCommand },
  lease: {
    summary: "list and revoke the sessions' leases, rotate their key",
    load: async () => (await import('./cli/lease.ts')).leaseCommand,
  },
  trust: { summary: 'accept the policy that a workspace brings itself', load: async () => (await import('./cli/trust.ts')).trustCommand },
  policy: { summary: 'check, explain or show a policy', load: async () => (await import('./cli/policy.ts')).policyCommand },
  audit: { summary: 'read, export and verify the audit', load: async () => (await import('./cli/audit.ts')).auditCommand },
  init: { summary: 'write a policy for a workspace', load: async () => (await import('./cli/init.ts')).initCommand },
  doctor: { summary: 'say what this machine and its engine can hold', load: async () => (await import('./cli/doctor.ts')).doctorCommand },
  compose: {
    summary: 'write the .env of a compose project for a workspace',
    load: async () => (await import('./cli/compose.ts')).composeCommand,
  },
  proxy: { summary: 'run the gate in the foreground, without containers', load: async () => (await import('./cli/proxy.ts')).proxyCommand },
  sidecar: {
    summary: 'run the gate as the image does, configured by environment',
    load: async () => (await import('./cli/sidecar.ts')).sidecarCommand,
  },
  probe: { summary: 'try the ways out of this container', load: async () => (await import('./cli/probe.ts')).probeCommand },
}

function usage(): string {
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(11)}${summary}`)
  return `sallyport ${VERSION}: the gate between AI agents and everything they may touch

usage: sallyport COMMAND [...]

${lines.join('\n')}

  sallyport COMMAND --help tells the rest. Exit code: 0 done, 1 failed, 2 usage or bad configuration.
`
}

/** Runs one command line. The exit code is what the process ends with. */
async function main(argv: readonly string[], io: Io): Promise<number> {
  const [name, ...rest] = argv
  if (name === '--version' || name === '-V') return say(io, `${VERSION}\n`)
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') return say(io, usage())
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  try {
    if (!entry)
      throw unknownWord(
        `there is no ${name.startsWith('-') ? 'flag' : 'command'} "${name}"`,
        name,
        Object.keys(COMMANDS),
        '',
        `sallyport --help lists them: ${Object.keys(COMMANDS).join(', ')}`,
      )
    const command = await entry.load()
    // Behind "--" stands another program's command line.
    const own = rest.includes('--') ? rest.slice(0, rest.indexOf('--')) : rest
    if (own.includes('--help') || own.includes('-h')) return say(io, command.usage)
    return await command.run(rest, io)
  } catch (error) {
    if (!(error instanceof SallyportError)) throw error
    // What a message quotes may be of an agent, who writes a policy of its own: it does not speak to the terminal.
    io.err(visible(`${error.code}: ${error.message}\n${error.hint === undefined ? '' : `hint: ${error.hint}\n`}`))
    return error.exit
  }
}

function say(io: Io, text: string): number {
  io.out(text)
  return 0
}

// Until the command is done: one that never ends its work has failed.
process.exitCode = 1
// "| head" has seen enough: what reads us is gone.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit(0)
})
void main(process.argv.slice(2), {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  env: { HOME: homedir(), ...process.env },
}).then((code) => (process.exitCode = code))
