import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readVerifyingKey, verifyAudit, verifyAuditFolder, type FolderFound } from '../audit/audit.ts'
import { SallyportError } from '../kernel/errors.ts'
import { visible, visibleJson } from '../kernel/visible.ts'
import { FILTER_USAGE } from './audit-filters.ts'
import { exportEvents, listEvents, showEvent, showStats } from './audit-read.ts'
import { tailEvents } from './audit-tail.ts'
import { homeOf, parseFlags, parseVerb, type Command, type Io } from './command.ts'

const VERIFY = 'sallyport audit verify [PATH]… [--key FILE] [--checkpoint FILE] [--json]'
const KEY = 'sallyport audit key [--json]'

const USAGE = `usage: sallyport audit tail [PATH] [--follow] [--lines N] [FILTER]… [--json]
       sallyport audit list [PATH] [--limit N] [FILTER]… [--json]
       sallyport audit show SEQ|CHAIN:SEQ|REQUEST|QUESTION [PATH] [--json]
       sallyport audit export [PATH] --format jsonl|csv|syslog [FILTER]…
       sallyport audit stats [PATH] [FILTER]… [--json]
       ${VERIFY}
       ${KEY}

Reads the record of what was asked and decided (docs/AUDIT.md), with and without a running daemon. PATH is an audit file, or a folder with
a controller's chain and those of its sessions; by default $SALLYPORT_HOME/audit.

sallyport audit tail: the last events, by time; with --follow also those that come, until Ctrl-C.
sallyport audit list: events, the latest at the end.
sallyport audit show: all that is recorded of one event: the line by its number (of a session's chain as ID:SEQ), of one request, or of
one question; and which lines of the controller sign it.
sallyport audit export: all events for another program: jsonl are the lines as they are, csv a table, syslog messages of RFC 5424.
sallyport audit stats: how many events there are, by kind, decision, code, rule, host and session.
sallyport audit verify: checks every line's hash, its number, and its link to the line before; of a folder also each signature, each
segment, and that each session's chain is the one that the controller recorded. What was altered, removed, put in, forked or cut is found.
Whoever may write the audit may also write its public key: give the one that was kept elsewhere with --key. Lines that were cut off the
end, back to an older signature and with checkpoint.json, leave no trace in the audit itself: keep that file elsewhere now and then, or
note the head, and compare.
sallyport audit key: the public key of this home's audit (PEM), and its thumbprint.

  --json              JSON: one object a line (tail), an array (list), an object
  --follow, -f        go on
  --lines N, -n N     so many to begin with (default 20)
  --limit N           so many at most, the latest (default 100)
  --format FORMAT     jsonl, csv or syslog
  --key FILE          the public key that signatures must be of
  --checkpoint FILE   a copy of checkpoint.json that was kept elsewhere: it must be in the chain
${FILTER_USAGE}
Exit code: 0 done, or the chain holds; 1 it does not, nothing was found, or it cannot be read; 2 usage.
`

/** `sallyport audit …` */
export const auditCommand: Command = {
  summary: 'read, export and verify the audit',
  usage: USAGE,
  run([name, ...rest], io) {
    switch (parseVerb('audit', name, ['tail', 'list', 'show', 'export', 'stats', 'verify', 'key'])) {
      case 'tail':
        return tailEvents(rest, io)
      case 'list':
        return listEvents(rest, io)
      case 'show':
        return showEvent(rest, io)
      case 'export':
        return exportEvents(rest, io)
      case 'stats':
        return showStats(rest, io)
      case 'verify':
        return verify(rest, io)
      case 'key':
        return printKey(rest, io)
    }
  },
}

type Verified = { readonly file: string; readonly ok: boolean } & Record<string, unknown>

async function verify(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseFlags(
    argv,
    {
      json: { type: 'boolean' },
      key: { type: 'string' },
      checkpoint: { type: 'string' },
    },
    { min: 0, max: Number.MAX_SAFE_INTEGER, usage: VERIFY },
  )
  const paths = positionals.length === 0 ? [join(homeOf(io.env), 'audit')] : positionals
  const options = {
    ...(values.key !== undefined && { keyFile: values.key }),
    ...(values.checkpoint !== undefined && { checkpointFile: values.checkpoint }),
  }
  const results: Verified[] = []
  let exit = 0
  for (const file of paths) {
    try {
      const isFolder = (await stat(file).catch(() => undefined))?.isDirectory() === true
      if (!isFolder && values.checkpoint !== undefined)
        throw new SallyportError('usage', `--checkpoint is for the folder of an audit, and ${file} is none`, { hint: `usage: ${VERIFY}` })
      const found = isFolder ? await verifyAuditFolder(file, options) : await verifyAudit(file, values.key)
      results.push({ file, ok: true, ...found })
      if (values.json !== true) io.out(visible(isFolder ? describeFolder(file, found as FolderFound) : describeFile(file, found)))
    } catch (error) {
      if (!(error instanceof SallyportError) || error.code === 'usage') throw error
      // Of one file it is what the command says; of several the others are looked at all the same.
      if (values.json !== true && paths.length === 1) throw error
      exit = Math.max(exit, error.exit)
      results.push({ file, ok: false, code: error.code, message: error.message })
      if (values.json !== true) io.err(visible(`${error.code}: ${error.message}\n`))
    }
  }
  if (values.json === true) io.out(paths.length === 1 ? `${asciiJson(results[0])}\n` : visibleJson(results))
  return exit
}

function describeFile(file: string, { events, first, last, head }: { events: number; first: string; last: string; head: string }): string {
  return `${file}: ${events} events, the chain holds\n${span({ events, first, last })}head ${head}\n`
}

function describeFolder(file: string, found: FolderFound): string {
  const { events, segments, chains, sessionEvents, retired, checkpoints, unsigned, uncountersigned, key, keyFrom, head } = found
  const signatures =
    key === undefined
      ? 'no public key: signatures were not checked\n'
      : `signed by ${key}${keyFrom === 'folder' ? ' (as the folder itself says: compare it, or give --key)' : ''}, ${checkpoints} checkpoints\n`
  const rests = [
    unsigned > 0 && `${unsigned} lines behind the last checkpoint`,
    uncountersigned > 0 && `${uncountersigned} lines of sessions that are not countersigned yet`,
    retired > 0 && `${retired} files deleted for their age`,
  ].filter(Boolean)
  return (
    `${file}: ${events} events of the controller in ${segments} files, ${sessionEvents} in ${chains} chains of sessions: all of it holds\n` +
    `${span(found)}${signatures}${rests.map((rest) => `${String(rest)}\n`).join('')}head ${head}\n`
  )
}

function span({ events, first, last }: { events: number; first: string; last: string }): string {
  return events === 0 ? '' : `from ${first} to ${last}\n`
}

async function printKey(argv: readonly string[], io: Io): Promise<number> {
  const { values } = parseFlags(argv, { json: { type: 'boolean' } }, { min: 0, max: 0, usage: KEY })
  const file = join(homeOf(io.env), 'audit', 'checkpoint.pub')
  const key = await readVerifyingKey(file)
  if (key === undefined)
    throw new SallyportError('audit_key_invalid', `${file} does not exist yet`, { hint: 'the first "sallyport daemon" makes the key' })
  const pem = await readFile(file, 'latin1')
  io.out(values.json === true ? `${asciiJson({ file, id: key.id, pem })}\n` : visible(`${pem}thumbprint ${key.id}\n`))
  return 0
}

function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
