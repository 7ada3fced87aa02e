import { SallyportError } from '../kernel/errors.ts'
import { system } from '../kernel/system.ts'
import { probe } from '../controller/selftest/probe.ts'
import { parseTask } from '../controller/selftest/task.ts'
import { parseFlags, type Command } from './command.ts'

/** What `sallyport selftest` runs in the agent's place. */
export const probeCommand: Command = {
  summary: 'try the ways out of this container (what selftest runs inside)',
  usage: `usage: sallyport probe TASK [--when-told]

Runs in a container that has the agent's network, mounts and hardening, tries the known ways out, and prints what came of each as
one line of JSON. TASK is JSON that "sallyport selftest" makes. Nothing is sent but to the session's gate and this machine.

  --when-told   what the gate has to answer is tried once something is written to the standard input

Exit code: 0 all could be tried, whatever came of it; 2 for a task that is none.
`,
  async run(argv, io) {
    const options = {
      'when-told': { type: 'boolean', default: false },
    } as const
    const { values, positionals } = parseFlags(argv, options, { min: 1, max: 1, names: ['TASK'], usage: 'sallyport probe TASK' })
    const task = parseTask(positionals[0] ?? '')
    const ready = values['when-told'] ? told() : Promise.resolve()
    const findings = await probe(task, io.env['HTTP_PROXY'] ?? io.env['http_proxy'], system, ready)
    io.out(`${JSON.stringify(findings)}\n`)
    return 0
  },
}

/** Its container starts while the gate does. @throws usage when the input ends without a word */
async function told(): Promise<void> {
  for await (const chunk of process.stdin) {
    if ((chunk as Buffer).length > 0) return
  }
  throw new SallyportError('usage', 'the probe was never told to begin', { hint: 'the probe is run by sallyport selftest' })
}
