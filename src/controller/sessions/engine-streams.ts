import type { IncomingMessage } from 'node:http'
import { posix } from 'node:path'
import type { Duplex, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { readArchiveEntry } from './archive.ts'
import type { ContainerInspection, Engine, EngineStream, PathFacts, TerminalSize } from './engine.ts'
import { orNothing, pairs, type Caller } from './engine-call.ts'
import { createFrameReader, splitFrames } from './frames.ts'
import { ProcessStream } from './process-stream.ts'

/** An exec that has ended says so in its streams a moment before it has an exit code. */
const EXIT_LOOKS_MAX = 100
const EXIT_LOOK_MS = 20

/** The verbs that carry bytes. */
export function streamVerbs(call: Caller): Pick<Engine, 'attach' | 'exec' | 'logs'> {
  return {
    async attach(id, { tty, replay }) {
      const query = { stream: replay !== 'only', stdin: replay !== 'only', stdout: true, stderr: true, logs: replay !== false }
      const socket = (await call({ method: 'POST', path: `/containers/${id}/attach`, query, stream: 'both' })) as Duplex
      const ended = new Promise<void>((resolve) => socket.once('close', resolve))
      return engineStream(socket, tty, {
        resize: (size) => resize(call, `/containers/${id}`, size),
        // Asked once its streams have ended: before its start the engine would take it for one that runs no more.
        exitCode: async () => {
          await ended
          return ((await call({ method: 'POST', path: `/containers/${id}/wait`, isLong: true })) as { StatusCode: number }).StatusCode
        },
      })
    },
    async exec(id, { argv, user, folder, environment, tty, size }) {
      const body = {
        AttachStdin: true,
        AttachStdout: true,
        AttachStderr: true,
        Tty: tty,
        Cmd: argv,
        User: user,
        WorkingDir: folder,
        Privileged: false,
        Env: pairs(environment),
        // Engines before 23 don't know it, and are told below.
        ...(tty && size !== undefined && { ConsoleSize: [size.rows, size.columns] }),
      }
      const { Id } = (await call({ method: 'POST', path: `/containers/${id}/exec`, body })) as { Id: string }
      const socket = (await call({
        method: 'POST',
        path: `/exec/${Id}/start`,
        body: { Detach: false, Tty: tty },
        stream: 'both',
      })) as Duplex
      const ended = new Promise<void>((resolve) => socket.once('close', resolve))
      if (tty && size !== undefined) await resize(call, `/exec/${Id}`, size)
      return engineStream(socket, tty, {
        resize: (wanted) => resize(call, `/exec/${Id}`, wanted),
        exitCode: () => ended.then(() => execExitCode(call, Id)),
      })
    },
    logs: (id, options, signal) => logs(call, id, options, signal),
  }
}

function engineStream(socket: Duplex, tty: boolean, verbs: Pick<EngineStream, 'resize' | 'exitCode'>): EngineStream {
  // A terminal that is gone is no fault of the program's, and nobody else listens yet.
  socket.on('error', () => {})
  if (tty) return { stream: socket, stderr: undefined, ...verbs }
  const { stdout, stderr } = splitFrames(socket)
  stderr.on('error', () => {})
  return { stream: new ProcessStream(socket, stdout), stderr, ...verbs }
}

async function execExitCode(call: Caller, exec: string): Promise<number> {
  for (let look = 0; look < EXIT_LOOKS_MAX; look += 1) {
    const { Running, ExitCode } = (await call({ path: `/exec/${exec}/json` })) as { Running: boolean; ExitCode: number | null }
    if (!Running && ExitCode !== null) return ExitCode
    await delay(EXIT_LOOK_MS)
  }
  throw new SallyportError('engine_refused', 'the engine does not say how a program ended')
}

async function* logs(
  call: Caller,
  id: string,
  { follow, tail }: { follow: boolean; tail?: number },
  signal: AbortSignal,
): AsyncIterable<Buffer> {
  const { Config } = (await call({ path: `/containers/${id}/json` })) as ContainerInspection
  const query = { follow, stdout: true, stderr: true, tail: tail ?? 'all' }
  const stream = (await call({ path: `/containers/${id}/logs`, query, stream: 'read', signal })) as Readable
  const pieces: Buffer[] = []
  const read = createFrameReader((_stream, piece) => pieces.push(piece))
  for await (const chunk of stream) {
    if (Config.Tty) {
      yield chunk as Buffer
      continue
    }
    read(chunk as Buffer)
    yield* pieces.splice(0)
  }
}

/** A file of a container, by the archive that the engine makes of it: nothing of the image is run. */
export async function readContainerFile(call: Caller, id: string, path: string): Promise<Buffer | undefined> {
  let at = path
  for (let links = 0; links <= LIMITS.imageLinksMax; links += 1) {
    const stream = (await orNothing(call({ path: `/containers/${id}/archive`, query: { path: at }, stream: 'read' }))) as
      | Readable
      | undefined
    if (stream === undefined) return undefined
    const entry = await readArchiveEntry(stream, LIMITS.imageFileBytesMax)
    stream.destroy()
    if (entry?.kind !== 'link') return entry?.content
    at = posix.resolve(posix.dirname(at), entry.target)
  }
  return undefined
}

/** By what the engine says of the archive that it would make. */
export async function statContainerPath(call: Caller, id: string, path: string): Promise<PathFacts | undefined> {
  const answer = (await orNothing(call({ method: 'HEAD', path: `/containers/${id}/archive`, query: { path }, stream: 'read' }))) as
    | IncomingMessage
    | undefined
  if (answer === undefined) return undefined
  const header = String(answer.headers['x-docker-container-path-stat'] ?? '')
  answer.destroy()
  const { mode, linkTarget } = JSON.parse(Buffer.from(header, 'base64').toString('utf8')) as { mode: number; linkTarget: string }
  // As Go's fs.FileMode has it.
  const special = mode & 0x8f_28_00_00
  const kind = mode >= 2 ** 31 ? 'folder' : (mode & (2 ** 27)) !== 0 ? 'link' : special === 0 ? 'file' : 'other'
  return { kind, isExecutable: (mode & 0o111) !== 0, linkTarget }
}

export async function resize(call: Caller, of: string, { columns, rows }: TerminalSize): Promise<void> {
  // 409 and 500: it has ended meanwhile.
  await orNothing(call({ method: 'POST', path: `${of}/resize`, query: { w: columns, h: rows } }), 409, 500)
}
