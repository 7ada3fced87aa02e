import { constants, open, readdir, stat, type FileHandle } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { parseChainFileName } from './chain-names.ts'
import { segmentName, segmentNumbers, SEGMENTS } from './segment-names.ts'

/** One event of an audit, as it is read back. Its texts may be an agent's. */
export type Entry = {
  /** `controller`, the name of a session's chain (`ID`, `ID.2` …), or of a file that is neither. */
  readonly chain: string
  /** The line as it stands in the file, without its newline. */
  readonly line: string
  /** Its members. A line that is no JSON has none. */
  readonly fields: Readonly<Record<string, unknown>>
}

/** One file of an audit, and where in it to go on. */
export type AuditFile = {
  readonly file: string
  readonly chain: string
}

const CHUNK_BYTES = 256 * 1024

/**
 * The files of an audit: of a folder the controller's segments in order and then the chains of sessions; of a file itself. A folder
 * without an audit has none.
 * @throws audit_open_failed
 */
export async function auditFiles(path: string): Promise<AuditFile[]> {
  if (!(await isFolder(path))) return [{ file: path, chain: chainOf(basename(path)) }]
  const segments = (await segmentNumbers(path)).map(segmentName)
  const active = await namesOf(path)
  const own = [...segments, ...active.filter((name) => name === SEGMENTS.active)]
  const sessions = await namesOf(join(path, SEGMENTS.sessions))
  return [
    ...own.map((name) => ({ file: join(path, name), chain: 'controller' })),
    ...sessions
      .filter((name) => parseChainFileName(name) !== undefined)
      .map((name) => ({ file: join(path, SEGMENTS.sessions, name), chain: chainOf(name) })),
  ]
}

/**
 * The events of files, in the order of the files and of their lines, in bounded memory. Nothing is verified.
 * @param mayMatch looked at before a line is parsed
 * @throws audit_open_failed
 */
export async function* readEntries(files: readonly AuditFile[], mayMatch: (line: string) => boolean = () => true): AsyncGenerator<Entry> {
  for (const { file, chain } of files) {
    await using handle = await openToRead(file)
    if (handle === undefined) continue
    for await (const { lines } of readLines(handle, 0)) for (const line of lines) if (mayMatch(line)) yield entryOf(chain, line)
  }
}

/** Whole lines from that byte on, with the byte behind the last of them. What has no newline yet is left for the next time. */
export async function* readLines(
  handle: FileHandle,
  from: number,
): AsyncGenerator<{ readonly lines: readonly string[]; readonly end: number }> {
  const chunk = Buffer.alloc(CHUNK_BYTES)
  let rest = ''
  for (let position = from; ;) {
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, position)
    if (bytesRead === 0) return
    position += bytesRead
    const lines = (rest + chunk.latin1Slice(0, bytesRead)).split('\n')
    rest = lines.pop() ?? ''
    if (lines.length > 0) yield { lines, end: position - rest.length }
    // Longer than any line of ours: what it is the rest of is shown as it is.
    if (rest.length > LIMITS.auditLineBytesMax) rest = rest.slice(0, LIMITS.auditLineBytesMax)
  }
}

export function entryOf(chain: string, line: string): Entry {
  try {
    const fields: unknown = JSON.parse(line)
    return { chain, line, fields: typeof fields === 'object' && fields !== null ? (fields as Record<string, unknown>) : {} }
  } catch {
    return { chain, line, fields: {} }
  }
}

/** O_NONBLOCK: a FIFO in the place of a file must not hold the command. Undefined when it was deleted meanwhile. */
export async function openToRead(file: string): Promise<FileHandle | undefined> {
  try {
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    if ((await handle.stat()).isFile()) return handle
    await handle.close()
    throw new SallyportError('audit_open_failed', `${file} is not a regular file`)
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return undefined
    throw cause instanceof SallyportError ? cause : unreadable(file, cause)
  }
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory()
  } catch (cause) {
    throw unreadable(path, cause)
  }
}

async function namesOf(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).toSorted()
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return []
    throw unreadable(folder, cause)
  }
}

function chainOf(name: string): string {
  return name.replace(/\.jsonl$/, '')
}

function unreadable(path: string, cause: unknown): SallyportError {
  return new SallyportError('audit_open_failed', `${path} cannot be read (${codeOf(cause)})`, {
    hint: 'name an audit file, or the folder of a controller’s audit; "sallyport daemon" begins one in $SALLYPORT_HOME/audit',
    cause,
  })
}
