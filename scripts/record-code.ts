// Runs the bundle of a folder as a gate for a moment and keeps what V8 compiled for it: `node FLAGS scripts/record-code.ts FOLDER`.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { CACHE_FILE, compileMain, MAIN_FILE } from '../src/cli/code-cache.ts'
import { samplePolicy, SAMPLE_ENV, SAMPLE_WAYS } from './sample-gate.ts'

const folder = path.resolve(process.argv[2] ?? 'dist')
const home = mkdtempSync(path.join(tmpdir(), 'sallyport-record-'))
process.once('exit', () => rmSync(home, { recursive: true, force: true }))
const policy = path.join(home, 'policy.yaml')
writeFileSync(policy, samplePolicy())

const main = path.join(folder, MAIN_FILE)
const compiled = compileMain(folder)
process.argv = [process.execPath, main, 'proxy', '--policy', policy, ...SAMPLE_WAYS]
Object.assign(process.env, SAMPLE_ENV, { SALLYPORT_HOME: home, SALLYPORT_LOG_LEVEL: 'silent' })
// A collection throws compiled functions away that ran only once.
Object.assign(globalThis, { gc: undefined })

const ready = new Promise<{ gateway: string }>((resolve) => {
  process.stdout.write = (text) => {
    resolve(JSON.parse(String(text)) as { gateway: string })
    return true
  }
})
const run = compiled.script.runInThisContext() as (require: NodeJS.Require, filename: string) => void
run(createRequire(main), main)
const { gateway } = await ready
// What the image's health check asks.
const { status } = await fetch(`http://${gateway}/healthz`)
if (status !== 200) throw new Error(`the gateway answers ${status}`)
writeFileSync(path.join(folder, CACHE_FILE), compiled.seal())
process.exit(0)
