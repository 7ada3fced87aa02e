import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, open, readlink, realpath, type FileHandle } from 'node:fs/promises'
import { isAbsolute, join, posix, relative, sep } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import type { PinnedFile } from '../../wire/question.ts'
import { isHidden, readHidePatterns, type HidePattern } from '../sessions/hide-patterns.ts'
import { isWithin } from '../sessions/real-path.ts'
import { PINNED } from '../sessions/sessions.ts'

const IN_CONTAINER = '/workspace'

/** A file that an argument names, as it was when it was looked at. */
export type HeldFile = PinnedFile & { readonly content: Buffer }

type FileContent = Omit<HeldFile, 'argument' | 'prefix' | 'at'>

export type WorkspaceView = {
  /** Of the host. */
  readonly workspace: string
  /** In the container, below `/workspace`. */
  readonly cwd: string
  /** `filesystem.hide` */
  readonly hide: readonly string[]
}

/**
 * The folder of the workspace that a command starts in, as it is called in the container.
 * @throws command_invalid when it is none, or its links lead out of the workspace
 */
export async function folderInWorkspace(cwd: string, workspace: string): Promise<string> {
  const refuse = (why: string): SallyportError =>
    new SallyportError('command_invalid', `the folder "${shown(cwd)}" ${why}`, { hint: `name a folder of ${IN_CONTAINER}` })
  if (cwd.includes('\0')) throw refuse('has a NUL in its name')
  const root = await realpath(workspace)
  const named = placeOf(cwd, IN_CONTAINER, root)
  if (named === undefined) throw refuse('is not in the workspace')
  const found = await realpath(named).catch((error: unknown) => {
    throw refuse(`cannot be looked at (${codeOf(error)})`)
  })
  if (!isWithin(root, found)) throw refuse('leads out of the workspace')
  if (!(await lstat(found)).isDirectory()) throw refuse('is no folder')
  return inContainer(root, found)
}

/**
 * I67: Every file of the workspace that an argument names: the argument itself, what stands behind `=`, `@` or a short option, read once.
 * @throws command_invalid for a link that leads out of the workspace, a file that is hidden, and for too much of them
 */
export async function filesOf(argv: readonly string[], view: WorkspaceView): Promise<HeldFile[]> {
  const root = await realpath(view.workspace)
  const hidden = readHidePatterns(view.hide)
  const held: HeldFile[] = []
  let bytesLeft: number = LIMITS.siblingPinnedBytesMax
  for (const [argument, token] of argv.entries()) {
    // A bare name of a program is looked for in the image alone.
    if (argument === 0 && !token.includes('/')) continue
    for (const prefix of argument === 0 ? [''] : prefixesOf(token)) {
      const found = await readOne(token.slice(prefix.length), { root, cwd: view.cwd, hidden, bytesLeft, argument })
      if (found === undefined) continue
      if (held.length >= LIMITS.siblingPinnedFilesMax) throw tooMuch(argument, `there are more than ${LIMITS.siblingPinnedFilesMax}`)
      bytesLeft -= found.content.length
      // Nothing above it is the agent's. A mount over a file of the workspace would end when the agent removes the file.
      const at = posix.join(PINNED, String(held.length), posix.basename(found.path))
      held.push({ argument, prefix, ...found, at })
      break
    }
  }
  return held
}

/** The arguments as they are run: each copy by its own name. */
export function withCopies(argv: readonly string[], files: readonly PinnedFile[]): string[] {
  return argv.map((token, at) => {
    const file = files.find(({ argument }) => argument === at)
    return file === undefined ? token : `${file.prefix}${file.at}`
  })
}

const TOO_LONG = `they have more than ${LIMITS.siblingPinnedBytesMax} bytes together`

type Looking = {
  readonly root: string
  readonly cwd: string
  readonly hidden: readonly HidePattern[]
  readonly bytesLeft: number
  readonly argument: number
}

