import { verifyAudit } from '../audit/audit.ts'
import { SallyportError } from '../kernel/errors.ts'
import { parseFlags, parseVerb, type Command } from './command.ts'

const USAGE = `usage: sallyport audit verify FILE [--json]

Checks the hash chain of an audit file: every line's hash, its number, and its link to the line before.
Prints the number of events, the time of the first and the last, and the hash of the last line ("head").

Lines that were cut off at the end, whole, leave no trace in the file itself: note the head somewhere else and
compare it with a later one.

  --json    one JSON object: {"file", "ok", "events", "head", "first", "last"}, or {"file", "ok", "code", "message"}

Exit code: 0 the chain holds, 1 it does not or the file cannot be read, 2 usage.
`

/** `sallyport audit …` */
export const auditCommand: Command = {
  summary: 'verify an audit file',
  usage: USAGE,
  async run(argv, io) {
    const [name, ...rest] = argv
    parseVerb('audit', name, ['verify'])
    const { values, positionals } = parseFlags(
      rest,
      { json: { type: 'boolean' } },
      { min: 1, max: 1, names: ['FILE'], usage: 'sallyport audit verify FILE [--json]' },
    )
    const [file = ''] = positionals
    try {
      const found = await verifyAudit(file)
      if (values.json === true) io.out(`${JSON.stringify({ file, ok: true, ...found })}\n`)
      else io.out(`${file}: ${found.events} events, the chain holds\n${details(found)}head ${found.head}\n`)
      return 0
    } catch (error) {
      if (values.json !== true || !(error instanceof SallyportError)) throw error
      io.out(`${JSON.stringify({ file, ok: false, code: error.code, message: error.message })}\n`)
      return error.exit
    }
  },
}

function details({ events, first, last }: { events: number; first: string; last: string }): string {
  return events === 0 ? '' : `from ${first} to ${last}\n`
}
