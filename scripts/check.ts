import path from 'node:path'
import { ROOT, capture, main } from './steps.ts'

const CHECKS = [
  ['oxfmt', ['--check']],
  ['oxlint', []],
  ['tsc', ['--noEmit', '--project', '.']],
  ['tsc', ['--noEmit', '--project', 'src/web']],
  ['knip', []],
] as const

/** Runs every check side by side, also where one fails, and says how each went. True when all passed. */
export async function check(): Promise<boolean> {
  const results = await Promise.all(
    CHECKS.map(async ([name, args]) => {
      const began = performance.now()
      const { code, stdout, stderr } = await capture(path.join(ROOT, 'node_modules', '.bin', name), args)
      const seconds = ((performance.now() - began) / 1000).toFixed(1)
      console.log(`${code === 0 ? 'ok  ' : 'FAIL'} ${name} (${seconds} s)`)
      if (code !== 0) console.log(`${stdout}${stderr}`.trimEnd())
      return code === 0
    }),
  )
  return results.every(Boolean)
}

if (import.meta.main) await main(async () => ((await check()) ? 0 : 1))
