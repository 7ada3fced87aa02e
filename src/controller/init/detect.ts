import { closeSync, constants, fstatSync, lstatSync, opendirSync, openSync, readSync } from 'node:fs'
import { isAbsolute, join, resolve } from 'node:path'
import { isAddress, isHostname, parseHostname, type Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { HARNESS_FILES, KINDS, type Kind } from './kinds.ts'

/** What a look at a workspace tells. The workspace is the agent's: nothing of it is run, and no name in it is taken for more than a name. */
export type Detected = {
  readonly kinds: readonly { readonly kind: Kind; readonly evidence: readonly string[] }[]
  /** Of the remote "origin", else of the first one that has a host. */
  readonly gitHost: Hostname | undefined
  readonly harness: { readonly name: string; readonly evidence: string } | undefined
  /** The look ended at a limit: there may be more. */
  readonly isCut: boolean
}

/** Other people's code, and what is made from it. */
const SKIPPED = new Set(['node_modules', 'vendor', 'target', 'dist', 'build', 'out', '.git', '.venv', 'venv', '__pycache__', '.tox'])
const EVIDENCE_MAX = 3
const CONFIG_BYTES_MAX = 64 * 1024

/** I39: Looks at the names in the folder and in the folders right below it, and at the remotes in `.git/config`. Never fails. */
export function detect(workspace: string): Detected {
  const top = namesIn(workspace)
  const below = top.folders.filter((name) => !SKIPPED.has(name)).slice(0, LIMITS.initFoldersMax)
  const deeper = below.map((name) => ({ name, ...namesIn(join(workspace, name)) }))
  const paths = [...top.files, ...deeper.flatMap(({ name, files }) => files.map((file) => `${name}/${file}`))]
  return {
    kinds: KINDS.flatMap((kind) => {
      const evidence = paths.filter((path) => isOf(kind, path.slice(path.lastIndexOf('/') + 1)))
      return evidence.length === 0 ? [] : [{ kind, evidence: evidence.slice(0, EVIDENCE_MAX) }]
    }),
    gitHost: gitHostOf(workspace),
    harness: harnessIn(new Set([...top.files, ...top.folders])),
    isCut: top.isCut || below.length < top.folders.filter((name) => !SKIPPED.has(name)).length || deeper.some(({ isCut }) => isCut),
  }
}

/** The host of a remote as git writes it: a URL, or `user@host:path`. No path of this machine, and never the userinfo. */
export function remoteHost(url: string): Hostname | undefined {
  const scp = /^(?:[^@/\s:]+@)?([^/\s:@]+):(?!\/\/)/.exec(url)?.[1]
  const host = /^(?:https?|ssh|git):\/\//.test(url) ? hostOfUrl(url) : scp
  if (host === undefined) return undefined
  const parsed = parseHostname(host)
  // One letter is a drive of Windows; a name without a dot is one of this machine's configuration.
  return isHostname(parsed) && !isAddress(parsed) && parsed.includes('.') ? parsed : undefined
}

/** Names and URLs of remotes in the text of a git config. Includes, conditions and rewrites of URLs are not followed. */
export function remotesIn(text: string): { name: string; url: string }[] {
  const remotes: { name: string; url: string }[] = []
  let name: string | undefined
  for (const line of text.split(/\r?\n/)) {
    if (/^\s*\[/.test(line)) name = /^\s*\[remote "([^"\\]*)"\]\s*$/.exec(line)?.[1]
    const url = /^\s*url\s*=\s*(\S+)\s*$/.exec(line)?.[1]
    if (name !== undefined && url !== undefined) remotes.push({ name, url })
  }
  return remotes
}

function hostOfUrl(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined
}

function gitHostOf(workspace: string): Hostname | undefined {
  const text = configText(workspace)
  if (text === undefined) return undefined
  const remotes = remotesIn(text).flatMap(({ name, url }) => {
    const host = remoteHost(url)
    return host === undefined ? [] : [{ name, host }]
  })
  return (remotes.find(({ name }) => name === 'origin') ?? remotes[0])?.host
}

/** A linked worktree has a file `.git` that names its folder, and in that one a file that names the repository. */
function configText(workspace: string): string | undefined {
  const git = join(workspace, '.git')
  const own = readText(join(git, 'config'))
  if (own !== undefined) return own
  const folder = /^gitdir: (.+?)\s*$/m.exec(readText(git) ?? '')?.[1]
  if (folder === undefined) return undefined
  const linked = resolve(workspace, folder)
  const common = readText(join(linked, 'commondir'))?.trim()
  if (common === undefined || common === '') return undefined
  return readText(join(isAbsolute(common) ? common : resolve(linked, common), 'config'))
}

/** A regular file that is no link, up to its first bytes; a FIFO would be waited for. */
function readText(file: string): string | undefined {
  let fd: number | undefined
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    if (!fstatSync(fd).isFile()) return undefined
    const bytes = Buffer.alloc(CONFIG_BYTES_MAX)
    return bytes.toString('utf8', 0, readSync(fd, bytes, 0, CONFIG_BYTES_MAX, 0))
  } catch {
    return undefined
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

type Names = { readonly files: readonly string[]; readonly folders: readonly string[]; readonly isCut: boolean }

/** Links are neither. The order of a folder is the file system's: sorted, so that the same workspace gives the same policy. */
function namesIn(folder: string): Names {
  const [files, folders]: [string[], string[]] = [[], []]
  try {
    if (!lstatSync(folder).isDirectory()) return { files, folders, isCut: false }
    const entries = opendirSync(folder)
    try {
      for (let count = 0; ; count += 1) {
        const entry = entries.readSync()
        if (entry === null) break
        if (count === LIMITS.initEntriesMax) return { files: files.toSorted(), folders: folders.toSorted(), isCut: true }
        if (entry.isFile()) files.push(entry.name)
        else if (entry.isDirectory()) folders.push(entry.name)
      }
    } finally {
      entries.closeSync()
    }
  } catch {
    // A folder that cannot be read tells nothing.
  }
  return { files: files.toSorted(), folders: folders.toSorted(), isCut: false }
}

function isOf({ files }: Kind, name: string): boolean {
  return files.some((file) => (file.startsWith('*') ? name.length >= file.length && name.endsWith(file.slice(1)) : name === file))
}

function harnessIn(names: ReadonlySet<string>): Detected['harness'] {
  const found = HARNESS_FILES.find(({ name }) => names.has(name))
  return found === undefined ? undefined : { name: found.harness, evidence: found.name }
}
