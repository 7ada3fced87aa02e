import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createTokenExchanges } from '../src/credential/credential.ts'
import { isHostname, parseHostname } from '../src/kernel/hostname.ts'
import { system } from '../src/kernel/system.ts'
import { loadPolicy } from '../src/policy/policy.ts'
import type { Agent } from '../src/sidecar/egress/agent.ts'
import { Course } from '../src/sidecar/egress/course.ts'
import { createScrubbedAgent } from '../src/sidecar/egress/scrub/scrubbed-agent.ts'
import { createScrubbing } from '../src/sidecar/egress/scrubbing.ts'
import { enforce } from '../src/sidecar/enforcement.ts'
import { ROOT } from './steps.ts'

const RUNS = 20
const ANSWERS = 5_000
const BODY_BYTES = 1024
const HOST = 'api.example.com'
/** As many answers, so that none is known from before. */
const KINDS = 64

/**
 * What it costs to look into an answer of eight fields and 1 KiB that a host with credentials gives, all that the gate does for
 * that and nothing else, as lines of microseconds of processor time: the best of some runs.
 */
export function scrubCost(): string[] {
  return [1, 5, 20].flatMap((count) => {
    const answer = prepare(count)
    return ([true, false] as const).map((isSized) => {
      const micros = Math.min(...Array.from({ length: RUNS }, () => microsFor((i) => answer(i, isSized))))
      return `${`scrub 1 KiB of JSON, ${count} secrets, ${isSized ? 'Content-Length' : 'chunked'}`.padEnd(44)} ${micros.toFixed(1).padStart(6)} µs`
    })
  })
}

function microsFor(answer: (i: number) => void): number {
  const began = process.cpuUsage()
  for (let i = 0; i < ANSWERS; i++) answer(i)
  const { user, system: inKernel } = process.cpuUsage(began)
  return (user + inKernel) / ANSWERS
}

/** Gives an answer to an agent through all that looks into it. */
function prepare(count: number): (i: number, isSized: boolean) => void {
  const host = parseHostname(HOST)
  if (!isHostname(host)) throw new Error('no hostname')
  const enforced = enforce(policyFor(count), { env: environment(count), placeholderSeed: 'seed', system }, 0)
  const decision = enforced.policy.decide({ scheme: 'https', host, port: 443, method: 'GET', path: '/' })
  if (decision.action !== 'allow') throw new Error('not allowed')
  const noTokens = createTokenExchanges(() => Promise.reject(new Error('no token server')), system)
  const scrubbing = createScrubbing(() => enforced, noTokens)
  const fail = (error: Error): never => {
    throw error
  }
  const course = new Course()
  const sized = Array.from({ length: KINDS }, () => headOf(['content-length', String(BODY_BYTES)]))
  const chunked = Array.from({ length: KINDS }, () => headOf(['x-more', 'yes']))
  const text = readFileSync(path.join(ROOT, 'package-lock.json'))
  const bodies = Array.from({ length: KINDS }, (_, i) => Buffer.from(text.subarray(i * BODY_BYTES, (i + 1) * BODY_BYTES)))
  return (i, isSized) => {
    const plan = scrubbing.planFor(enforced, host, decision.rule)
    if (plan === undefined) throw new Error('nothing is looked into')
    const { agent, settled } = openAgent(plan)
    agent.start(200, 'OK', (isSized ? sized : chunked)[i % KINDS] ?? [])
    agent.write(bodies[i % KINDS] ?? text)
    agent.end([])
    if (settled()) throw new Error('the answer is not out')
  }
  function openAgent(plan: NonNullable<ReturnType<typeof scrubbing.planFor>>) {
    const scrubbed = createScrubbedAgent(new Sink(), plan, 'GET', fail)
    return { agent: scrubbed.agent, settled: () => scrubbed.settled(course) }
  }
}

function environment(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`TOKEN_${i}`, randomBytes(30).toString('base64url')]))
}

function policyFor(count: number) {
  const folder = mkdtempSync(path.join(tmpdir(), 'sallyport-scrub-'))
  const file = path.join(folder, 'policy.yaml')
  const each = (line: (i: number) => string): string => Array.from({ length: count }, (_, i) => `  - ${line(i)}\n`).join('')
  try {
    writeFileSync(
      file,
      `version: 1
network:
  rules:
    - {id: api, host: ${HOST}, action: allow}
credentials:
${each((i) => `{id: token-${i}, secret: TOKEN_${i}, inject: {domains: [${HOST}], paths: ["/${i}"], header: Authorization, prefix: "Bearer "}}`)}
secrets:
${each((i) => `{name: TOKEN_${i}, source: "env:TOKEN_${i}"}`)}`,
    )
    return loadPolicy([file], { policyDirs: [] })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Texts are made of bytes, as those of a parser are. */
function headOf(more: readonly string[]): string[] {
  const head = [
    ['Date', 'Tue, 03 Mar 2026 09:00:00 GMT'],
    ['Content-Type', 'application/json; charset=utf-8'],
    ['Server', 'nginx'],
    ['X-Request-Id', randomBytes(16).toString('hex')],
    ['Cache-Control', 'private, max-age=0'],
    ['Vary', 'Accept, Authorization'],
    ['ETag', `"${randomBytes(14).toString('hex')}"`],
    more,
  ]
  return head.flat().map((text) => Buffer.from(text).toString('latin1'))
}

/** An agent that takes everything and does nothing with it. */
class Sink implements Agent {
  readonly head = { method: 'GET', url: '/', rawHeaders: [], isUpgrade: false }
  readonly isModern = true
  readonly body = undefined
  readonly isUploaded = true
  readonly isGone = false
  readonly isAnswered = false
  readonly upgrade = undefined

  trailers = (): readonly string[] => []
  sendInterim(): void {}
  start(): void {}
  flush(): void {}
  write(): boolean {
    return true
  }
  onceDrained(): void {}
  end(): void {}
  refuse(): void {}
  abort(): void {}
  onGone(): () => void {
    return () => {}
  }
}
