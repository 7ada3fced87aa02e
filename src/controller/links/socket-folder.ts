import { lstatSync, type Stats } from 'node:fs'
import { chmod, chown, lstat, mkdir, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { createAllowance } from '../../channel/channel.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'

/** What the one sidecar mounts that may: its socket, its lease, and the session that both are of. */
export type SocketFolder = AsyncDisposable & {
  /** Why it is no longer the folder and the socket that were made; `undefined` when they are. */
  problem(): SallyportError | undefined
}

type FolderParts = {
  readonly owner?: { readonly uid: number; readonly gid: number }
  readonly system: Pick<System, 'elapsed'>
  /** A connection, of whomever. False when it is one too many. */
  onConnection(socket: Socket): boolean
}

/**
 * Makes the folder (0700), the session's id and its lease (0600), and the listening socket (0600).
 * @throws control_socket_invalid when the path is too long, or the folder is there and not ours
 */
export async function openSocketFolder(
  dir: string,
  { id, lease }: { readonly id: string; readonly lease: string },
  parts: FolderParts,
): Promise<SocketFolder> {
  const path = join(dir, 'control.sock')
  const bytes = Buffer.byteLength(path)
  if (bytes > LIMITS.controlPathBytesMax) {
    throw invalid(`${path} has ${bytes} bytes, a socket's path ${LIMITS.controlPathBytesMax} at most`, {
      hint: 'set SALLYPORT_HOME to a shorter path',
    })
  }
  const server = createServer(taker(parts))
  try {
    await makeFolder(dir, parts)
    // The lease last: where one is, all of it is.
    await writeWhole(dir, 'session', id, parts)
    await writeWhole(dir, 'lease', lease, parts)
    // One of a daemon that was killed.
    await rm(path, { force: true })
    await listen(server, path)
    await chmod(path, 0o600)
    await own(path, parts)
  } catch (cause) {
    server.close()
    throw cause instanceof SallyportError ? cause : invalid(`${dir} cannot be used (${codeOf(cause)})`, { cause })
  }
  const [folder, socket] = [lstatSync(dir), lstatSync(path)]
  return {
    problem() {
      try {
        if (isSame(lstatSync(dir), folder) && isSame(lstatSync(path), socket)) return undefined
        return invalid(`${dir} was replaced by another`)
      } catch (cause) {
        return invalid(`${dir} is not there any more (${codeOf(cause)})`, { cause })
      }
    },
    async [Symbol.asyncDispose]() {
      // Takes the socket away, and leaves the folder: the container has that very one mounted, and this daemon may come back.
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Who floods with connections has them closed, and costs nobody else more than that. */
function taker(parts: FolderParts): (socket: Socket) => void {
  const allowance = createAllowance(LIMITS.controlConnectionsPerSecondMax, LIMITS.controlConnectionsPerSecondMax, parts.system)
  return (socket) => {
    socket.on('error', () => socket.destroy())
    if (allowance.take(1) > 0 || !parts.onConnection(socket)) socket.destroy()
  }
}

async function makeFolder(dir: string, parts: FolderParts): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const stats = await lstat(dir)
  const uids = [process.geteuid?.(), parts.owner?.uid]
  if (!stats.isDirectory()) throw invalid(`${dir} is not a folder`)
  if (!uids.includes(stats.uid)) throw invalid(`${dir} belongs to user ${stats.uid}`)
  await chmod(dir, 0o700)
  await own(dir, parts)
}

/** Whole or not at all: a sidecar that starts meanwhile reads no half of it. */
async function writeWhole(dir: string, name: string, text: string, parts: FolderParts): Promise<void> {
  const aside = join(dir, `${name}.new`)
  await unlink(aside).catch(() => undefined)
  await writeFile(aside, text, { mode: 0o600, flag: 'wx' })
  await own(aside, parts)
  await rename(aside, join(dir, name))
}

async function own(path: string, { owner }: FolderParts): Promise<void> {
  if (owner && process.geteuid?.() === 0) await chown(path, owner.uid, owner.gid)
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ path, backlog: LIMITS.controlStrangersMax }, () => {
      server.off('error', reject)
      server.on('error', () => undefined)
      resolve()
    })
  })
}

function isSame(a: Stats, b: Stats): boolean {
  return a.dev === b.dev && a.ino === b.ino && a.mode === b.mode && a.uid === b.uid
}

function invalid(message: string, options: { hint?: string; cause?: unknown } = {}): SallyportError {
  return new SallyportError('control_socket_invalid', message, options)
}
