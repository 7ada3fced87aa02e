import { system } from '../kernel/system.ts'
import { probe } from '../controller/selftest/probe.ts'
import { parseTask } from '../controller/selftest/task.ts'
import { parseFlags, type Command } from './command.ts'

/** What `sallyport selftest` runs in the agent's place. */
export const probeCommand: Command = {
  summary: 'try the ways out of this container (what selftest runs inside)',
  usage: `usage: sallyport probe TASK

Runs in a container that has the agent's network, mounts and hardening, tries the known ways out, and prints what came of each as
one line of JSON. TASK is JSON that "sallyport selftest" makes. Nothing is sent but to the session's gate and this machine.

Exit code: 0 all could be tried, whatever came of it; 2 for a task that is none.
`,
  async run(argv, io) {
    const { positionals } = parseFlags(argv, {}, { min: 1, max: 1, names: ['TASK'], usage: 'sallyport probe TASK' })
    const findings = await probe(parseTask(positionals[0] ?? ''), io.env['HTTP_PROXY'] ?? io.env['http_proxy'], system)
    io.out(`${JSON.stringify(findings)}\n`)
    return 0
  },
}
