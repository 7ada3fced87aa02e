import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import type { System } from '../kernel/system.ts'
import { ForeignChange, openChainFile, type ChainFile } from './chain-file.ts'
import { followFile } from './followed-file.ts'
import { openHeldChain } from './held-chain.ts'
import { encodeEvent, encodeIdentity, type AuditEvent, type Identity } from './line.ts'
import type { Outgoing } from './outgoing.ts'

export type { AuditEvent, Lane, QuestionEvent, RequestAuditEvent } from './line.ts'
export { readLine as readAuditLine } from './line.ts'
export type { Outgoing } from './outgoing.ts'
export { verifyAudit } from './verify.ts'

/** The record of what was asked and decided: hash-chained JSON lines in one file (docs/AUDIT.md). */
export type Audit = AsyncDisposable & {
  /**
   * Resolves when the line is written: it outlives a crash of this process at once, of the machine after
   * `LIMITS.auditSyncMs` at the latest.
   *
   * A `finished` event that could not be written is kept and written before all others when that is possible again,
   * though the promise is rejected at once.
   *
   * @throws audit_unavailable when it could not be written: what was asked must be refused.
   */
  append(event: AuditEvent): Promise<void>
}

/** An audit whose lines go to another keeper too. */
export type ForwardedAudit = Audit & { readonly outgoing: Outgoing }

type Waiting = {
  readonly body: string
  readonly isKept: boolean
  readonly resolve: () => void
  readonly reject: (error: SallyportError) => void
}

/**
 * Opens `file` (made with mode 0600 where it does not exist; its folder must) and continues its chain.
 *
 * @throws audit_open_failed when the file cannot be opened, belongs to another, is a link, or its chain does not hold.
 */
export async function openAudit(
  options: Identity & { readonly file: string },
  system: Pick<System, 'now'>,
  log: Pick<Log, 'info' | 'warn' | 'error'>,
): Promise<Audit> {
  const { file } = options
  const chain = await openChainFile(file)
  const audit = new QueuedAudit(chain, encodeIdentity(options), system, reporter(file, log))
  if (chain.recoveredBytes > 0) {
    log.warn({ file, bytes: chain.recoveredBytes }, 'audit: an unfinished last line was cut off')
    try {
      await audit.append({ event: 'recovered', bytes: chain.recoveredBytes })
    } catch (cause) {
      await audit[Symbol.asyncDispose]()
      throw new SallyportError('audit_open_failed', `${file}: ${String(cause)}`, { cause })
    }
  }
  return audit
}

/**
 * The same, and its lines can be taken from it for another keeper. Without a `file` they are in memory until that has them, up to
 * `LIMITS.auditSegmentBytesMax`: beyond, nothing can be appended.
 * @throws audit_open_failed
 */
export async function openForwardedAudit(
  options: Identity & { readonly file: string | undefined },
  system: Pick<System, 'now'>,
  log: Pick<Log, 'info' | 'warn' | 'error'>,
): Promise<ForwardedAudit> {
  const { file } = options
  if (file !== undefined) {
    const audit = await openAudit({ ...options, file }, system, log)
    const followed = followFile(file)
    return {
      async append(event) {
        await audit.append(event)
        followed.written()
      },
      outgoing: followed,
      [Symbol.asyncDispose]: () => audit[Symbol.asyncDispose](),
    }
  }
  const { chain, outgoing } = openHeldChain()
  const audit = new QueuedAudit(chain, encodeIdentity(options), system, reporter('memory', log))
  return Object.assign(audit, { outgoing })
}

