import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'

/** Where a workspace brings a policy of its own. Whoever works in the workspace can write it: the agent. */
export const WORKSPACE_POLICY = join('.sallyport', 'policy.yaml')

/** What stands there: the text that is judged and used, read once, or why it cannot be. */
export type WorkspaceFile = { readonly file: string } & ({ readonly text: string } | { readonly problem: string })

/** The workspace's folder by its real path. @throws workspace_refused */
export function realWorkspace(workspace: string): string {
  try {
    const real = realpathSync(workspace)
    if (statSync(real).isDirectory()) return real
  } catch (cause) {
    throw new SallyportError('workspace_refused', `the workspace "${workspace}" cannot be read (${codeOf(cause)})`, { cause })
  }
  throw new SallyportError('workspace_refused', `the workspace "${workspace}" is not a folder`)
}

/**
 * Reads the policy of a workspace, which somebody hostile may have put there and may change meanwhile: no link is followed, nothing
 * but a file is opened, and its bytes are read once. `undefined` when there is none.
 */
export function readWorkspaceFile(workspace: string): WorkspaceFile | undefined {
  const file = join(workspace, WORKSPACE_POLICY)
  const refuse = (problem: string): WorkspaceFile => ({ file, problem })
  let descriptor: number | undefined
  let folder: number | undefined
  try {
    folder = openSync(join(workspace, '.sallyport'), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_DIRECTORY)
    // By the folder that is open: its name may lead elsewhere in the next moment, and back again in the one after.
    const place = process.platform === 'linux' ? `/proc/self/fd/${folder}/policy.yaml` : file
    // Non-blocking: a FIFO in its place must not hold the start up.
    descriptor = openSync(place, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    const stat = fstatSync(descriptor)
    if (!stat.isFile()) return refuse('it is not a regular file')
    if (stat.size > LIMITS.workspacePolicyBytesMax) return refuse(`it is larger than ${LIMITS.workspacePolicyBytesMax} bytes`)
    // Where files cannot be opened by a folder: what was opened must be what stands there by no link.
    if (place === file && !standsAt(file, stat)) return refuse('it is not where it seems to be: a link leads there')
    const bytes = readBounded(descriptor)
    if (bytes === undefined) return refuse(`it is larger than ${LIMITS.workspacePolicyBytesMax} bytes`)
    return { file, text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) }
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return undefined
    if (folder === undefined && (code === 'ENOTDIR' || code === 'ELOOP'))
      return refuse(`"${join(workspace, '.sallyport')}" is not a folder`)
    if (code === 'ELOOP') return refuse('it is a symbolic link')
    return refuse(code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8' : `it cannot be read (${code})`)
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
    if (folder !== undefined) closeSync(folder)
  }
}

function standsAt(file: string, { ino, dev }: { readonly ino: number; readonly dev: number }): boolean {
  const found = lstatSync(realpathSync(file))
  return realpathSync(file) === file && found.ino === ino && found.dev === dev
}

function readBounded(descriptor: number): Buffer | undefined {
  const buffer = Buffer.alloc(LIMITS.workspacePolicyBytesMax + 1)
  let length = 0
  while (length < buffer.length) {
    const count = readSync(descriptor, buffer, length, buffer.length - length, null)
    if (count === 0) return buffer.subarray(0, length)
    length += count
  }
  return undefined
}
