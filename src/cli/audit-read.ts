import { once } from 'node:events'
import { hostname } from 'node:os'
import {
  auditFiles,
  block,
  createFilter,
  createPreview,
  createStats,
  describe,
  EXPORT_FORMATS,
  exportedText,
  latestEntries,
  membersOf,
  oneLine,
  readEntries,
  storyOf,
  type AuditStats,
} from '../audit/audit.ts'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { system } from '../kernel/system.ts'
import { visibleJson } from '../kernel/visible.ts'
import { auditPath, FILTER_FLAGS, parseCount, parseFilter } from './audit-filters.ts'
import { parseFlags, unknownWord, type Io } from './command.ts'

const LIST = 'sallyport audit list [PATH] [--limit N] [FILTER]… [--json]'
const SHOW = 'sallyport audit show SEQ|CHAIN:SEQ|REQUEST|QUESTION [PATH] [--json]'
const EXPORT = 'sallyport audit export [PATH] --format jsonl|csv|syslog [FILTER]…'
const STATS = 'sallyport audit stats [PATH] [FILTER]… [--json]'

export async function listEvents(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseFlags(
    argv,
    {
      ...FILTER_FLAGS,
      limit: { type: 'string' },
      json: { type: 'boolean' },
    },
    { min: 0, max: 1, usage: LIST },
  )
  const limit = parseCount('--limit', values.limit, 100, LIMITS.auditListMax)
  const filter = parseFilter(values, system.now())
  const entries = await latestEntries(await auditFiles(auditPath(positionals[0], io.env)), filter, limit)
  if (values.json === true) io.out(visibleJson(entries.map(membersOf)))
  else for (const entry of entries) io.out(describe(entry))
  return 0
}

export async function showStats(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseFlags(
    argv,
    {
      ...FILTER_FLAGS,
      json: { type: 'boolean' },
    },
    { min: 0, max: 1, usage: STATS },
  )
  const filter = parseFilter(values, system.now())
  const isAskedFor = createFilter(filter)
  const stats = createStats()
  for await (const entry of readEntries(await auditFiles(auditPath(positionals[0], io.env)), createPreview(filter)))
    if (isAskedFor(entry)) stats.take(entry)
  const result = stats.result()
  io.out(values.json === true ? visibleJson(result) : describeStats(result))
  return 0
}

function describeStats({ events, first, last, by, others }: AuditStats): string {
  const parts = Object.entries(by).flatMap(([member, names]) => {
    const rows = Object.entries(names)
    if (rows.length === 0) return []
    const width = Math.max(...rows.map(([, count]) => String(count).length))
    return [`by ${member}\n`, ...rows.map(([name, count]) => `  ${String(count).padStart(width)}  ${oneLine(name)}\n`)]
  })
  const span = first === undefined ? '' : ` from ${oneLine(first)} to ${oneLine(last ?? '')}`
  return `${events} events${span}\n${parts.join('')}${others > 0 ? `and ${others} under further names\n` : ''}`
}

export async function exportEvents(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseFlags(
    argv,
    {
      ...FILTER_FLAGS,
      format: { type: 'string' },
    },
    { min: 0, max: 1, usage: EXPORT },
  )
  const format = EXPORT_FORMATS.find((known) => known === values.format)
  if (format === undefined) {
    if (values.format === undefined) throw new SallyportError('usage', '--format is missing', { hint: `usage: ${EXPORT}` })
    throw unknownWord(`--format "${values.format}" is none`, values.format, EXPORT_FORMATS, '', `usage: ${EXPORT}`)
  }
  const filter = parseFilter(values, system.now())
  const files = await auditFiles(auditPath(positionals[0], io.env))
  for await (const text of exportedText(files, filter, format, hostname())) {
    io.out(text)
    // An audit may be larger than memory, and its reader slow.
    if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
  }
  return 0
}

export async function showEvent(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseFlags(argv, { json: { type: 'boolean' } }, { min: 1, max: 2, names: ['ID'], usage: SHOW })
  const [id = '', path] = positionals
  const files = await auditFiles(auditPath(path, io.env))
  const { entries, signedBy } = await storyOf(id, files)
  if (values.json === true) {
    io.out(visibleJson({ events: entries.map(membersOf), signed_by: signedBy.map(membersOf) }))
  } else {
    if (entries.length > 0) io.out(entries.map(block).join('\n'))
    if (signedBy.length > 0) io.out(`\nsigned by\n${signedBy.map((entry) => `  ${describe(entry)}`).join('')}`)
  }
  if (entries.length > 0) return 0
  io.err(`there is nothing of "${oneLine(id)}" in the audit\n`)
  return 1
}
