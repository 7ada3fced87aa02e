import { linkSync, renameSync } from 'node:fs'
import { constants, lstat, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { readPrivateFile, replacePrivateFile } from '../kernel/private-file.ts'
import type { System } from '../kernel/system.ts'
import { openChainFile, syncFolder, type Body, type ChainFile, type Place, type PlacedChainFile } from './chain-file.ts'
import { checkpointBody, checkpointLine, readCheckpoint } from './checkpoint.ts'
import { GENESIS } from './line.ts'
import { lastLink } from './last-link.ts'
import type { Link } from './read-line.ts'
import { segmentName, segmentNumbers, SEGMENTS } from './segment-names.ts'
import { parseVerifyingKey, type SigningKey } from './signing-key.ts'

/** One chain over several files, signed at intervals. The active file is always `controller.jsonl`. */
export type SegmentedChain = ChainFile & {
  /** Signs what is not signed yet. @throws what writing throws */
  checkpoint(): void
}

export type SegmentsOptions = {
  readonly folder: string
  /** The members that stand in every line. */
  readonly identity: string
  readonly key: SigningKey
  /** A segment that is larger is followed by the next one. */
  readonly rotateBytes: number
  readonly system: Pick<System, 'now' | 'elapsed' | 'random'>
  readonly onWritten: (text: string) => void
  /** What went wrong behind everybody's back, and is tried again. */
  readonly onFault: (error: unknown) => void
}

/**
 * Opens the chain of a folder and goes on behind its last line, whatever a crash in a rotation left. Refuses a chain that is not the one
 * that was signed last: one that was cut, or another in its place.
 * @throws audit_open_failed
 */
export async function openSegments(options: SegmentsOptions): Promise<SegmentedChain> {
  const { folder, key, onWritten } = options
  const file = join(folder, SEGMENTS.active)
  await undoRotation(folder, (await segmentNumbers(folder)).at(-1))
  const numbers = await segmentNumbers(folder)
  const before = await endOf(folder, numbers.at(-1))
  const kept = await keptCheckpoint(folder, key)
  let seen: Link | undefined
  let firstSeq: number | undefined
  const onLink = (link: Link): void => {
    firstSeq ??= link.seq
    if (link.seq === kept?.seq) seen = link
  }
  const chain = await openChainFile(file, { after: before, onLink, onWritten })
  try {
    if (kept !== undefined) refuseOther(file, kept, before, chain.place, seen, firstSeq)
    const isSigned = kept !== undefined && kept.seq === chain.place.seq
    return new Segments(options, chain, { number: (numbers.at(-1) ?? 0) + 1, bytesBefore: await bytesOf(folder, numbers), isSigned })
  } catch (error) {
    await chain[Symbol.asyncDispose]()
    throw error
  }
}

class Segments implements SegmentedChain {
  readonly recoveredBytes: number
  readonly #options: SegmentsOptions
  #chain: PlacedChainFile
  /** Files of segments before, whose last lines may not be on the disk yet. */
  #former: PlacedChainFile[] = []
  #number: number
  #bytesBefore: number
  /** Lines that no checkpoint signs. */
  #unsigned: number
  #signedMs = Number.NEGATIVE_INFINITY
  /** The last checkpoint, as a line, and the one that is kept beside the chain. */
  #latest = ''
  #saved = ''
  #timer: NodeJS.Timeout | undefined
  #syncing: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(options: SegmentsOptions, chain: PlacedChainFile, at: { number: number; bytesBefore: number; isSigned: boolean }) {
    this.#options = options
    this.#chain = chain
    this.recoveredBytes = chain.recoveredBytes
    this.#number = at.number
    this.#bytesBefore = at.bytesBefore
    this.#unsigned = at.isSigned || chain.place.seq === 0 ? 0 : 1
  }

  check(): void {
    this.#chain.check()
    if (this.#bytesBefore + this.#chain.bytes >= LIMITS.auditFileBytesMax)
      throw Object.assign(new Error('the audit has reached its limit'), { code: 'EFBIG' })
  }

  write(bodies: readonly string[]): void {
    const { system } = this.#options
    const all: Body[] = []
    let unsigned = this.#unsigned
    let latest = ''
    const signing = (): void => {
      const make = this.#checkpointBody()
      all.push((seq, prev) => {
        const body = make(seq, prev)
        latest = checkpointLine(body, seq, prev)
        return body
      })
      unsigned = 0
    }
    for (const body of bodies) {
      all.push(body)
      unsigned += 1
      if (unsigned >= LIMITS.auditCheckpointLinesMax) signing()
    }
    if (unsigned > 0 && (bodies.length === 0 || system.elapsed() - this.#signedMs >= LIMITS.auditCheckpointMs)) signing()
    this.#chain.write(all)
    this.#unsigned = unsigned
    if (latest !== '') {
      this.#latest = latest
      this.#signedMs = system.elapsed()
    }
    if (unsigned > 0) this.#signLater()
  }

  checkpoint(): void {
    if (this.#unsigned === 0) return
    this.check()
    this.write([])
  }

  sync(): Promise<void> {
    const synced = this.#syncing.then(() => this.#sync())
    this.#syncing = synced.catch(() => undefined)
    return synced
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    try {
      this.checkpoint()
      await this.sync()
    } catch (error) {
      this.#options.onFault(error)
    }
    await this.#chain[Symbol.asyncDispose]()
    for (const former of this.#former) await former[Symbol.asyncDispose]()
  }

  #checkpointBody(): (seq: number, prev: string) => string {
    const { identity, key, system } = this.#options
    return checkpointBody(identity, key, system.now())
  }

  #signLater(): void {
    if (this.#isClosed) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      try {
        this.checkpoint()
      } catch (error) {
        // The next event that can be written is followed by one.
        this.#options.onFault(error)
        return
      }
      void this.sync().catch((error: unknown) => this.#options.onFault(error))
    }, LIMITS.auditCheckpointMs).unref()
  }

  async #sync(): Promise<void> {
    await this.#chain.sync()
    while (this.#former[0] !== undefined) {
      await this.#former[0].sync()
      await this.#former.shift()?.[Symbol.asyncDispose]()
    }
    const latest = this.#latest
    if (latest !== this.#saved) {
      // Behind the line itself: what is kept here is always in the chain.
      await replacePrivateFile(join(this.#options.folder, SEGMENTS.checkpoint), latest, this.#options.system)
      this.#saved = latest
    }
    if (this.#chain.bytes >= this.#options.rotateBytes && !this.#isClosed) await this.#rotate()
  }

  /** Events are taken all the time: to the old file up to the renaming, in the same turn to the new one. */
  async #rotate(): Promise<void> {
    const { folder, onWritten } = this.#options
    const [active, next, done] = [join(folder, SEGMENTS.active), join(folder, SEGMENTS.next), join(folder, segmentName(this.#number))]
    const following = await openChainFile(next, { onWritten })
    try {
      if (following.bytes > 0) throw Object.assign(new Error('the file for the next segment has lines'), { code: 'EEXIST' })
      this.checkpoint()
      this.#chain.check()
      // Never over another file. A crash between the two leaves one file with two names, which the next start undoes.
      linkSync(active, done)
      renameSync(next, active)
    } catch (error) {
      await following[Symbol.asyncDispose]()
      await undoRotation(folder, this.#number)
      throw error
    }
    following.moveTo(active, this.#chain.place)
    this.#bytesBefore += this.#chain.bytes
    this.#number += 1
    this.#former.push(this.#chain)
    this.#chain = following
    await syncFolder(folder)
    await this.#former[0]?.sync()
  }
}

/** What a rotation left that was not finished: the file that was made ready, and a second name of the active one. */
async function undoRotation(folder: string, last: number | undefined): Promise<void> {
  const next = join(folder, SEGMENTS.next)
  // With lines in it, it is none of ours: it is left for a human to see, and no rotation succeeds.
  if ((await statOf(next))?.size === 0) await rm(next)
  if (last === undefined) return
  const [active, done] = [await statOf(join(folder, SEGMENTS.active)), await statOf(join(folder, segmentName(last)))]
  if (active === undefined || active.ino !== done?.ino || active.dev !== done.dev) return
  await rm(join(folder, segmentName(last)))
  await syncFolder(folder)
}

async function statOf(file: string) {
  return lstat(file).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  })
}

/** The last line of a segment. */
async function endOf(folder: string, number: number | undefined): Promise<Place> {
  if (number === undefined) return { seq: 0, head: GENESIS }
  const file = join(folder, segmentName(number))
  await using handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const mark = await lastLink(handle)
  if (mark === undefined) throw refused(file, 'its last line does not hold')
  return { seq: mark.seq, head: mark.hash }
}

async function bytesOf(folder: string, numbers: readonly number[]): Promise<number> {
  const stats = await Promise.all(numbers.map((number) => statOf(join(folder, segmentName(number)))))
  return stats.reduce((sum, stat) => sum + (stat?.size ?? 0), 0)
}

/** The last checkpoint that was kept beside the chain. One that a crash of the machine left empty says nothing. */
async function keptCheckpoint(folder: string, key: SigningKey): Promise<Link | undefined> {
  const file = join(folder, SEGMENTS.checkpoint)
  let text: string | undefined
  try {
    text = await readPrivateFile(file, LIMITS.auditLineBytesMax)
  } catch (cause) {
    throw refused(file, cause instanceof Error ? cause.message : codeOf(cause), cause)
  }
  if (text === undefined || text === '') return undefined
  const link = readCheckpoint(text, parseVerifyingKey(file, key.publicPem))
  if (typeof link === 'string') throw refused(file, link)
  return link
}

/** What was signed last is in the chain, unless it is older than what is looked at when a chain is continued. */
function refuseOther(file: string, kept: Link, before: Place, chain: Place, seen: Link | undefined, firstSeq: number | undefined): void {
  if (kept.seq > chain.seq) throw refused(file, `it ends with line ${chain.seq}, and line ${kept.seq} was signed: it was cut`)
  const found = kept.seq === before.seq ? before.head : seen?.hash
  const isInReach = kept.seq === before.seq || (firstSeq !== undefined && kept.seq >= firstSeq)
  if (isInReach && found !== kept.hash) throw refused(file, `its line ${kept.seq} is not the one that was signed: it is another chain`)
}

function refused(file: string, problem: string, cause?: unknown): SallyportError {
  return new SallyportError('audit_open_failed', `${file}: ${problem}`, {
    hint: 'look at it with "sallyport audit verify", bring the audit back as it was, or move the whole folder away with audit.key: then a new one is begun',
    cause,
  })
}
