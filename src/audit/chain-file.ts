import { fdatasyncSync, fstatSync, ftruncateSync, lstatSync, writeSync } from 'node:fs'
import { constants, open, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { sealLine, startOfLine } from './line.ts'
import type { Link } from './read-line.ts'
import { scanChain, type Scan } from './verify.ts'

/** The file behind an audit: whole lines are added at its end, or nothing. One call at a time, `sync` at any time. */
export type ChainFile = AsyncDisposable & {
  /** Bytes of an unfinished last line that opening cut off. */
  readonly recoveredBytes: number
  /** @throws when the file is not, byte for byte in length, what this process left: then nothing must be written. */
  check(): void
  /** Adds a line for each body. Returns when write(2) took all of them. @throws when it did not: then none was added. */
  write(bodies: readonly string[]): void
  /** fdatasync. After one that failed `check` fails until one succeeds. */
  sync(): Promise<void>
}

/** Where a chain has come to: number and hash of its last line. */
export type Place = { readonly seq: number; readonly head: string }

/** Members of a line; or how they are made of its number and of the hash before it. */
export type Body = string | ((seq: number, prev: string) => string)

/** A chain file whose lines may depend on their place. */
export type PlacedChainFile = ChainFile & {
  readonly place: Place
  readonly bytes: number
  write(bodies: readonly Body[]): void
  /** Of an empty file: it has this name now, and goes on from there. */
  moveTo(file: string, after: Place): void
}

export type ChainFileOptions = {
  /** What it goes on from, when it is not the first file of its chain. */
  readonly after?: Place
  /** Hears each line that opening verifies. */
  readonly onLink?: (link: Link) => void
  /** Hears what was added: whole lines with their newlines. */
  readonly onWritten?: (text: string) => void
}

/** The file was changed by another: what it holds now must be looked at by a human. */
export class ForeignChange extends Error {}

/**
 * Opens or makes the file, verifies what is in it and goes on from there.
 *
 * @throws audit_open_failed
 */
export async function openChainFile(file: string, options: ChainFileOptions = {}): Promise<PlacedChainFile> {
  const handle = await openRegular(file)
  try {
    const { size, uid } = await handle.stat()
    if (uid !== process.geteuid?.()) throw failed(file, `it belongs to user ${uid}`, { hint: 'name a file that does not exist yet' })
    const { after, onLink } = options
    const from = Math.max(0, size - LIMITS.auditContinueBytesMax)
    const scan = await scanChain(handle, { from, ...(after && { after }), ...(onLink && { onLink }) })
    refuseBroken(file, scan)
    await handle.chmod(0o600)
    // No event that was acknowledged is cut here: `append` answers only when write(2) took the line with its newline.
    if (scan.torn.length > 0) await handle.truncate(scan.bytes)
    await handle.sync()
    if (size === 0) await syncFolder(dirname(file))
    return chainFile(file, handle, scan, options.onWritten)
  } catch (cause) {
    await handle.close()
    throw cause instanceof SallyportError ? cause : failed(file, codeOf(cause), { cause })
  }
}

function chainFile(opened: string, handle: FileHandle, scan: Scan, onWritten: ChainFileOptions['onWritten']): PlacedChainFile {
  let file = opened
  let { seq, head, bytes: size } = scan
  let leftover = 0
  let isSynced = true

  function cutLeftover(): void {
    ftruncateSync(handle.fd, size)
    leftover = 0
  }

  // What only concerns the kernel's memory is asked for on this thread: by way of the thread pool each call would cost ten times as
  // much, and the events of a whole turn wait for it.
  return {
    recoveredBytes: scan.torn.length,
    get place() {
      return { seq, head }
    },
    get bytes() {
      return size
    },
    check() {
      const stat = fstatSync(handle.fd)
      const named = lstatSync(file)
      if (stat.dev !== named.dev || stat.ino !== named.ino) throw new ForeignChange('another file has its name')
      if (stat.size !== size + leftover) throw new ForeignChange(`it has ${stat.size} bytes where ${size} were written`)
      if (leftover > 0) cutLeftover()
      if (size >= LIMITS.auditFileBytesMax) throw Object.assign(new Error('the audit file has reached its limit'), { code: 'EFBIG' })
      if (isSynced) return
      fdatasyncSync(handle.fd)
      isSynced = true
    },
    write(bodies) {
      let nextSeq = seq
      let nextHead = head
      let text = ''
      for (const body of bodies) {
        nextSeq += 1
        const sealed = sealLine(nextSeq, typeof body === 'string' ? body : body(nextSeq, nextHead), nextHead)
        nextHead = sealed.hash
        text += sealed.line
      }
      // Pure ASCII: a byte a character.
      const bytesWritten = writeSync(handle.fd, text, null, 'latin1')
      if (bytesWritten !== text.length) {
        leftover = bytesWritten
        // Should this fail too, `check` tries again before the next write.
        try {
          cutLeftover()
        } catch {}
        throw Object.assign(new Error('short write'), { code: 'ENOSPC' })
      }
      seq = nextSeq
      head = nextHead
      size += text.length
      onWritten?.(text)
    },
    moveTo(name, after) {
      if (size > 0) throw new Error('it has lines of its own')
      file = name
      seq = after.seq
      head = after.head
    },
    async sync() {
      try {
        await handle.datasync()
        isSynced = true
      } catch (error) {
        isSynced = false
        throw error
      }
    },
    [Symbol.asyncDispose]: () => handle.close(),
  }
}

/** O_APPEND: should another write between `check` and the write, its bytes are never overwritten (and found next time). */
async function openRegular(file: string): Promise<FileHandle> {
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants
  try {
    const handle = await open(file, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600)
    if ((await handle.stat()).isFile()) return handle
    await handle.close()
    throw failed(file, 'it is not a regular file')
  } catch (cause) {
    if (cause instanceof SallyportError) throw cause
    const code = codeOf(cause)
    if (code === 'ENOENT') throw failed(file, 'its folder does not exist', { hint: `mkdir -p ${dirname(file)}`, cause })
    if (code === 'ELOOP') throw failed(file, 'it is a symbolic link', { hint: 'name the file itself', cause })
    throw failed(file, code, { cause })
  }
}

function refuseBroken(file: string, { broken, torn, seq }: Scan): void {
  const hint = `look at it with "sallyport audit verify ${file}", then move it away`
  if (broken !== undefined) throw failed(file, `line ${broken.line} does not hold: ${broken.problem}`, { hint })
  // Only what can be the start of our next line is ever cut: a wrong --audit must not eat the end of a stranger's file.
  // A machine that crashed may have left zeros where the bytes did not reach the disk.
  const text = torn.toString('latin1').replace(/\0+$/, '')
  const start = `${startOfLine(seq + 1)}"time":"`
  const isOurs = text.startsWith(start) || (start.startsWith(text) && (text !== '' || seq > 0))
  if (torn.length > 0 && !isOurs) throw failed(file, 'its end is not an audit line', { hint })
}

/** Names in a folder outlive a crash of the machine only once the folder itself is on the disk. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, constants.O_RDONLY)
  await folder.sync()
}

function failed(file: string, problem: string, options: { hint?: string; cause?: unknown } = {}): SallyportError {
  return new SallyportError('audit_open_failed', `${file}: ${problem}`, options)
}
