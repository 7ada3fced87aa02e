import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { PassThrough, type Readable, type Writable } from 'node:stream'
import { eventually } from './eventually.ts'

const PROGRAM = join(import.meta.dirname, 'in-terminal.py')

/** A program on a pseudo terminal of its own; what is given here is the other side of it. */
export type Pty = AsyncDisposable & {
  readonly input: Writable
  readonly output: Readable
  readonly pid: number
  /** All that it printed so far, as latin1. */
  printed(): string
  /** Waits until it printed the text, after what was waited for before. */
  sees(text: string): Promise<void>
  write(text: string | Buffer): void
  resize(columns: number, rows: number): void
  /** Whether the terminal edits lines and echoes. */
  discipline(): Promise<{ canonical: boolean; echo: boolean }>
  readonly exited: Promise<number>
}

export function openPty(
  argv: readonly string[],
  options: { columns?: number; rows?: number; env?: Readonly<Record<string, string>>; cwd?: string } = {},
): Pty {
  const { columns = 80, rows = 24, env = {}, cwd } = options
  const child = spawn('python3', [PROGRAM, String(columns), String(rows), ...argv], {
    stdio: ['pipe', 'pipe', 'inherit', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm-256color', LANG: 'C.UTF-8', ...env },
    ...(cwd !== undefined && { cwd }),
  })
  const [stdin, stdout] = [child.stdin as Writable, child.stdout as Readable]
  const output = new PassThrough()
  const [control, told] = [child.stdio[3] as Writable, createInterface(child.stdio[4] as Readable)]
  for (const stream of [stdin, control]) stream.on('error', () => undefined)
  let printed = ''
  let seen = 0
  stdout.on('data', (chunk: Buffer) => (printed += chunk.toString('latin1')))
  stdout.pipe(output)
  const exited = once(child, 'close').then(([code]) => Number(code))
  return {
    input: stdin,
    output,
    pid: child.pid ?? 0,
    exited,
    printed: () => printed,
    async sees(text) {
      const bytes = Buffer.from(text).toString('latin1')
      await eventually(() => {
        const at = printed.indexOf(bytes, seen)
        if (at < 0) throw new Error(`${JSON.stringify(text)} is not in ${JSON.stringify(printed.slice(seen))}`)
        seen = at + bytes.length
      })
    },
    write: (text) => void stdin.write(text),
    resize: (c, r) => void control.write(`${c} ${r}\n`),
    async discipline() {
      const line = once(told, 'line') as Promise<[string]>
      control.write('?\n')
      const [canonical, echo] = (await line)[0].split(' ')
      return { canonical: canonical === '1', echo: echo === '1' }
    },
    async [Symbol.asyncDispose]() {
      // Its terminal is closed with it: the program on it gets SIGHUP.
      child.kill('SIGKILL')
      await exited
    },
  }
}
