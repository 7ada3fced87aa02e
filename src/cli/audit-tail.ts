import { watch } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { dirname, join } from 'node:path'
import {
  auditFiles,
  createFilter,
  describe,
  entryOf,
  jsonLine,
  latestEntries,
  openToRead,
  readLines,
  type AuditFile,
  type Entry,
} from '../audit/audit.ts'
import { LIMITS } from '../kernel/limits.ts'
import { system } from '../kernel/system.ts'
import { auditPath, FILTER_FLAGS, parseCount, parseFilter } from './audit-filters.ts'
import { parseFlags, type Io } from './command.ts'

const TAIL = 'sallyport audit tail [PATH] [--follow] [--lines N] [FILTER]… [--json]'

export async function tailEvents(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseFlags(
    argv,
    {
      ...FILTER_FLAGS,
      follow: { type: 'boolean', short: 'f' },
      lines: { type: 'string', short: 'n' },
      json: { type: 'boolean' },
    },
    { min: 0, max: 1, usage: TAIL },
  )
  const lines = parseCount('--lines', values.lines, 20, LIMITS.auditListMax)
  const filter = parseFilter(values, system.now())
  const path = auditPath(positionals[0], io.env)
  const show = (entry: Entry): void => io.out(values.json === true ? jsonLine(entry) : describe(entry))
  // Where each file ends is looked up before what is in it is read: nothing falls between, and nothing comes twice.
  const ends = await endsOf(await auditFiles(path))
  for (const entry of await latestEntries(await auditFiles(path), filter, lines)) if (isBefore(entry, ends)) show(entry)
  if (values.follow !== true) return 0
  const ended = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => ended.abort())
  // "| head" has seen enough.
  process.stdout.once('error', () => ended.abort())
  await follow(path, ends, createFilter(filter), show, ended.signal)
  return 0
}

/** How far a file has been read: which one it is, and to which byte and line. */
type End = { readonly inode: number; readonly position: number; readonly seq: number; readonly chain: string }
type Ends = Map<string, End>

async function endsOf(files: readonly AuditFile[]): Promise<Ends> {
  const ends: Ends = new Map()
  for (const { file, chain } of files) {
    await using handle = await openToRead(file)
    if (handle === undefined) continue
    const { ino, size } = await handle.stat()
    const from = Math.max(0, size - 2 * LIMITS.auditLineBytesMax)
    let [position, seq] = [from, 0]
    for await (const { lines, end } of readLines(handle, from)) {
      position = end
      seq = seqOf(lines.at(-1) ?? '') ?? seq
    }
    ends.set(String(ino), { inode: ino, position, seq, chain })
  }
  return ends
}

function isBefore({ chain, fields }: Entry, ends: Ends): boolean {
  const seq = Number(fields['seq'])
  const own = [...ends.values()].filter((end) => end.chain === chain)
  return own.length === 0 ? false : !(seq > Math.max(...own.map((end) => end.seq)))
}

function seqOf(line: string): number | undefined {
  const text = /^\{"seq":(\d{1,15}),/.exec(line)?.[1]
  return text === undefined ? undefined : Number(text)
}

/** What is added from there on, until the signal. Files that are rotated are known by what they are, not by their names. */
async function follow(
  path: string,
  ends: Ends,
  isAskedFor: (entry: Entry) => boolean,
  show: (entry: Entry) => void,
  signal: AbortSignal,
): Promise<void> {
  let ring = new AbortController()
  const watchers = watchable(path).flatMap((folder) => {
    try {
      return [watch(folder, { persistent: false }, () => ring.abort()).on('error', () => undefined)]
    } catch {
      return []
    }
  })
  try {
    while (!signal.aborted) {
      ring = new AbortController()
      for (const { file, chain } of await auditFiles(path)) {
        await using handle = await openToRead(file)
        if (handle === undefined) continue
        const { ino, size } = await handle.stat()
        const known = ends.get(String(ino))
        // One that was cut is read from its start: it is another now.
        const from = known === undefined || known.position > size ? 0 : known.position
        if (from === size) continue
        for await (const { lines, end } of readLines(handle, from)) {
          for (const line of lines) {
            const entry = entryOf(chain, line)
            if (isAskedFor(entry)) show(entry)
          }
          ends.set(String(ino), { inode: ino, position: end, seq: seqOf(lines.at(-1) ?? '') ?? 0, chain })
        }
      }
      // Where a change is not told, as on a file system of another machine, it is looked for.
      await wait(LIMITS.auditFollowMs, undefined, { signal: AbortSignal.any([ring.signal, signal]) }).catch(() => undefined)
    }
  } finally {
    for (const watcher of watchers) watcher.close()
  }
}

function watchable(path: string): string[] {
  return path.endsWith('.jsonl') ? [dirname(path)] : [path, join(path, 'sessions')]
}
