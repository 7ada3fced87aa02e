import { setTimeout as wait } from 'node:timers/promises'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { openOtlp } from './otlp.ts'
import type { CopyTarget } from './settings.ts'
import { openSyslog } from './syslog.ts'

/** A place that lines go to. */
export type Receiver = AsyncDisposable & {
  /** Its name in the log. */
  readonly name: string
  /** Rejects when they did not arrive, as far as can be known: then they are sent again. */
  send(lines: readonly string[], signal: AbortSignal): Promise<void>
}

/** Copies of the audit. The record itself never waits for one: what a receiver does not take in time is left out of its copy. */
export type Copies = AsyncDisposable & {
  /** Lines, each with its newline. */
  accept(text: string): void
}

export function openCopies(targets: readonly CopyTarget[], log: Pick<Log, 'info' | 'warn'>): Copies {
  const copies = targets.map((target) => createCopy(target.kind === 'otlp' ? openOtlp(target) : openSyslog(target), log))
  return {
    accept(text) {
      for (const copy of copies) copy.accept(text)
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(copies.map((copy) => copy[Symbol.asyncDispose]()))
    },
  }
}

/** Lines that wait, in order; beyond the bound the oldest are forgotten. */
function createBacklog() {
  let texts: string[] = []
  /** Before it they are taken already: an array is not moved for each. */
  let head = 0
  let [bytes, lost] = [0, 0]
  const shift = (): string => {
    const text = texts[head] ?? ''
    texts[head] = ''
    head += 1
    bytes -= text.length
    if (head > 1_000 && head * 2 > texts.length) [texts, head] = [texts.slice(head), 0]
    return text
  }
  return {
    add(text: string): void {
      texts.push(text)
      bytes += text.length
      while (bytes > LIMITS.auditCopyQueueBytesMax) lost += countLines(shift())
    },
    /** The oldest lines, a batch of them. */
    take(): string[] {
      const batch: string[] = []
      while (head < texts.length && batch.length < LIMITS.auditCopyBatchLinesMax) {
        const lines = shift().split('\n').slice(0, -1)
        const rest = lines.splice(LIMITS.auditCopyBatchLinesMax - batch.length)
        batch.push(...lines)
        if (rest.length === 0) continue
        const text = `${rest.join('\n')}\n`
        if (head === 0) texts.unshift(text)
        else texts[(head -= 1)] = text
        bytes += text.length
      }
      return batch
    },
    /** How many were forgotten since this was asked last. */
    takeLost(): number {
      const count = lost
      lost = 0
      return count
    },
  }
}

/** One receiver, with what waits for it in memory. */
export function createCopy(receiver: Receiver, log: Pick<Log, 'info' | 'warn'>): Copies {
  const ended = new AbortController()
  const backlog = createBacklog()
  let failures = 0
  let running: Promise<void> | undefined

  const deliver = async (batch: readonly string[]): Promise<void> => {
    let retryMs: number = LIMITS.auditCopyRetryMs
    for (;;) {
      try {
        await receiver.send(batch, AbortSignal.any([ended.signal, AbortSignal.timeout(LIMITS.auditCopySendMs)]))
        const lost = backlog.takeLost()
        if (failures > 0 || lost > 0) log.info({ copy: receiver.name, lost }, 'audit: the copy goes on')
        failures = 0
        return
      } catch (error) {
        ended.signal.throwIfAborted()
        if (failures === 0) log.warn({ copy: receiver.name, cause: codeOf(error) }, 'audit: a copy is not taken, the audit itself goes on')
        failures += 1
      }
      await wait(retryMs, undefined, { signal: ended.signal, ref: false })
      retryMs = Math.min(2 * retryMs, LIMITS.auditCopyRetryMaxMs)
    }
  }
  const run = async (): Promise<void> => {
    for (let batch = backlog.take(); batch.length > 0; batch = backlog.take()) await deliver(batch)
    running = undefined
  }

  return {
    accept(text) {
      backlog.add(text)
      // Behind the turn in which the lines were written: their writer does not wait.
      running ??= new Promise<void>((resolve) => void setImmediate(resolve)).then(run).catch(() => undefined)
    },
    async [Symbol.asyncDispose]() {
      const timer = setTimeout(() => ended.abort(), LIMITS.auditCopyEndMs)
      await running
      clearTimeout(timer)
      ended.abort()
      await receiver[Symbol.asyncDispose]()
    },
  }
}

function countLines(text: string): number {
  return text.split('\n').length - 1
}
