import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openControllerAudit, verifyAudit, verifyAuditFolder, type AuditEvent } from '../src/audit/audit.ts'
import { system } from '../src/kernel/system.ts'

// Events of the controller's audit a second: recorded, each awaited as a request awaits it, and verified. On its own: node bench/audit.ts
const EVENTS = 200_000
/** Requests that wait at the same time, each for its own line. */
const AT_ONCE = 64
const RUNS = 3

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined }

function eventOf(number: number): AuditEvent {
  const request = `0f8fad5b-d9cb-469f-a165-${String(number).padStart(12, '0')}`
  if (number % 2 === 1)
    return { event: 'finished', request, status: 200, address: '192.0.2.10', bytes_up: 512, bytes_down: 4_096, duration_ms: 12.5 }
  return {
    event: 'decided',
    request,
    lane: 'connect',
    plane: 'agent',
    scheme: 'https',
    host: 'api.example.com',
    port: 443,
    method: 'GET',
    path: '/repos/acme/example/issues',
    decision: 'allow',
    rule: 'api',
    credential: 'github',
    secret: 'GITHUB_TOKEN',
  }
}

/** A second of the clock, and one of this process's processor time: they differ where the machine has other work. */
type Rate = { readonly perSecond: number; readonly perCpuSecond: number }

async function rateOf(events: number, work: () => Promise<unknown>): Promise<Rate> {
  const [began, used] = [system.elapsed(), process.cpuUsage()]
  await work()
  const { user, system: kernel } = process.cpuUsage(used)
  return { perSecond: (events / (system.elapsed() - began)) * 1e3, perCpuSecond: (events / (user + kernel)) * 1e6 }
}

async function measure(): Promise<Record<'recorded' | 'verified' | 'signatures', Rate>> {
  const home = await mkdtemp(join(tmpdir(), 'sallyport-bench-audit-'))
  try {
    const folder = join(home, 'audit')
    await mkdir(folder)
    const recorded = await rateOf(EVENTS, async () => {
      await using audit = await openControllerAudit(
        { folder, keyFile: join(home, 'audit.key'), rotateBytes: Number.MAX_SAFE_INTEGER },
        system,
        quiet,
      )
      let next = 0
      const one = async (): Promise<void> => {
        while (next < EVENTS) await audit.append(eventOf(next++))
      }
      await Promise.all(Array.from({ length: AT_ONCE }, one))
    })
    const verified = await rateOf(EVENTS, () => verifyAudit(join(folder, 'controller.jsonl')))
    return { recorded, verified, signatures: await rateOf(EVENTS, () => verifyAuditFolder(folder)) }
  } finally {
    await rm(home, { recursive: true })
  }
}

const runs: Record<'recorded' | 'verified' | 'signatures', Rate>[] = []
for (let run = 0; run < RUNS; run += 1) runs.push(await measure())
for (const name of ['recorded', 'verified', 'signatures'] as const) {
  const median = (of: keyof Rate): number =>
    Math.round(runs.map((run) => run[name][of]).toSorted((a, b) => a - b)[Math.floor(RUNS / 2)] ?? 0)
  process.stdout.write(
    `${JSON.stringify({ name, events: EVENTS, at_once: AT_ONCE, per_second: median('perSecond'), per_cpu_second: median('perCpuSecond') })}\n`,
  )
}
