import { constants } from 'node:fs'
import { chmod, mkdir, open, opendir, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import { visible } from '../../kernel/visible.ts'
import { redactorOf } from '../executor/executor.ts'
import { removeFolder } from '../remove-folder.ts'
import { outputFolder, usesFolder } from '../sessions/session-names.ts'
import { isCleanFile, type CleanFileParts } from './clean-file.ts'

/** A file that a command left, as the agent is told of it. `withheld`: it has a value in it, or could not be looked into. */
export type OutputFile = { readonly name: string; readonly bytes: number; readonly withheld?: true }

export type OutputFolder = AsyncDisposable & {
  /** What the command writes to. */
  readonly folder: string
  /** Once it has ended: what nothing was found in is put where the agent reads it, and everything else is gone. */
  release(searched: readonly Secret[], signal: AbortSignal): Promise<OutputFile[]>
}

/**
 * A folder for one command, of nobody's reach, and the agent's own that is read-only for it. A file is copied as it is looked through: what
 * the agent gets are the bytes that were looked at.
 * @param home `$SALLYPORT_HOME`
 */
export async function openOutputFolder(home: string, session: string, request: string): Promise<OutputFolder> {
  const own = join(usesFolder(home, session), request)
  const [folder, clean] = [join(own, 'output'), join(own, 'clean')]
  removeFolder(own)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  return {
    folder,
    async release(searched, signal) {
      const parts = { redactor: redactorOf(searched), budget: { bytes: LIMITS.useOutputLookedBytesMax }, signal }
      await mkdir(clean, { mode: 0o755 })
      await chmod(clean, 0o755)
      const files: OutputFile[] = []
      for (const { name, kind } of await entriesOf(folder)) {
        signal.throwIfAborted()
        files.push(await released(join(folder, name), name, kind, clean, parts))
      }
      if (files.some(({ withheld }) => withheld === undefined)) await show(clean, outputFolder(home, session), request)
      return files
    },
    [Symbol.asyncDispose]: async () => removeFolder(own),
  }
}

/** Stands for a name that is not told. */
const UNNAMED = '(a name that is not shown)'
/** Behind the last entry that is looked at. */
const MORE = '(more files than are looked at)'
/** One that programs take for nothing else than a name. */
const PLAIN_NAME = /^[^\p{C}\p{Zl}\p{Zp}\\\ufffd]+$/u
/** In the place of bytes that are no text: by such a name nothing is found, or another. */
const NO_TEXT = '\ufffd'

/** What cannot be looked at is not shown: a name that is too long, a file without the right to read it. */
const CANNOT_BE_READ: ReadonlySet<string> = new Set(['ENAMETOOLONG', 'EACCES', 'ELOOP', 'ENOENT', 'ENXIO', 'ENODEV'])

type Entry = { readonly name: string; readonly kind: 'file' | 'other' | 'more' }

/**
 * Below a folder, files and whatever else is none: a folder that cannot be looked into is one of those. Links are not followed. Folders
 * count too: there may be nothing but them.
 */
async function entriesOf(root: string): Promise<Entry[]> {
  const found: Entry[] = []
  let left: number = LIMITS.useOutputEntriesMax
  const walk = async (below: string, depth: number): Promise<void> => {
    const folder = await opendir(join(root, below)).catch((error: unknown) => {
      if (below === '' || !CANNOT_BE_READ.has(codeOf(error))) throw error
      found.push({ name: below, kind: 'other' })
    })
    for await (const entry of folder ?? []) {
      if (left-- <= 0) return
      const name = below === '' ? entry.name : `${below}/${entry.name}`
      const isText = !entry.name.includes(NO_TEXT)
      if (isText && entry.isDirectory() && depth < LIMITS.useOutputDepthMax) await walk(name, depth + 1)
      else found.push({ name, kind: isText && entry.isFile() ? 'file' : 'other' })
    }
  }
  await walk('', 1)
  const sorted = found.toSorted((one, another) => (one.name < another.name ? -1 : 1))
  return left < 0 ? [...sorted, { name: MORE, kind: 'more' }] : sorted
}

async function released(path: string, name: string, kind: Entry['kind'], clean: string, parts: CleanFileParts): Promise<OutputFile> {
  const { redactor, signal } = parts
  if (kind === 'more') return { name, bytes: 0, withheld: true }
  // The bytes as the name is told, and each way of writing them: what is found in neither is in no name.
  const isTold =
    PLAIN_NAME.test(name) &&
    visible(name) === name &&
    redactor.isClean(Buffer.from(name)) &&
    redactor.isClean(Buffer.from(name.replaceAll('/', '')))
  const told = isTold ? name : UNNAMED
  if (kind === 'other') return { name: told, bytes: 0, withheld: true }
  let handle: FileHandle | undefined
  try {
    handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const found = await handle.stat()
    const bytes = found.size
    if (!isTold || !found.isFile() || bytes > LIMITS.useOutputBytesMax) return { name: told, bytes, withheld: true }
    const to = join(clean, name)
    await mkdir(dirname(to), { recursive: true, mode: 0o755 })
    if (await isCleanFile(handle, to, parts)) return { name, bytes }
    await rm(to, { force: true })
    return { name, bytes, withheld: true }
  } catch (error) {
    signal.throwIfAborted()
    if (CANNOT_BE_READ.has(codeOf(error))) return { name: told, bytes: 0, withheld: true }
    throw error
  } finally {
    await handle?.close()
  }
}

/** In one step, and the oldest make room. */
async function show(clean: string, output: string, request: string): Promise<void> {
  await mkdir(output, { recursive: true, mode: 0o755 })
  await withoutEmpty(clean)
  const names = (await readdir(output)).filter((name) => /^[a-z0-9]{16,64}$/.test(name))
  const dated = await Promise.all(names.map(async (name) => ({ name, at: (await stat(join(output, name))).mtimeMs })))
  const surplus = dated.toSorted((one, another) => one.at - another.at).slice(0, Math.max(0, names.length + 1 - LIMITS.useOutputsKeptMax))
  for (const { name } of surplus) await rm(join(output, name), { recursive: true, force: true })
  await rename(clean, join(output, request))
}

/** A folder of which nothing was shown is not shown. */
async function withoutEmpty(folder: string): Promise<boolean> {
  let isEmpty = true
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && (await withoutEmpty(path))) await rm(path, { recursive: true })
    else {
      if (entry.isDirectory()) await chmod(path, 0o755)
      isEmpty = false
    }
  }
  return isEmpty
}
