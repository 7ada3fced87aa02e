import { constants, open, type FileHandle } from 'node:fs/promises'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { problemOfCheckpoint } from './checkpoint.ts'
import { GENESIS } from './line.ts'
import { readLine, type Link } from './read-line.ts'
import { readVerifyingKey } from './signing-key.ts'

const CHUNK_BYTES = 256 * 1024
const NEWLINE = 0x0a

/** How far the chain of a file holds. */
export type Scan = {
  readonly events: number
  /** Number and hash of the last whole line; 0 and 64 zeros where there is none. */
  readonly seq: number
  readonly head: string
  /** Times of the first and last line, empty where there is none. */
  readonly first: string
  readonly last: string
  /** Bytes of the lines that hold. */
  readonly bytes: number
  /** What follows the last newline: a line that was never finished. At most `LIMITS.auditLineBytesMax`. */
  readonly torn: Buffer
  /** The first line that does not hold, and why. The scan ends there. */
  readonly broken?: { readonly line: number; readonly problem: string }
}

/**
 * Verifies a whole audit file in bounded memory: every line's hash, its number, its link to the line before.
 * Whole lines cut off at the end leave no trace in the file: compare `head` with one that was noted elsewhere.
 *
 * @param keyFile the public key that its checkpoints must be of
 * @throws audit_broken with `FILE:LINE: reason` for the first line that does not hold, an unfinished last line too.
 * @throws audit_open_failed when the file cannot be read.
 */
export async function verifyAudit(file: string, keyFile?: string): Promise<{ events: number; head: string; first: string; last: string }> {
  const key = keyFile === undefined ? undefined : await readVerifyingKey(keyFile)
  if (keyFile !== undefined && key === undefined) throw new SallyportError('audit_key_invalid', `${keyFile} does not exist`)
  let checkpoints = 0
  const scan = await readWhole(file, (link, line) => {
    if (link.event !== 'checkpoint') return undefined
    checkpoints += 1
    return problemOfCheckpoint(line.latin1Slice(), key)
  })
  if (key !== undefined && scan.broken === undefined && checkpoints === 0)
    throw new SallyportError('audit_broken', `${file}: no checkpoint of the key ${key.id} is in it`, {
      hint: 'the chain of a session or of a gate by itself is not signed: verify it without a key, or the folder of the whole audit with one',
    })
  const broken = scan.broken ?? tornLine(scan)
  if (broken !== undefined) {
    throw new SallyportError('audit_broken', `${file}:${broken.line}: ${broken.problem}`, {
      hint: 'what stands before that line holds; keep the file as it is and find out who wrote to it',
    })
  }
  return { events: scan.events, head: scan.head, first: scan.first, last: scan.last }
}

export type ScanOptions = {
  /** Begins with the first whole line behind this byte, whose number and link are taken as they are. */
  readonly from?: number
  /** The line that the first one follows; `unknown`: its number and link are taken as they are. */
  readonly after?: { readonly seq: number; readonly head: string } | 'unknown'
  /** Hears each line that holds. The bytes are valid until it returns. A text is a reason why it does not hold all the same. */
  readonly onLink?: (link: Link, line: Buffer) => string | undefined | void
}

/** Scans the lines of an open file, in bounded memory, up to the first one that does not hold. */
export async function scanChain(handle: FileHandle, { from = 0, after, onLink }: ScanOptions = {}): Promise<Scan> {
  const chain = createChain(from > 0 ? 'unknown' : (after ?? { seq: 0, head: GENESIS }), onLink)
  let position = from > 0 ? await startOfNextLine(handle, from) : 0
  let bytes = position
  let rest = Buffer.alloc(0)
  const chunk = Buffer.alloc(CHUNK_BYTES)
  for (;;) {
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, position)
    if (bytesRead === 0) return { ...chain.state(), bytes, torn: rest }
    position += bytesRead
    const text = Buffer.concat([rest, chunk.subarray(0, bytesRead)])
    let start = 0
    for (let end = text.indexOf(NEWLINE); end !== -1; end = text.indexOf(NEWLINE, start)) {
      const problem = chain.accept(text.subarray(start, end))
      if (problem !== undefined)
        return { ...chain.state(), bytes, torn: Buffer.alloc(0), broken: { line: chain.state().events + 1, problem } }
      bytes += end + 1 - start
      start = end + 1
    }
    rest = Buffer.from(text.subarray(start))
    if (rest.length > LIMITS.auditLineBytesMax) {
      const problem = `it is longer than ${LIMITS.auditLineBytesMax} bytes`
      return { ...chain.state(), bytes, torn: Buffer.alloc(0), broken: { line: chain.state().events + 1, problem } }
    }
  }
}

function createChain(after: NonNullable<ScanOptions['after']>, onLink: ScanOptions['onLink']) {
  const trustsFirst = after === 'unknown'
  let { seq, head } = trustsFirst ? { seq: 0, head: GENESIS } : after
  let [events, first, last] = [0, '', '']
  return {
    state: () => ({ events, seq, head, first, last }),
    /** The reason why the line is not the next one of the chain. */
    accept(line: Buffer): string | undefined {
      if (line.length > LIMITS.auditLineBytesMax) return `it is longer than ${LIMITS.auditLineBytesMax} bytes`
      const link = readLine(line)
      if (typeof link === 'string') return link
      const linked = (trustsFirst && events === 0) || (link.seq === seq + 1 && link.prev === head)
      if (!linked) {
        return link.seq === seq + 1 ? 'it does not follow the line before' : `its number is ${link.seq} where ${seq + 1} should be`
      }
      const problem = onLink?.(link, line)
      if (typeof problem === 'string') return problem
      if (events === 0) first = link.time
      ;[events, seq, head, last] = [events + 1, link.seq, link.hash, link.time]
      return undefined
    },
  }
}

/** Where the first line after `from` begins; the end of what was searched when no newline is in reach. */
async function startOfNextLine(handle: FileHandle, from: number): Promise<number> {
  const window = Buffer.alloc(LIMITS.auditLineBytesMax + 1)
  const { bytesRead } = await handle.read(window, 0, window.length, from - 1)
  const newline = window.subarray(0, bytesRead).indexOf(NEWLINE)
  return from + (newline === -1 ? bytesRead - 1 : newline)
}

async function readWhole(file: string, onLink: ScanOptions['onLink']): Promise<Scan> {
  try {
    // O_NONBLOCK: a FIFO in the place of the file must not hold the command.
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    if (!(await handle.stat()).isFile())
      throw new SallyportError('audit_open_failed', `${file} is not a regular file`, { hint: 'name the audit file itself' })
    return await scanChain(handle, onLink && { onLink })
  } catch (cause) {
    if (cause instanceof SallyportError) throw cause
    throw new SallyportError('audit_open_failed', `${file} cannot be read (${codeOf(cause)})`, {
      hint: 'name an audit file that this user can read',
      cause,
    })
  }
}

function tornLine({ events, torn }: Scan): Scan['broken'] {
  if (torn.length === 0) return undefined
  return {
    line: events + 1,
    problem: `it was never finished (${torn.length} bytes without a newline): a write was cut short, or is under way`,
  }
}