/** Group commit: what is appended in one turn of the event loop goes out in one write at its end. */
class QueuedAudit implements Audit {
  readonly #chain: ChainFile
  readonly #identity: string
  readonly #system: Pick<System, 'now'>
  readonly #report: Reporter
  #queue: Waiting[] = []
  /** Bodies of `finished` events that the disk did not take: they happened, so they are owed to the file. */
  #kept: string[] = []
  #lost = 0
  #isDue = false
  #timer: NodeJS.Timeout | undefined
  #syncing: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(chain: ChainFile, identity: string, system: Pick<System, 'now'>, report: Reporter) {
    this.#chain = chain
    this.#identity = identity
    this.#system = system
    this.#report = report
  }

  append(event: AuditEvent): Promise<void> {
    const isKept = event.event === 'finished'
    if (this.#isClosed) return Promise.reject(unavailable('it is closed'))
    if (this.#queue.length + this.#kept.length >= LIMITS.auditQueueMax) {
      if (isKept) this.#lost += 1
      return Promise.reject(unavailable('too many events wait for the disk'))
    }
    const body = encodeEvent(this.#identity, event, this.#system.now())
    return new Promise((resolve, reject) => {
      this.#queue.push({ body, isKept, resolve, reject })
      this.#start()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#drain()
    clearTimeout(this.#timer)
    await this.#syncing
    await this.#sync()
    if (this.#kept.length + this.#lost > 0) this.#report.gone(this.#kept.length + this.#lost)
    await this.#chain[Symbol.asyncDispose]()
  }

  #start(): void {
    if (this.#isDue) return
    this.#isDue = true
    setImmediate(this.#onTurnEnd)
  }

  readonly #onTurnEnd = (): void => {
    this.#isDue = false
    if (!this.#isClosed) this.#drain()
  }

  #drain(): void {
    if (this.#queue.length + this.#kept.length === 0) return
    try {
      while (this.#queue.length + this.#kept.length > 0) {
        this.#chain.check()
        this.#writeOnce()
      }
      this.#lost = this.#report.works(this.#lost)
    } catch (cause) {
      this.#fail(cause)
    }
    this.#schedule()
  }

  #writeOnce(): void {
    const bodies: string[] = []
    let bytes = 0
    const fits = (body: string): boolean => bodies.length === 0 || bytes + body.length <= LIMITS.auditWriteBytesMax
    const take = (body: string): void => {
      bytes += body.length
      bodies.push(body)
    }
    let kept = 0
    for (let body = this.#kept[0]; body !== undefined && fits(body); body = this.#kept[kept]) {
      take(body)
      kept += 1
    }
    let queued = 0
    for (let next = this.#queue[0]; kept === this.#kept.length && next !== undefined && fits(next.body); next = this.#queue[queued]) {
      take(next.body)
      queued += 1
    }
    this.#chain.write(bodies)
    this.#kept.splice(0, kept)
    for (const { resolve } of this.#queue.splice(0, queued)) resolve()
  }

  /** Fail closed: all that wait are refused, and the next event tries anew. */
  #fail(cause: unknown): void {
    const error = unavailable(cause instanceof ForeignChange ? 'its file was changed by another' : codeOf(cause), cause)
    this.#report.fails(cause)
    for (const { body, isKept, reject } of this.#queue.splice(0)) {
      if (isKept) this.#kept.push(body)
      reject(error)
    }
  }

  /** One timer forces what was written to the disk and, with nothing else to do so, tries to write what is owed. */
  #schedule(): void {
    if (this.#isClosed) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#syncing = this.#sync()
      if (this.#kept.length > 0) this.#start()
    }, LIMITS.auditSyncMs).unref()
  }

  async #sync(): Promise<void> {
    await this.#chain.sync().catch((error: unknown) => this.#report.fails(error))
  }
}

type Reporter = {
  fails(cause: unknown): void
  /** Gives back how many lost events are yet to be reported: none. */
  works(lost: number): 0
  gone(events: number): void
}

/** Writes to the log at each change of state, not at each event. */
function reporter(file: string, log: Pick<Log, 'info' | 'warn' | 'error'>): Reporter {
  let isFailing = false
  return {
    fails(cause) {
      if (isFailing) return
      isFailing = true
      const reason = cause instanceof ForeignChange ? cause.message : codeOf(cause)
      log.error({ file, reason }, 'audit cannot be written: requests are refused until it can')
    },
    works(lost) {
      if (isFailing) log.info({ file }, 'audit can be written again')
      if (lost > 0) log.error({ file, events: lost }, 'audit: ends of requests were not recorded, too many waited')
      isFailing = false
      return 0
    },
    gone(events) {
      log.error({ file, events }, 'audit: ends of requests were not recorded, the file could not be written')
    },
  }
}

/** The message may reach an agent: it does not name the file. */
function unavailable(problem: string, cause?: unknown): SallyportError {
  const isForeign = cause instanceof ForeignChange
  const hint = isForeign
    ? 'the operator verifies the audit file, moves it away and starts anew'
    : 'the operator makes the audit file writable again (free space, permissions), then the same request works'
  return new SallyportError('audit_unavailable', `the audit cannot be written: ${problem}`, { hint, cause })
}
