import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findProgram } from '../../src/credential/credential.ts'
import type { Environment } from './command.ts'

export type Programs = Disposable & {
  readonly dir: string
  /** The whole environment of what is run: these programs first in PATH, and a HOME of its own. */
  readonly env: Environment
  at(name: string): string
  read(name: string): string
}

/** Shell scripts in a folder of their own, by name, first in PATH. In each `$DIR` is the folder. */
export function writePrograms(scripts: Readonly<Record<string, string>>, more: Environment = {}): Programs {
  const dir = mkdtempSync(join(tmpdir(), 'sallyport-programs-'))
  const bin = join(dir, 'bin')
  mkdirSync(bin)
  for (const [name, body] of Object.entries(scripts)) {
    writeFileSync(join(bin, name), `#!/bin/sh\nDIR='${dir}'\n${body}\n`)
    chmodSync(join(bin, name), 0o700)
  }
  return {
    dir,
    env: { PATH: `${bin}:${process.env['PATH'] ?? ''}`, HOME: dir, LANG: 'C.UTF-8', ...more },
    at: (name) => join(dir, name),
    read: (name) => readFileSync(join(dir, name), 'latin1'),
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  }
}

/**
 * A script that stands before the real program of its name: it notes the arguments and environment of every process that runs
 * then, and goes on as the real one.
 */
export function watching(name: string): string {
  const real = findProgram(name, process.env)
  if (real === undefined) throw new Error(`${name} is not installed: run the tests with npm test`)
  return `cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ >>"$DIR/seen" 2>/dev/null\nexec ${real} "$@"`
}
