import { mkdir, realpath, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import {
  perform,
  prepare,
  type CommandResult,
  type Place,
  type Prepared,
  type PerformOptions,
} from '../../src/controller/executor/executor.ts'
import type { Secret } from '../../src/kernel/secret.ts'
import { system } from '../../src/kernel/system.ts'
import { temporaryFolder } from './audit.ts'

export type Wish = {
  readonly argv: readonly string[]
  readonly cwd?: string
  readonly environment?: Record<string, string>
  readonly sandbox?: boolean
}

export type Ran = CommandResult & { readonly live: { readonly stdout: Buffer; readonly stderr: Buffer } }

/** A workspace, a home of the daemon's, and a folder of a stranger's, all real. */
export async function commandSetting(environment: Record<string, string | undefined> = {}) {
  const folder = await temporaryFolder()
  const root = await realpath(folder.path)
  const [workspace, home, elsewhere] = ['workspace', 'home', 'elsewhere'].map((name) => join(root, name)) as [string, string, string]
  for (const path of [workspace, home, elsewhere]) await mkdir(path, { mode: 0o700 })
  const place: Place = {
    workspace,
    inContainer: '/workspace',
    home,
    environment: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      USER: 'operator',
      LOGNAME: 'operator',
      LANG: 'C.UTF-8',
      TMPDIR: root,
      ...environment,
    },
  }
  const ready = ({ argv, cwd, environment: added = {}, sandbox = false }: Wish, at: Place = place): Promise<Prepared> =>
    prepare({ argv, ...(cwd === undefined ? {} : { cwd }) }, at, { environment: added, sandbox }, system)
  return {
    root,
    workspace,
    home,
    elsewhere,
    place,
    prepare: ready,
    /** Writes a file, executable unless said, and gives its path. */
    async write(path: string, text: string | Buffer, mode = 0o755): Promise<string> {
      const whole = join(root, path)
      await mkdir(dirname(whole), { recursive: true })
      await writeFile(whole, text, { mode })
      return whole
    },
    async run(wish: Wish, options: Partial<PerformOptions> = {}): Promise<Ran> {
      await using prepared = await ready(wish)
      return performed(prepared, options)
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

/** What a prepared command did, with what a reader saw as it came. */
export async function performed(prepared: Prepared, options: Partial<PerformOptions> & { secrets?: readonly Secret[] } = {}): Promise<Ran> {
  const live: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] }
  const result = await perform(prepared, {
    secrets: [],
    onOutput: async (stream, chunk) => void live[stream].push(chunk),
    signal: new AbortController().signal,
    ...options,
  })
  return { ...result, live: { stdout: Buffer.concat(live.stdout), stderr: Buffer.concat(live.stderr) } }
}
