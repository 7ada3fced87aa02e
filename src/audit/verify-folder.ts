import { readdir, readFile, stat, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { chainFileName, parseChainFileName, type ChainName } from './chain-names.ts'
import { problemOfCheckpoint, readCheckpoint } from './checkpoint.ts'
import { openToRead } from './entries.ts'
import { GENESIS } from './line.ts'
import type { Link } from './read-line.ts'
import { createRecords, type Records } from './records.ts'
import { segmentName, segmentNumbers, SEGMENTS } from './segment-names.ts'
import { readVerifyingKey, type VerifyingKey } from './signing-key.ts'
import { scanChain, type Scan } from './verify.ts'

/** What verifying a whole audit found. */
export type FolderFound = {
  /** Lines of the controller's chain that are there, the hash of the last one, times of the first and the last. */
  readonly events: number
  readonly head: string
  readonly first: string
  readonly last: string
  /** Files of the controller's chain, chains of sessions, and lines in those. */
  readonly segments: number
  readonly chains: number
  readonly sessionEvents: number
  /** Files that were deleted for their age, with a record. */
  readonly retired: number
  readonly checkpoints: number
  /** Lines behind the last checkpoint, and lines of sessions behind what the controller signed of them. */
  readonly unsigned: number
  readonly uncountersigned: number
  /** Thumbprint of the key whose signatures hold, and whether it was given or found in the folder: there whoever altered the audit may have put it. */
  readonly key?: string
  readonly keyFrom?: 'given' | 'folder'
}

export type VerifyFolderOptions = {
  /** A file with the public key. */
  readonly keyFile?: string
  /** A file with a checkpoint that was kept elsewhere: it must be in the chain. */
  readonly checkpointFile?: string
}

/**
 * Verifies an audit folder of a controller: its chain over all segments, each checkpoint, and each chain of a session against what the
 * controller recorded of it. Needs nothing but the folder.
 * @throws audit_broken for the first thing that does not hold; audit_open_failed, audit_key_invalid
 */
export async function verifyAuditFolder(folder: string, options: VerifyFolderOptions = {}): Promise<FolderFound> {
  const key = await keyOf(folder, options.keyFile)
  const kept = await keptCheckpoints(folder, options.checkpointFile, key)
  // Before the controller's chain: whatever has a line by now has its record there.
  const begun = await chainsIn(join(folder, SEGMENTS.sessions))
  const records = createRecords()
  const series = await verifySeries(folder, { key, kept, records })
  const sessions = await verifySessions(join(folder, SEGMENTS.sessions), begun, records, series.isWhole)
  return {
    events: series.events,
    head: series.head,
    first: series.first,
    last: series.last,
    segments: series.segments,
    ...sessions,
    retired: records.retired(),
    checkpoints: series.checkpoints,
    unsigned: series.unsigned,
    ...(key && { key: key.id, keyFrom: options.keyFile === undefined ? ('folder' as const) : ('given' as const) }),
  }
}

type Kept = { readonly file: string; readonly link: Link }
type SeriesParts = { readonly key: VerifyingKey | undefined; readonly kept: readonly Kept[]; readonly records: Records }

async function verifySeries(folder: string, parts: SeriesParts) {
  await using files = await openSeries(folder)
  const watch = watchSeries(parts)
  let [events, first, last] = [0, '', '']
  let place: { seq: number; head: string } | 'unknown' = 'unknown'
  for (const [index, { file, handle }] of files.list.entries()) {
    const scan: Scan = await scanChain(handle, { after: place, onLink: (link, line) => watch.take(link, line) })
    refuse(file, scan, index === files.list.length - 1)
    if (scan.events === 0) continue
    place = { seq: scan.seq, head: scan.head }
    events += scan.events
    first ||= scan.first
    last = scan.last
  }
  const oldest = files.list[0]?.file ?? folder
  const begins = watch.begins()
  const isWhole = begins.behind === 0 && begins.with === GENESIS
  if (!isWhole && !parts.records.isRetired('controller', begins.behind, begins.with))
    throw broken(`${oldest}:1`, `it goes on behind line ${begins.behind}, and nothing says that what was before was deleted`)
  const end = place === 'unknown' ? { seq: 0, head: GENESIS } : place
  watch.refuseMissing(end.seq)
  if (parts.key !== undefined && events > 0 && watch.checkpoints() === 0)
    throw broken(oldest, `no checkpoint of the key ${parts.key.id} is in it`)
  const { length: segments } = files.list
  return { events, head: end.head, first, last, segments, checkpoints: watch.checkpoints(), unsigned: watch.unsigned(), isWhole }
}

/** What is looked at in each line of the controller's chain besides its links. */
function watchSeries({ key, kept, records }: SeriesParts) {
  let [checkpoints, unsigned] = [0, 0]
  let begins: { behind: number; with: string } | undefined
  const met = new Set<Kept>()
  return {
    begins: () => begins ?? { behind: 0, with: GENESIS },
    checkpoints: () => checkpoints,
    unsigned: () => unsigned,
    take(link: Link, line: Buffer): string | undefined {
      begins ??= { behind: link.seq - 1, with: link.prev }
      for (const one of kept) {
        if (one.link.seq !== link.seq) continue
        if (one.link.hash !== link.hash) return `it is not the line that ${one.file} signs: the chain was forked`
        met.add(one)
      }
      unsigned += 1
      if (link.event === 'checkpoint') {
        const problem = problemOfCheckpoint(line.latin1Slice(), key)
        if (problem !== undefined) return problem
        checkpoints += 1
        unsigned = 0
      } else if (key !== undefined && checkpoints > 0 && unsigned > LIMITS.auditCheckpointLinesMax) {
        return `it is more than ${LIMITS.auditCheckpointLinesMax} lines behind the last checkpoint: they were added by another`
      }
      records.take(link, line)
      return undefined
    },
    refuseMissing(lastSeq: number): void {
      for (const one of kept) {
        const { seq } = one.link
        if (seq > lastSeq) throw broken(one.file, `it signs line ${seq}, and the chain ends with line ${lastSeq}: it was cut`)
        if (!met.has(one) && seq > (begins?.behind ?? 0)) throw broken(one.file, 'the line that it signs is not in the chain')
      }
    },
  }
}

/** Each chain of a session is one that the controller began, and has every line that the controller signed. */
async function verifySessions(folder: string, begun: readonly ChainName[], records: Records, isWhole: boolean) {
  let [chains, sessionEvents, uncountersigned] = [0, 0, 0]
  const names = new Map([...begun, ...records.signedChains()].map((chain) => [chainFileName(chain), chain]))
  for (const [name, chain] of names) {
    const file = join(folder, name)
    await using handle = await openToRead(file)
    if (handle === undefined) {
      if (records.isChainRetired(chain)) continue
      throw broken(file, 'the controller signed lines of it, and it is gone')
    }
    const { events, behind } = await verifyChain(file, handle, chain, records, isWhole)
    if (events === 0) continue
    chains += 1
    sessionEvents += events
    uncountersigned += behind
  }
  return { chains, sessionEvents, uncountersigned }
}

async function verifyChain(file: string, handle: FileHandle, chain: ChainName, records: Records, isWhole: boolean) {
  const known = records.of(chain)
  let unmet = known?.marks.size ?? 0
  let beginning: string | undefined
  const scan = await scanChain(handle, {
    onLink(link) {
      beginning ??= link.hash
      const digest = known?.marks.get(link.seq)
      if (digest === undefined) return undefined
      unmet -= 1
      return digest === link.hash ? undefined : 'it is not the line that the controller signed'
    },
  })
  // A piece of a line at its end is what a crash leaves: the next line of the session takes its place.
  refuse(file, scan, true)
  if (scan.events === 0 && unmet === 0) return { events: 0, behind: 0 }
  // Of what began in a segment that was deleted since, the later records are left.
  if (known === undefined || (known.begun === undefined && isWhole))
    throw broken(file, 'the controller did not begin it: it was put there by another')
  if (known.begun !== undefined && known.begun !== beginning)
    throw broken(`${file}:1`, 'it is not the line that the controller began it with')
  if (unmet > 0) throw broken(file, `it ends with line ${scan.seq}, and the controller signed line ${known.lastLine}: it was cut`)
  const behind = scan.seq - known.lastLine
  if (behind > 0 && records.isOver(chain.session))
    throw broken(file, `it has ${behind} lines behind the last one that the controller signed, of a session that is over`)
  return { events: scan.events, behind }
}

function refuse(file: string, { broken: problem, torn, events }: Scan, isLast: boolean): void {
  if (problem !== undefined) throw broken(`${file}:${problem.line}`, problem.problem)
  if (torn.length > 0 && !isLast) throw broken(`${file}:${events + 1}`, 'it was never finished, and more was written behind it')
}

/** The active file first: what is rotated meanwhile is then found under its number. */
async function openSeries(folder: string): Promise<AsyncDisposable & { list: readonly { file: string; handle: FileHandle }[] }> {
  await using stack = new AsyncDisposableStack()
  const active = join(folder, SEGMENTS.active)
  const handle = stack.use(await openNeeded(active))
  const { dev, ino } = await handle.stat()
  const list: { file: string; handle: FileHandle }[] = []
  for (const number of await segmentNumbers(folder)) {
    const file = join(folder, segmentName(number))
    const segment = stack.use(await openNeeded(file))
    const own = await segment.stat()
    if (own.dev === dev && own.ino === ino) break
    list.push({ file, handle: segment })
  }
  list.push({ file: active, handle })
  const opened = stack.move()
  return { list, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

async function keyOf(folder: string, given: string | undefined): Promise<VerifyingKey | undefined> {
  const key = await readVerifyingKey(given ?? join(folder, SEGMENTS.publicKey))
  if (key === undefined && given !== undefined)
    throw new SallyportError('audit_key_invalid', `${given} does not exist`, { hint: 'name the file that "sallyport audit key" wrote' })
  return key
}

async function keptCheckpoints(folder: string, given: string | undefined, key: VerifyingKey | undefined): Promise<Kept[]> {
  const kept: Kept[] = []
  for (const file of [join(folder, SEGMENTS.checkpoint), given]) {
    const text = file === undefined ? '' : await readFile(file, 'latin1').catch((error: unknown) => missing(file, error, file === given))
    if (file === undefined || text === '') continue
    const link = readCheckpoint(text, key)
    if (typeof link === 'string') throw broken(file, link)
    kept.push({ file, link })
  }
  return kept
}

function missing(file: string, error: unknown, isNeeded: boolean): string {
  if (codeOf(error) === 'ENOENT' && !isNeeded) return ''
  throw unreadable(file, error)
}

async function openNeeded(file: string): Promise<FileHandle> {
  const handle = await openToRead(file)
  if (handle !== undefined) return handle
  throw unreadable(file, Object.assign(new Error('it is gone'), { code: 'ENOENT' }))
}

/** The chains that have a line. */
async function chainsIn(folder: string): Promise<ChainName[]> {
  const chains: ChainName[] = []
  try {
    for (const name of (await readdir(folder)).toSorted()) {
      const chain = parseChainFileName(name)
      if (chain === undefined) throw broken(join(folder, name), 'no file of the audit has that name')
      if ((await stat(join(folder, name)).catch(() => undefined))?.size !== 0) chains.push(chain)
    }
    return chains
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error instanceof SallyportError ? error : unreadable(folder, error)
  }
}

function unreadable(file: string, cause: unknown): SallyportError {
  return new SallyportError('audit_open_failed', `${file} cannot be read (${codeOf(cause)})`, {
    hint: 'name an audit that this user can read: a file, or the folder "audit" of a controller',
    cause,
  })
}

function broken(place: string, problem: string): SallyportError {
  return new SallyportError('audit_broken', `${place}: ${problem}`, {
    hint: 'keep the audit as it is and find out who wrote to it; a copy of it that is older tells what was there',
  })
}
