import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, release, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { bundle } from './build.ts'
import { redactorCost } from './redactor-cost.ts'
import { ROOT, main } from './steps.ts'

const RUNS = 5
const IDLE_MS = 3_000
/** As the image starts it. */
const FLAGS = ['--max-semi-space-size=2', '--expose-gc']

type Run = { readonly readyMs: number; readonly rssMb: number }

/** Starts the bundled gate several times and prints how long it takes to be ready, what it holds when idle, and what its search for secrets costs. */
await main(async () => {
  await bundle()
  const home = mkdtempSync(path.join(tmpdir(), 'sallyport-measure-'))
  try {
    const policy = path.join(home, 'policy.yaml')
    writeFileSync(policy, 'version: 1\nnetwork:\n  rules:\n    - {id: api, host: api.example.com, action: allow}\n')
    const runs: Run[] = []
    for (let i = 0; i < RUNS; i++) runs.push(await startOnce(home, policy))
    console.log(`Node ${process.versions.node}, Linux ${release()}, ${availableParallelism()} × ${cpus()[0]?.model ?? 'cpu'}, ${RUNS} runs`)
    console.log(`ready after   ${spread(runs.map((run) => run.readyMs))} ms`)
    console.log(`idle RSS      ${spread(runs.map((run) => run.rssMb))} MB`)
    for (const line of redactorCost()) console.log(line)
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
  return 0
})

async function startOnce(home: string, policy: string): Promise<Run> {
  const args = [
    ...FLAGS,
    path.join(ROOT, 'dist/sallyport.js'),
    'proxy',
    '--policy',
    policy,
    '--http',
    '127.0.0.1:0',
    '--socks',
    '127.0.0.1:0',
    '--transparent',
    '127.0.0.1:0,127.0.0.1:0',
    '--dns',
    '127.0.0.1:0',
    '--gateway',
    '127.0.0.1:0',
  ]
  const began = performance.now()
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'], SALLYPORT_HOME: home },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  await new Promise<void>((resolve, reject) => {
    child.stdout.once('data', () => resolve())
    child.once('exit', (code) => reject(new Error(`it ended with ${code ?? 'a signal'} before it was ready`)))
  })
  const readyMs = Math.round(performance.now() - began)
  await sleep(IDLE_MS)
  const rssKb = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1])
  child.kill()
  return { readyMs, rssMb: Math.round(rssKb / 1024) }
}

/** Minimum, median, maximum. */
function spread(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b)
  return `${sorted[0]} / ${sorted[Math.floor(sorted.length / 2)]} / ${sorted.at(-1)}`
}
