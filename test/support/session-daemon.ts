import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Duplex, Readable } from 'node:stream'
import { createRedaction, openOutput, redactedChunks } from '../../src/controller/terminal/redacted.ts'
import { acceptStream, shownOn, type Served, type ServedStream } from '../../src/controller/terminal/serve-stream.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import type { Secret } from '../../src/kernel/secret.ts'
import { AttachRequest, ExecRequest, TTY_HEADER } from '../../src/wire/stream-frames.ts'
import { cleanEnvironment } from './command.ts'
import { openPty, type Pty } from './pty.ts'

export type SessionDaemon = AsyncDisposable & {
  readonly env: Record<string, string>
  readonly home: string
  /** What became of each stream. */
  readonly served: Promise<Served>[]
  /** Requests, as they were read. */
  readonly requests: unknown[]
  /** Sizes that a program was given. */
  readonly sizes: string[]
  secrets: readonly Secret[]
  /** Ends all sessions. */
  readonly end: AbortController
  /** Cuts all connections, as when the daemon is killed. */
  cut(): void
}

/**
 * A daemon's end of `attach`, `exec`, `logs` and `forward`, with programs of this machine instead of containers: the session's own
 * is `program`, on a pseudo terminal.
 */
export async function startSessionDaemon(
  program?: Pty,
  logs: () => AsyncIterable<Buffer> = () => Readable.from([]),
): Promise<SessionDaemon> {
  const home = await mkdtemp(join(tmpdir(), 'sallyport-home-'))
  const env = cleanEnvironment(home)
  await mkdir(env['SALLYPORT_HOME'] as string)
  const children: (() => Promise<void>)[] = []
  const sockets = new Set<Duplex>()
  const daemon = {
    env,
    home,
    served: [] as Promise<Served>[],
    requests: [] as unknown[],
    sizes: [] as string[],
    secrets: [] as readonly Secret[],
    end: new AbortController(),
  }
  const redaction = createRedaction(() => daemon.secrets)

  const onPty = (pty: Pty, isOwned: boolean): ServedStream => {
    const stream = duplex(pty.output, pty.input, isOwned)
    return {
      stream,
      resize: async ({ columns, rows }) => {
        daemon.sizes.push(`${columns}x${rows}`)
        pty.resize(columns, rows)
      },
      exitCode: async () => await pty.exited,
    }
  }

  async function attach(socket: Duplex, head: Buffer): Promise<Served> {
    const { request, client } = await acceptStream(socket, head, AttachRequest, daemon.end.signal)
    daemon.requests.push(request)
    const { stdout, stderr } = request.terminal
    const options = {
      redaction,
      stdout: shownOn(stdout, true),
      stderr: shownOn(stderr, true),
      size: request.size,
      isRedrawn: true,
      signal: daemon.end.signal,
    }
    return await client.serve(onPty(program as Pty, false), options)
  }

  async function exec(socket: Duplex, head: Buffer): Promise<Served> {
    const { request, client } = await acceptStream(socket, head, ExecRequest, daemon.end.signal)
    daemon.requests.push(request)
    const { argv, tty, terminal, size } = request
    const options = {
      redaction,
      stdout: shownOn(terminal.stdout, tty),
      stderr: shownOn(terminal.stderr, tty),
      size,
      isRedrawn: false,
      signal: daemon.end.signal,
    }
    if (tty) {
      const pty = openPty(argv, { ...size, cwd: home })
      children.push(async () => await pty[Symbol.asyncDispose]())
      return await client.serve(onPty(pty, true), options)
    }
    const child = spawn(argv[0] as string, argv.slice(1), { cwd: home, env, stdio: ['pipe', 'pipe', 'pipe'] })
    const closed = once(child, 'close') as Promise<[number | null]>
    children.push(async () => {
      child.kill('SIGKILL')
      await closed
    })
    const stream = duplex(Readable.from([]), child.stdin, true)
    return await client.serve(
      { stream, stdout: child.stdout, stderr: child.stderr, resize: async () => undefined, exitCode: async () => (await closed)[0] ?? 137 },
      options,
    )
  }

  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://daemon')
    if (url.pathname === '/v1/sessions/known') return void response.end('{}')
    if (url.pathname !== '/v1/sessions/known/logs')
      return void response.writeHead(404, { 'content-type': 'application/problem+json' }).end(problem())
    daemon.requests.push(Object.fromEntries(url.searchParams))
    const shown = url.searchParams.get('terminal') === '1' ? 'lines' : 'pipe'
    Readable.from(redactedChunks(logs(), openOutput(redaction, shown))).pipe(response)
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy())
    const protocol = request.headers.upgrade ?? ''
    const path = request.url ?? ''
    const switched = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n`
    if (path.startsWith('/v1/sessions/known/forward/')) {
      const remote = connect(Number(path.split('/').at(-1)), '127.0.0.1')
      remote.on('error', () => socket.end(`HTTP/1.1 502 x\r\nContent-Length: ${problem().length}\r\nConnection: close\r\n\r\n${problem()}`))
      remote.on('connect', () => {
        socket.write(`${switched}\r\n`)
        socket.pipe(remote).pipe(socket)
      })
    } else if (path === '/v1/sessions/known/attach') {
      socket.write(`${switched}${TTY_HEADER}: 1\r\n\r\n`)
      daemon.served.push(attach(socket, head))
    } else if (path === '/v1/sessions/known/exec') {
      socket.write(`${switched}\r\n`)
      daemon.served.push(exec(socket, head))
    } else socket.end(`HTTP/1.1 404 Not Found\r\nContent-Length: ${problem().length}\r\nConnection: close\r\n\r\n${problem()}`)
    daemon.served.at(-1)?.catch(() => undefined)
  })
  server.listen(join(env['SALLYPORT_HOME'] as string, 'daemon.sock'))
  await once(server, 'listening')
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  return Object.assign(daemon, {
    cut,
    async [Symbol.asyncDispose]() {
      cut()
      server.close()
      for (const close of children) await close()
      await rm(home, { recursive: true, force: true })
    },
  })
}

function problem(): string {
  const { code, message, hint } = new SallyportError('usage', 'there is no session "lost"', { hint: 'sallyport ls lists them' })
  return JSON.stringify({ type: 'x', code, detail: message, hint })
}

/** What a program prints and reads, as one stream, which can be destroyed without an end to the program unless it is owned. */
function duplex(output: Readable, input: NodeJS.WritableStream, isOwned: boolean): Duplex {
  const both = new Duplex({
    read() {
      output.resume()
    },
    write(chunk: Buffer, _encoding, done) {
      if (input.write(chunk)) done()
      else input.once('drain', done)
    },
    final(done) {
      if (isOwned) input.end()
      done()
    },
    destroy(error, done) {
      output.off('data', onData).off('end', onEnd)
      output.resume()
      done(error)
    },
  })
  const onData = (chunk: Buffer): void => {
    if (!both.push(chunk)) output.pause()
  }
  const onEnd = (): void => void both.push(null)
  output.on('data', onData).on('end', onEnd)
  if (output.readableEnded) onEnd()
  return both
}
