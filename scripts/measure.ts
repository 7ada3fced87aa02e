import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, release, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { bundle, GATE_ENV, GATE_FLAGS } from './build.ts'
import { measureContainerStart } from './measure-container.ts'
import { redactorCost } from './redactor-cost.ts'
import { scrubCost } from './scrub-cost.ts'
import { SAMPLE_ENV, samplePolicy, SAMPLE_WAYS } from './sample-gate.ts'
import { spread } from './spread.ts'
import { ROOT, main } from './steps.ts'

const RUNS = 9
const IDLE_MS = 3_000

type Run = { readonly readyMs: number; readonly cpuMs: number; readonly rssMb: number }

/**
 * Starts the bundled gate several times, as the image does, with every way in and 200 rules and 50 credentials, in turns with a Node that
 * does nothing; then its container in turns with one of the same base image. Prints how long each takes to be ready and what it holds
 * when idle, and what the gate's search for secrets costs.
 */
await main(async () => {
  await bundle()
  const home = mkdtempSync(path.join(tmpdir(), 'sallyport-measure-'))
  try {
    const policy = path.join(home, 'policy.yaml')
    writeFileSync(policy, samplePolicy())
    const gate = [...GATE_FLAGS, path.join(ROOT, 'dist/sallyport.js'), 'proxy', '--policy', policy, ...SAMPLE_WAYS]
    const nothing = ['-e', 'console.log("ready"); setInterval(() => {}, 1e6)']
    const runs: Record<'gate' | 'nothing', Run[]> = { gate: [], nothing: [] }
    for (let i = 0; i < RUNS; i++) {
      runs.nothing.push(await startOnce(home, nothing))
      runs.gate.push(await startOnce(home, gate))
    }
    console.log(`Node ${process.versions.node}, Linux ${release()}, ${availableParallelism()} × ${cpus()[0]?.model ?? 'cpu'}, ${RUNS} runs`)
    for (const [what, of] of Object.entries(runs)) {
      console.log(`${what.padEnd(8)} ready after   ${spread(of.map((run) => run.readyMs))} ms`)
      console.log(`${what.padEnd(8)} processor     ${spread(of.map((run) => run.cpuMs))} ms`)
      console.log(`${what.padEnd(8)} idle RSS      ${spread(of.map((run) => run.rssMb))} MB`)
    }
    for (const line of await measureContainerStart(RUNS)) console.log(line)
    for (const line of [...redactorCost(), ...scrubCost()]) console.log(line)
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
  return 0
})

async function startOnce(home: string, args: readonly string[]): Promise<Run> {
  const began = performance.now()
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'], SALLYPORT_HOME: home, ...GATE_ENV, ...SAMPLE_ENV },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  await new Promise<void>((resolve, reject) => {
    child.stdout.once('data', () => resolve())
    child.once('exit', (code) => reject(new Error(`it ended with ${code ?? 'a signal'} before it was ready`)))
  })
  const readyMs = Math.round(performance.now() - began)
  const cpuMs = cpuOf(child.pid)
  await sleep(IDLE_MS)
  const rssKb = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1])
  child.kill()
  return { readyMs, cpuMs, rssMb: Math.round(rssKb / 1024) }
}

/** Of all its threads, in user mode and in the kernel; the kernel counts in hundredths of a second. */
function cpuOf(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}
