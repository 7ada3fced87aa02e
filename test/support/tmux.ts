import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** A terminal emulator without a window, whose state can be asked. */
export type Tmux = AsyncDisposable & {
  /** A directory that goes with it. */
  readonly dir: string
  command(...argv: string[]): Promise<string>
  /** Another program in its environment. */
  run(...argv: string[]): Promise<string>
  /** Starts a program in a pane of its own, and gives the pane's id. */
  open(argv: readonly string[]): Promise<string>
  /** What a pane shows, with colours; on top where the cursor is and in which modes the terminal. */
  screen(pane: string): Promise<string>
}

export async function startTmux(size: { columns: number; rows: number } = { columns: 80, rows: 24 }): Promise<Tmux> {
  const dir = await mkdtemp(join(tmpdir(), 'sallyport-tmux-'))
  const env = { PATH: process.env['PATH'] ?? '', HOME: dir, LANG: 'C.UTF-8', TERM: 'xterm-256color', SHELL: '/bin/sh' }
  const run = async (file: string, ...argv: string[]): Promise<string> => (await execute(file, argv, { env, cwd: dir })).stdout
  const command = async (...argv: string[]): Promise<string> => await run('tmux', '-S', join(dir, 'socket'), '-f', '/dev/null', ...argv)
  await command('new-session', '-d', '-x', String(size.columns), '-y', String(size.rows), 'cat')
  for (const [option, value] of [
    ['remain-on-exit', 'on'],
    ['allow-rename', 'on'],
    ['allow-passthrough', 'on'],
    ['set-clipboard', 'on'],
    ['default-terminal', 'tmux-256color'],
  ] as const) {
    await command('set-option', '-g', option, value)
  }
  return {
    dir,
    command,
    run,
    async open(argv) {
      return (await command('new-window', '-d', '-P', '-F', '#{pane_id}', quoted(argv))).trim()
    },
    async screen(pane) {
      const state = await command(
        'display-message',
        '-p',
        '-t',
        pane,
        '#{cursor_x},#{cursor_y} shown=#{cursor_flag} alternate=#{alternate_on} insert=#{insert_flag} keypad=#{keypad_flag}/#{keypad_cursor_flag} mouse=#{mouse_any_flag}#{mouse_button_flag}#{mouse_sgr_flag} origin=#{origin_flag} wrap=#{wrap_flag} region=#{scroll_region_upper}-#{scroll_region_lower}',
      )
      return state + (await command('capture-pane', '-p', '-e', '-N', '-t', pane))
    },
    async [Symbol.asyncDispose]() {
      await command('kill-server')
      await rm(dir, { recursive: true, force: true })
    },
  }
}

function quoted(argv: readonly string[]): string {
  return argv.map((one) => `'${one.replaceAll("'", "'\\''")}'`).join(' ')
}
