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

/** One receiver, with what waits for it in memory. */
export function createCopy(receiver: Receiver, log: Pick<Log, 'info' | 'warn'>): Copies {
  const ended = new AbortController()
  let waiting: string[] = []
  let [bytes, lost, failures] = [0, 0, 0]
  let running: Promise<void> | undefined

  const dropOldest = (): void => {
    let dropped = 0
    while (bytes > LIMITS.auditCopyQueueBytesMax && dropped < waiting.length) {
      const text = waiting[dropped] ?? ''
      bytes -= text.length
      lost += countLines(text)
      dropped += 1
    }
    if (dropped > 0) waiting = waiting.slice(dropped)
  }
  const take = (): string[] => {
    const batch: string[] = []
    while (waiting.length > 0 && batch.length < LIMITS.auditCopyBatchLines) {
      const text = waiting.shift() ?? ''
      bytes -= text.length
      const lines = text.split('\n').slice(0, -1)
      const room = LIMITS.auditCopyBatchLines - batch.length
      batch.push(...lines.slice(0, room))
      const rest = lines.slice(room)
      if (rest.length === 0) continue
      waiting.unshift(`${rest.join('\n')}\n`)
      bytes += waiting[0]?.length ?? 0
    }
    return batch
  }
  const deliver = async (batch: readonly string[]): Promise<void> => {
    let retryMs: number = LIMITS.auditCopyRetryMs
    for (;;) {
      try {
        await receiver.send(batch, AbortSignal.any([ended.signal, AbortSignal.timeout(LIMITS.auditCopySendMs)]))
        if (failures > 0 || lost > 0) log.info({ copy: receiver.name, lost }, 'audit: the copy goes on')
        ;[failures, lost] = [0, 0]
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
    for (let batch = take(); batch.length > 0; batch = take()) await deliver(batch)
    running = undefined
  }

  return {
    accept(text) {
      waiting.push(text)
      bytes += text.length
      dropOldest()
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
