import path from 'node:path'
import { ROOT, capture, main } from './steps.ts'

const CHECKS = [
  ['oxfmt', ['--check']],
  ['oxlint', []],
  ['tsc', ['--noEmit', '--project', '.']],
  ['knip', []],
] as const

/** Runs every check, also after one has failed, and says how each went. True when all passed. */
export async function check(): Promise<boolean> {
  let passed = true
  for (const [name, args] of CHECKS) {
    const began = performance.now()
    const { code, stdout, stderr } = await capture(path.join(ROOT, 'node_modules', '.bin', name), args)
    const seconds = ((performance.now() - began) / 1000).toFixed(1)
    console.log(`${code === 0 ? 'ok  ' : 'FAIL'} ${name} (${seconds} s)`)
    if (code !== 0) console.log(`${stdout}${stderr}`.trimEnd())
    passed &&= code === 0
  }
  return passed
}

if (import.meta.main) await main(async () => ((await check()) ? 0 : 1))
