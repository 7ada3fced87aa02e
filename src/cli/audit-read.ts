import { once } from 'node:events'
import { hostname } from 'node:os'
import {
  auditFiles,
  createFilter,
  createPreview,
  createStats,
  EXPORT_FORMATS,
  exporterOf,
  readEntries,
  type AuditFile,
  type AuditStats,
  type Entry,
  type EntryFilter,
} from '../audit/audit.ts'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { system } from '../kernel/system.ts'
import { visibleJson } from '../kernel/visible.ts'
import { auditPath, FILTER_FLAGS, parseCount, parseFilter } from './audit-filters.ts'
import { block, describe, membersOf, oneLine } from './audit-format.ts'
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
  const entries = await latest(await auditFiles(auditPath(positionals[0], io.env)), filter, limit)
  if (values.json === true) io.out(visibleJson(entries.map(membersOf)))
  else for (const entry of entries) io.out(describe(entry))
  return 0
}

/** The latest events that are asked for, the last one at the end. Those of one chain stay in its order. */
export async function latest(files: readonly AuditFile[], filter: EntryFilter, limit: number): Promise<Entry[]> {
  const isAskedFor = createFilter(filter)
  let found: Entry[] = []
  const cut = (): void => {
    found = found.toSorted(byTime).slice(-limit)
  }
  // Of each chain only the latest can be among the latest of all: a batch of them is sorted in at a time.
  for await (const entry of readEntries(files, createPreview(filter))) {
    if (!isAskedFor(entry)) continue
    found.push(entry)
    if (found.length >= 2 * limit + 1_000) cut()
  }
  cut()
  return found
}

function timeOf({ fields: { time } }: Entry): string {
  return typeof time === 'string' ? time : ''
}

function byTime(a: Entry, b: Entry): number {
  const [one, other] = [timeOf(a), timeOf(b)]
  return one < other ? -1 : one > other ? 1 : 0
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
  const isAskedFor = createFilter(filter)
  const files = await auditFiles(auditPath(positionals[0], io.env))
  const { head, encode } = exporterOf(format, hostname())
  let text = head
  for await (const entry of readEntries(files, createPreview(filter))) {
    if (!isAskedFor(entry)) continue
    text += encode(entry)
    if (text.length < LIMITS.auditWriteBytesMax) continue
    io.out(text)
    text = ''
    // An audit may be larger than memory, and its reader slow.
    if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
  }
  io.out(text)
  return 0
}

type Story = { readonly entries: readonly Entry[]; readonly signedBy: readonly Entry[] }

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

/** The event, what else is recorded of the same request and question, and the controller's lines that stand for it. */
async function storyOf(id: string, files: readonly AuditFile[]): Promise<Story> {
  const [, chain, number] = /^(?:([^:]+):)?(\d{1,15})$/.exec(id) ?? []
  const ids = new Set<unknown>(number === undefined ? [id] : [])
  if (number !== undefined) {
    const start = `{"seq":${number},`
    const isOnly = files.every((file) => file.chain === files[0]?.chain)
    for await (const entry of readEntries(files, (line) => line.startsWith(start))) {
      const isNamed = chain === undefined ? isOnly || entry.chain === 'controller' : entry.chain === chain
      if (!isNamed) continue
      const related = ['request', 'question'].flatMap((name) => entry.fields[name] ?? [])
      if (related.length === 0) return { entries: [entry], signedBy: await signaturesOf([entry], files) }
      for (const one of related) ids.add(one)
    }
  }
  const entries: Entry[] = []
  const texts = [...ids].map((one) => JSON.stringify(one).slice(1, -1))
  const isTold = ({ fields }: Entry): boolean => ids.has(fields['request']) || ids.has(fields['question'])
  for await (const entry of readEntries(files, (line) => texts.some((text) => line.includes(text)))) {
    if (!isTold(entry)) continue
    entries.push(entry)
    if (entries.length >= LIMITS.auditListMax) break
  }
  entries.sort(byTime)
  return { entries, signedBy: await signaturesOf(entries, files) }
}

/** The countersignature behind the last line of each chain, and the checkpoint behind that. */
async function signaturesOf(entries: readonly Entry[], files: readonly AuditFile[]): Promise<Entry[]> {
  const own = files.filter((file) => file.chain === 'controller')
  const lastOf = new Map<string, number>()
  for (const { chain, fields } of entries) lastOf.set(chain, Math.max(lastOf.get(chain) ?? 0, Number(fields['seq'])))
  const signedBy: Entry[] = []
  let behind = lastOf.get('controller') ?? 0
  const open = new Set([...lastOf.keys()].filter((chain) => chain !== 'controller'))
  let isSigned = lastOf.size === 0
  for await (const entry of readEntries(own, (line) => line.includes('"countersigned"') || line.includes('"checkpoint"'))) {
    if (isSigned) break
    const { event, of, chain: number, line, seq } = entry.fields
    if (event === 'countersigned') {
      const chain = typeof number === 'number' ? `${String(of)}.${number}` : String(of)
      if (!open.has(chain) || Number(line) < (lastOf.get(chain) ?? 0)) continue
      open.delete(chain)
      behind = Math.max(behind, Number(seq))
      signedBy.push(entry)
    } else if (event === 'checkpoint' && open.size === 0 && Number(seq) > behind) {
      signedBy.push(entry)
      isSigned = true
    }
  }
  return signedBy
}
