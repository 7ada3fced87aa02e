import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

const VAULT = new URL('../../src/vault/vault.ts', import.meta.url).href
const SUPPORT = new URL('./vault.ts', import.meta.url).href

/** A program of its own that has `openVault`, `unlockWith`, `secret`, `system` and the vault's `file` and `keyFile`. */
function programOf(body: string): string {
  return `
import { writeSync } from 'node:fs'
const { openVault } = await import(${JSON.stringify(VAULT)})
const { unlockWith, secret } = await import(${JSON.stringify(SUPPORT)})
const { system } = await import(${JSON.stringify(new URL('../../src/kernel/system.ts', import.meta.url).href)})
const [file, keyFile] = process.argv.slice(-2)
const say = (text) => writeSync(1, text + '\\n')
${body}`
}

/** Lines that the program printed until it ended, and how it ended. `onLine` may do something to it meanwhile. */
export async function runChild(
  body: string,
  files: readonly [file: string, keyFile: string],
  options: { wrapper?: readonly string[]; onLine?: (line: string, kill: () => void) => void } = {},
): Promise<{ lines: string[]; code: number | null; signal: NodeJS.Signals | null }> {
  const argv = [...(options.wrapper ?? []), process.execPath, '--input-type=module', '-e', programOf(body), '--', ...files]
  const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] })
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  const lines: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line)
    options.onLine?.(line, () => child.kill('SIGKILL'))
  }
  const [code, signal] = await exit
  return { lines, code, signal }
}

/** Whether strace works here: it kills a program at a system call, which nothing else does to the point. */
export function canTrace(): Promise<boolean> {
  return new Promise((resolve) => execFile('strace', ['-f', '-e', 'trace=none', 'true'], (error) => resolve(error === null)))
}
