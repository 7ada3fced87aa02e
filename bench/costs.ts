import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { ROOT, run } from '../scripts/steps.ts'
import type { Hostname } from '../src/kernel/hostname.ts'
import { Secret } from '../src/kernel/secret.ts'
import { loadPolicy, type Facts } from '../src/policy/policy.ts'
import { createRedactor } from '../src/redactor/redactor.ts'
import { gatePolicy, otherRequest } from './gate-policy.ts'
import { COSTS } from './goals.ts'
import { inWork } from './places.ts'
import { pinned } from './proxy.ts'
import type { Cost } from './results.ts'

const RUNS = 5
const ANSWER_BYTES = 8_000_000
/** What an answer comes in. */
const CHUNK_BYTES = 64 * 1024
const SECRETS = 5
const RULES = 1_000
const DECISIONS = 200_000

/** Costs of single parts, in a process of its own on one processor. @throws SetupError */
export async function measureCosts(cpu: string): Promise<Cost[]> {
  const [command, ...args] = pinned(cpu, [process.execPath, import.meta.filename])
  return JSON.parse(await run(command, args)) as Cost[]
}

/** Megabytes a second of processor time: the slowest of three kinds of text, each at the best of some runs. */
function scrubbing(): number {
  const redactor = createRedactor(Array.from({ length: SECRETS }, (_, i) => new Secret(`S${i}`, randomBytes(30).toString('base64url'))))
  const texts = [
    readFileSync(path.join(ROOT, 'LICENSE')),
    readFileSync(path.join(ROOT, 'package-lock.json')),
    Buffer.from(randomBytes(1_500_000).toString('base64')),
  ]
  const rates = texts.map((text) => {
    const answer = Buffer.alloc(ANSWER_BYTES, text)
    const seconds = bestOf(() => {
      const stream = redactor.open()
      for (let at = 0; at < answer.length; at += CHUNK_BYTES) stream.push(answer.subarray(at, at + CHUNK_BYTES))
      stream.flush()
    })
    return ANSWER_BYTES / 1e6 / seconds
  })
  return Math.min(...rates)
}

/** Microseconds a decision, over requests to every host of the policy, every third of which is refused for its path. */
function decision(): number {
  const folder = inWork('run', 'costs')
  mkdirSync(folder, { recursive: true })
  const file = path.join(folder, 'policy.yaml')
  writeFileSync(file, gatePolicy({ rules: RULES, credentials: 50 }))
  const policy = loadPolicy([file], { policyDirs: [] })
  const facts = Array.from({ length: RULES - 3 }, (_, i): Facts => {
    const { host, path: target } = otherRequest(i)
    // As the gate's door would have it: this name is canonical.
    return { scheme: 'https', host: host as Hostname, port: 443, method: 'GET', path: i % 3 === 0 ? '/elsewhere' : target }
  })
  const seconds = bestOf(() => {
    for (let i = 0; i < DECISIONS; i++) policy.decide(facts[i % facts.length] as Facts)
  })
  return (seconds / DECISIONS) * 1e6
}

/** Seconds of processor time that a piece of work takes at least. */
function bestOf(work: () => void): number {
  const seconds = Array.from({ length: RUNS }, () => {
    const began = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(began)
    return (user + system) / 1e6
  })
  return Math.min(...seconds)
}

if (import.meta.main) {
  const costs: Cost[] = [
    { type: 'cost', name: COSTS.scrubbing, value: scrubbing() },
    { type: 'cost', name: COSTS.decision, value: decision() },
  ]
  process.stdout.write(JSON.stringify(costs))
}
