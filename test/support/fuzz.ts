import { createContext, Script } from 'node:vm'

/** Something that reads bytes of an agent. */
export type FuzzTarget = {
  readonly name: string
  /** Valid inputs, the same in every run: what is tried are these, changed. */
  readonly corpus: readonly Buffer[]
  /** Says what is wrong with how the bytes are read. A throw is wrong too. Depends on nothing but the bytes. */
  readonly check: (bytes: Buffer) => string | undefined
}

export type FuzzFailure = { readonly target: string; readonly round: number; readonly problem: string; readonly bytes: Buffer }

/** One input that takes longer than this is a failure: it takes microseconds. Far beyond what a busy machine makes of that. */
const INPUT_MS = 2_000
/** Rounds that are watched together: a watch costs more than a round. */
const BATCH = 500
const BYTES_MAX = 20_000

/**
 * Tries `rounds` changed inputs. Gives the first that is read wrongly, or nothing. The same seed tries the same inputs; the
 * input of a round does not depend on the rounds before it.
 */
export function fuzz(target: FuzzTarget, options: { seed: number; rounds: number; inputMs?: number }): FuzzFailure | undefined {
  for (let from = 0; from < options.rounds; from += BATCH) {
    let round = from
    let bytes: Buffer = Buffer.alloc(0)
    let problem: string | undefined
    const runBatch = (): void => {
      for (const end = Math.min(from + BATCH, options.rounds); round < end && problem === undefined; round += 1) {
        bytes = mutate(target.corpus, createChance(options.seed + Math.imul(round, 0x9e3779b1)))
        problem = problemOf(target, bytes)
        if (problem !== undefined) return
      }
    }
    while (round < Math.min(from + BATCH, options.rounds)) {
      if (!endsInTime(runBatch, options.inputMs ?? INPUT_MS)) {
        // The batch may only have been slow as a whole: the input that it stood at gets all the time for itself.
        problem = tryInput(target, bytes, options.inputMs)
        round += 1
      }
      if (problem !== undefined) return { target: target.name, round, problem, bytes }
    }
  }
  return undefined
}

/** What is wrong with how one input is read, taking too long included. */
export function tryInput(target: FuzzTarget, bytes: Buffer, inputMs = INPUT_MS): string | undefined {
  let problem: string | undefined
  const inTime = endsInTime(() => {
    problem = problemOf(target, bytes)
  }, inputMs)
  return inTime ? problem : `it takes longer than ${inputMs} ms`
}

/** Numbers that look random and are the same for the same seed (mulberry32, by Tommy Ettinger). */
export function createChance(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

function problemOf(target: FuzzTarget, bytes: Buffer): string | undefined {
  try {
    return target.check(bytes)
  } catch (error) {
    return `it throws ${String(error)}`
  }
}

const context = createContext({ call: undefined as (() => void) | undefined })
const callScript = new Script('call()')

/** Runs it; an endless loop is broken off. */
function endsInTime(work: () => void, timeoutMs: number): boolean {
  context['call'] = work
  try {
    callScript.runInContext(context, { timeout: timeoutMs })
    return true
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return false
    throw error
  }
}

/** Values at which lengths, types and signs turn. */
const EDGES = [0, 1, 2, 3, 5, 11, 12, 22, 41, 63, 64, 127, 128, 191, 192, 254, 255]

function mutate(corpus: readonly Buffer[], chance: (below: number) => number): Buffer {
  const pick = (): Buffer => corpus[chance(corpus.length)] ?? Buffer.alloc(0)
  let bytes: Buffer = Buffer.from(pick())
  for (let changes = chance(5); changes > 0; changes--) {
    const at = chance(bytes.length + 1)
    const span = Math.min(1 + chance(chance(4) === 0 ? 300 : 6), bytes.length - at)
    const [before, there, after] = [bytes.subarray(0, at), bytes.subarray(at, at + span), bytes.subarray(at + span)]
    switch (chance(8)) {
      case 0:
        bytes = Buffer.from(before)
        break
      case 1:
        bytes = Buffer.concat([before, after])
        break
      case 2:
        bytes = Buffer.concat([before, there, there, after])
        break
      case 3:
        bytes = Buffer.concat([before, Buffer.from(Array.from({ length: 1 + chance(20) }, () => chance(256))), bytes.subarray(at)])
        break
      case 4:
        bytes = Buffer.concat([before, pick().subarray(chance(40))])
        break
      case 5:
        bytes = Buffer.concat([bytes, pick()])
        break
      case 6:
        if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << chance(8))
        break
      default:
        if (at < bytes.length) bytes[at] = EDGES[chance(EDGES.length)] ?? 0
    }
  }
  return bytes.subarray(0, BYTES_MAX)
}