async function readOne(name: string, { root, cwd, hidden, bytesLeft, argument }: Looking): Promise<FileContent | undefined> {
  if (name === '' || name.includes('\0')) return undefined
  const named = placeOf(name, cwd, root)
  if (named === undefined) return undefined
  const refuse = (why: string): SallyportError => new SallyportError('command_invalid', `argument ${argument}, "${shown(name)}", ${why}`)
  const found = await realpath(named).catch(() => undefined)
  if (found === undefined || !isWithin(root, found)) {
    // It leads elsewhere in the container than here, and the agent may change where.
    if (await hasLink(root, named)) throw refuse('is reached by a link that leads out of the workspace')
    return undefined
  }
  const handle = await open(found, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch((error: unknown) => {
    // A socket, a device without a driver, or gone meanwhile: nothing that could be read there either.
    if (['ENXIO', 'ENODEV', 'ENOENT', 'EISDIR'].includes(codeOf(error))) return undefined
    throw refuse(`cannot be read (${codeOf(error)})`)
  })
  if (handle === undefined) return undefined
  try {
    return await readFrom(handle, { root, found, hidden, bytesLeft, refuse, full: () => tooMuch(argument, TOO_LONG) })
  } finally {
    await handle.close()
  }
}

type Reading = Pick<Looking, 'root' | 'hidden' | 'bytesLeft'> & {
  readonly found: string
  readonly refuse: (why: string) => SallyportError
  readonly full: () => SallyportError
}

/** Undefined for what is no regular file. */
async function readFrom(handle: FileHandle, { root, found, hidden, bytesLeft, refuse, full }: Reading): Promise<FileContent | undefined> {
  const { mode, size, isFile } = await factsOf(handle)
  if (!isFile) return undefined
  if ((await pathOf(handle, found)) !== found) throw refuse('was moved while it was looked at')
  if (isOutOfSight(hidden, relative(root, found).split(sep))) throw refuse('is hidden from this session by the policy')
  const content = size > bytesLeft ? undefined : await readWhole(handle, bytesLeft)
  if (content === undefined) throw full()
  return {
    path: inContainer(root, found),
    sizeBytes: content.length,
    sha256: createHash('sha256').update(content).digest('hex'),
    isExecutable: (mode & 0o111) !== 0,
    content,
  }
}

/** What may stand before the name of a file: nothing, `--name=`, `@`, both, or a letter of a short option. */
function prefixesOf(token: string): string[] {
  const named = /^[^=]*=/.exec(token)?.[0]
  const found = [
    '',
    ...(named === undefined ? [] : [named, `${named}@`]),
    ...(token.startsWith('@') ? ['@'] : []),
    ...(/^-[A-Za-z][^-=]/.test(token) ? [token.slice(0, 2), `${token.slice(0, 2)}@`] : []),
  ]
  return [...new Set(found)].filter((prefix) => token.startsWith(prefix))
}

/** The path on the host of one in the container; undefined outside of the workspace. */
function placeOf(name: string, cwd: string, root: string): string | undefined {
  const whole = isAbsolute(name) ? posix.normalize(name) : posix.join(cwd, name)
  if (whole === IN_CONTAINER || whole === `${IN_CONTAINER}/`) return root
  return whole.startsWith(`${IN_CONTAINER}/`) ? join(root, whole.slice(IN_CONTAINER.length)) : undefined
}

function inContainer(root: string, path: string): string {
  const below = relative(root, path).split(sep).join('/')
  return below === '' ? IN_CONTAINER : `${IN_CONTAINER}/${below}`
}

async function hasLink(root: string, path: string): Promise<boolean> {
  let at = root
  for (const name of relative(root, path).split(sep)) {
    at = join(at, name)
    const found = await lstat(at).catch(() => undefined)
    if (found === undefined) return false
    if (found.isSymbolicLink()) return true
  }
  return false
}

function isOutOfSight(patterns: readonly HidePattern[], names: readonly string[]): boolean {
  const isCaseBlind = process.platform === 'darwin'
  return names.some((_, at) => isHidden(patterns, names.slice(0, at + 1), at === names.length - 1 ? 'file' : 'folder', isCaseBlind))
}

async function factsOf(handle: FileHandle): Promise<{ mode: number; size: number; isFile: boolean }> {
  const found = await handle.stat()
  return { mode: found.mode, size: found.size, isFile: found.isFile() }
}

/** A folder above it may have become a link since its path was resolved. */
async function pathOf(handle: FileHandle, otherwise: string): Promise<string> {
  return process.platform === 'linux' ? readlink(`/proc/self/fd/${handle.fd}`) : realpath(otherwise)
}

/** Undefined when it has more, as one that grows. */
async function readWhole(handle: FileHandle, bytesMax: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for (;;) {
    const chunk = Buffer.alloc(64 * 1024)
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, bytes)
    if (bytesRead === 0) return Buffer.concat(chunks)
    bytes += bytesRead
    if (bytes > bytesMax) return undefined
    chunks.push(chunk.subarray(0, bytesRead))
  }
}

function tooMuch(argument: number, why: string): SallyportError {
  return new SallyportError('command_invalid', `argument ${argument} names one file of the workspace too many: ${why}`, {
    hint: 'name a folder instead, or fewer files',
  })
}
