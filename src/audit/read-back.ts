import { LIMITS } from '../kernel/limits.ts'
import { readEntries, type AuditFile, type Entry } from './entries.ts'
import { exporterOf, type ExportFormat } from './export.ts'
import { createFilter, createPreview, type EntryFilter } from './filter.ts'

/** Members by which events belong together. */
const RELATED = ['request', 'question'] as const
/** Of one story: more are not of one event. */
const IDS_MAX = 100
/** From a request to its question, to what the question led to, and back: each is a look at the whole audit. */
const LOOKS_MAX = 6

/** The latest events that are asked for, the last one at the end. Those of one chain stay in its order. */
export async function latestEntries(
  files: readonly AuditFile[],
  filter: EntryFilter,
  limit: number,
  before?: EntryPlace,
): Promise<Entry[]> {
  const isAskedFor = createFilter(filter)
  let found: Entry[] = []
  let chars = 0
  const cut = (): void => {
    found = found.toSorted(byTime).slice(-limit)
    chars = 0
  }
  // Of each chain only the latest can be among the latest of all: a batch of them is sorted in at a time.
  for await (const entry of readEntries(files, createPreview(filter))) {
    if (!isAskedFor(entry) || (before !== undefined && compare(placeOf(entry), before) >= 0)) continue
    found.push(kept(entry))
    chars += entry.line.length
    if (found.length >= 2 * limit + 1_000 || chars >= LIMITS.auditHeldCharsMax) cut()
  }
  cut()
  return found
}

/** Its line by itself: as it was read it is a piece of all that was read with it, which would be kept with it. */
function kept(entry: Entry): Entry {
  return { ...entry, line: Buffer.from(entry.line, 'latin1').latin1Slice() }
}

/** Where an event is among all: by its time, then by its chain and number. */
export type EntryPlace = { readonly time: string; readonly chain: string; readonly seq: number }

export function placeOf({ chain, fields: { time, seq } }: Entry): EntryPlace {
  return { time: typeof time === 'string' ? time : '', chain, seq: typeof seq === 'number' ? seq : 0 }
}

function compare(a: EntryPlace, b: EntryPlace): number {
  if (a.time !== b.time) return a.time < b.time ? -1 : 1
  if (a.chain !== b.chain) return a.chain < b.chain ? -1 : 1
  return a.seq - b.seq
}

function byTime(a: Entry, b: Entry): number {
  return compare(placeOf(a), placeOf(b))
}

/** One event with all that belongs to it, by time, and the lines of the controller that sign it. */
export type Story = { readonly entries: readonly Entry[]; readonly signedBy: readonly Entry[] }

/** The event, what else is recorded of the same request and question, and the controller's lines that stand for it. */
export async function storyOf(id: string, files: readonly AuditFile[]): Promise<Story> {
  const [, chain, number] = /^(?:([^:]+):)?(\d{1,15})$/.exec(id) ?? []
  const ids = new Set<string>(number === undefined ? [id] : [])
  if (number !== undefined) {
    const start = `{"seq":${number},`
    const isOnly = files.every((file) => file.chain === files[0]?.chain)
    for await (const entry of readEntries(files, (line) => line.startsWith(start))) {
      const isNamed = chain === undefined ? isOnly || entry.chain === 'controller' : entry.chain === chain
      if (!isNamed) continue
      const related = relatedOf(entry)
      if (related.length === 0) return { entries: [kept(entry)], signedBy: await signaturesOf([entry], files) }
      for (const one of related) ids.add(one)
    }
  }
  let entries = await toldOf(ids, files)
  // A command's end names its question too, whose own events name no request.
  for (let before = 0, looks = 1; before < ids.size && ids.size <= IDS_MAX && looks < LOOKS_MAX; looks += 1) {
    before = ids.size
    for (const entry of entries) for (const one of relatedOf(entry)) ids.add(one)
    if (ids.size > before) entries = await toldOf(ids, files)
  }
  return { entries, signedBy: await signaturesOf(entries, files) }
}

/** What it is related by: a gate that is no longer ours may have written anything there. */
function relatedOf({ fields }: Entry): string[] {
  return RELATED.flatMap((name) => {
    const value = fields[name]
    return typeof value === 'string' && value !== '' ? [value] : []
  })
}

/** Whatever names one of them, by time. */
async function toldOf(ids: ReadonlySet<string>, files: readonly AuditFile[]): Promise<Entry[]> {
  const entries: Entry[] = []
  const texts = [...ids].map((one) => JSON.stringify(one).slice(1, -1))
  let chars = 0
  for await (const entry of readEntries(files, (line) => texts.some((text) => line.includes(text)))) {
    if (!relatedOf(entry).some((one) => ids.has(one))) continue
    entries.push(kept(entry))
    chars += entry.line.length
    if (entries.length >= LIMITS.auditListMax || chars >= LIMITS.auditHeldCharsMax) break
  }
  return entries.toSorted(byTime)
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
      signedBy.push(kept(entry))
    } else if (event === 'checkpoint' && open.size === 0 && Number(seq) > behind) {
      signedBy.push(kept(entry))
      isSigned = true
    }
  }
  return signedBy
}

/** Events for another program, in pieces of a bounded size. */
export async function* exportedText(
  files: readonly AuditFile[],
  filter: EntryFilter,
  format: ExportFormat,
  hostname: string,
): AsyncGenerator<string, void> {
  const isAskedFor = createFilter(filter)
  const { head, encode } = exporterOf(format, hostname)
  let text = head
  for await (const entry of readEntries(files, createPreview(filter))) {
    if (!isAskedFor(entry)) continue
    text += encode(entry)
    if (text.length < LIMITS.auditWriteBytesMax) continue
    yield text
    text = ''
  }
  yield text
}
