import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { ensureBaseImage } from '../scripts/base-image.ts'
import { ensureEngine } from '../scripts/engine.ts'
import { ensureImages, imageOf } from '../scripts/images.ts'
import { capture } from '../scripts/steps.ts'
import { median } from './figures.ts'
import { COSTS } from './goals.ts'
import { findProgram } from './packages.ts'
import type { Cost } from './results.ts'

const RUNS = 5
const READY_MS = 60_000

/**
 * How long a container with the gate takes from `docker run` to its ready line, against one of the same base image that does
 * nothing, in turns. Nothing where there is no docker.
 * @throws SetupError when the images cannot be had
 */
export async function measureContainers(): Promise<Cost[]> {
  if (findProgram('docker') === undefined) return []
  await ensureEngine()
  const base = await ensureBaseImage()
  await ensureImages(base)
  const names: string[] = []
  const runOne = async (image: string, command: readonly string[], isReady: (line: string) => boolean): Promise<number> => {
    const name = `sallyport-bench-${process.pid}-${names.length}`
    names.push(name)
    const began = performance.now()
    await untilLine(['run', '--name', name, '--network', 'none', image, ...command], isReady)
    return performance.now() - began
  }
  const gate = [
    'proxy',
    '--policy',
    '/opt/sallyport/policies/demo.yaml',
    '--http',
    '127.0.0.1:0',
    '--ca-dir',
    '/tmp',
    '--audit',
    '/tmp/audit.jsonl',
  ]
  const [bare, nodes, gates, ratios]: [number[], number[], number[], number[]] = [[], [], [], []]
  try {
    for (let i = 0; i < RUNS; i++) {
      const without = await runOne(base, ['echo', 'ready'], (line) => line === 'ready')
      nodes.push(await runOne(base, ['node', '-p', '"ready"'], (line) => line === 'ready'))
      const withGate = await runOne(imageOf('sidecar'), gate, (line) => line.startsWith('{"event":"ready"'))
      bare.push(without)
      gates.push(withGate)
      ratios.push(withGate / without)
    }
  } finally {
    await capture('docker', ['rm', '--force', '--volumes', ...names])
  }
  return [
    { type: 'cost', name: COSTS.container, value: median(ratios) ?? 0 },
    { type: 'cost', name: 'container start to ready, ms', value: median(gates) ?? 0 },
    { type: 'cost', name: 'a bare container, ms', value: median(bare) ?? 0 },
    { type: 'cost', name: 'a container with a Node that does nothing, ms', value: median(nodes) ?? 0 },
  ]
}

/** Runs docker until it prints a line, and leaves the container to be removed. */
function untilLine(args: readonly string[], isReady: (line: string) => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('docker', args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    const timer = setTimeout(() => child.kill('SIGKILL'), READY_MS)
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (said += chunk))
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (!isReady(line)) return
      clearTimeout(timer)
      child.kill('SIGTERM')
      resolve()
    })
    child.on('error', reject)
    child.on('close', () => {
      clearTimeout(timer)
      reject(new Error(`the container was never ready: ${said.slice(-300)}`))
    })
  })
}
