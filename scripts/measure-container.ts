import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { ensureBaseImage } from './base-image.ts'
import { imageOf } from './images.ts'
import { SAMPLE_ENV, samplePolicy, SAMPLE_WAYS } from './sample-gate.ts'
import { spread } from './spread.ts'
import { ROOT, capture } from './steps.ts'

/** What both containers get: as compose.yaml has it, without a network, which is no part of the gate. */
const HARDENED = [
  '--rm',
  '--init',
  '--read-only',
  '--cap-drop=ALL',
  '--security-opt=no-new-privileges:true',
  '--network=none',
  '--cpus=1',
  '--tmpfs=/tmp:rw,nosuid,nodev,mode=1777',
  '--user=10001:10001',
  '--env=SALLYPORT_HOME=/tmp',
]

/**
 * Lines that say how long it takes from `docker run` to the ready line, of the gate's image and of a Node of the same base image that
 * does nothing but say so, in turns; and how often longer the gate takes. One line where there is no engine or no image.
 */
export async function measureContainerStart(runs: number): Promise<string[]> {
  const image = imageOf('sidecar')
  const found = await capture('docker', ['image', 'inspect', image], { timeoutMs: 15_000 })
  if (found.code !== 0) return [`containers    not measured: there is no engine, or no image ${image} (npm start makes it)`]
  const base = await ensureBaseImage()
  const folder = mkdtempSync(path.join(tmpdir(), 'sallyport-container-'))
  try {
    chmodSync(folder, 0o755)
    writeFileSync(path.join(folder, 'policy.yaml'), samplePolicy(), { mode: 0o644 })
    const mount = `--mount=type=bind,source=${folder},target=/policy,readonly`
    const env = Object.entries(SAMPLE_ENV).map(([name, value]) => `--env=${name}=${value}`)
    const gate = [mount, ...env, image, 'proxy', '--policy', '/policy/policy.yaml', ...SAMPLE_WAYS]
    const nothing = ['--entrypoint=node', base, '-e', 'console.log("ready")']
    const times: { gate: number[]; nothing: number[]; ratio: number[] } = { gate: [], nothing: [], ratio: [] }
    for (let n = 0; n < runs; n++) {
      const without = await untilReady([...HARDENED, ...nothing])
      const withGate = await untilReady([...HARDENED, ...gate])
      times.nothing.push(without)
      times.gate.push(withGate)
      times.ratio.push(withGate / without)
    }
    return [
      `container of the gate         ready after   ${spread(times.gate)} ms`,
      `container that does nothing   ready after   ${spread(times.nothing)} ms`,
      `the one against the other     ${spread(times.ratio, 2)}`,
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Milliseconds until the first line. The container is gone when this resolves. @throws Error when it ends without one */
async function untilReady(args: readonly string[]): Promise<number> {
  const name = `sallyport-measure-${process.pid}`
  const began = performance.now()
  const child = spawn('docker', ['run', '--name', name, ...args], { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const line = await Promise.race([new Promise<string>((resolve) => createInterface(child.stdout).once('line', resolve)), ended])
  const took = performance.now() - began
  await capture('docker', ['kill', name])
  await ended
  if (line === undefined) throw new Error(`${name} ended before it was ready`)
  return took
}
