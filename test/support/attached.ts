import { markAttached } from '../../src/cli/attached-terminals.ts'

/** A program that an agent's output is shown by, until it is killed. */
markAttached(process.env)
process.stdout.write('attached\n')
setInterval(() => {}, 60_000)
