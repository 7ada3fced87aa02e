import { Secret } from '../../src/kernel/secret.ts'
import type { SallyportError } from '../../src/kernel/errors.ts'
import { createRedactor } from '../../src/redactor/redactor.ts'
import { Course } from '../../src/sidecar/egress/course.ts'
import { createScrubbedAgent, type ScrubbedAgent, type ScrubPlan } from '../../src/sidecar/egress/scrub/scrubbed-agent.ts'
import { RecordingAgent } from './recording-agent.ts'

export const CANARY = 'canary-7f3a9c5e1b'
/** What comes in its place. */
export const MARKS = '*'.repeat(CANARY.length)
/** An exchange that nobody cuts. */
export const NEVER = new Course()

export type Scrubbing = {
  readonly behind: RecordingAgent
  readonly scrubbed: ScrubbedAgent
  readonly failures: SallyportError[]
  /** Resolves when it failed. */
  readonly failed: Promise<void>
  /** What was found, each time. */
  readonly hits: number[]
}

/** A scrubbed agent with a recording one behind it. */
export function openScrubbing(options: Partial<ScrubPlan> & { method?: string; behind?: RecordingAgent } = {}): Scrubbing {
  const behind = options.behind ?? new RecordingAgent()
  const failures: SallyportError[] = []
  const hits: number[] = []
  const { promise: failed, resolve } = Promise.withResolvers<void>()
  const plan: ScrubPlan = {
    redactor: createRedactor([new Secret('token', CANARY)]),
    mode: 'replace',
    onHits: (count) => hits.push(count) > 0,
    ...options,
  }
  const scrubbed = createScrubbedAgent(behind, plan, options.method ?? 'GET', (error) => {
    failures.push(error)
    resolve()
  })
  return { behind, scrubbed, failures, failed, hits }
}

/** Answers as an upstream does that is read only as fast as the agent reads. */
export async function answerWith(
  { scrubbed, failures, failed }: Scrubbing,
  headers: readonly string[],
  chunks: readonly Buffer[],
  trailers: readonly string[] = [],
): Promise<void> {
  const { agent } = scrubbed
  agent.start(200, 'OK', headers)
  for (const chunk of chunks) {
    if (failures.length > 0) break
    if (!agent.write(chunk)) await Promise.race([failed, new Promise<void>((resolve) => agent.onceDrained(resolve))])
  }
  if (failures.length === 0) agent.end(trailers)
  await scrubbed.settled(NEVER)
}

/** Cut into pieces of so many bytes. */
export function cut(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size))
}
