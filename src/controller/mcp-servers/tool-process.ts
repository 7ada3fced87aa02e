import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import { visible } from '../../kernel/visible.ts'
import { createRedactor, type Redactor } from '../../redactor/redactor.ts'
import type { ToolAnswer } from '../../wire/control.ts'
import type { Sibling } from '../sessions/sessions.ts'
import { linesOf } from './lines.ts'

/** A server that runs, for one client. */
export type ToolProcess = {
  /** @throws mcp_server_failed when it has ended, or does not read */
  send(message: string): Promise<void>
  /** What it said behind that number, and waits for it. What was said up to there is forgotten. */
  receive(after: number, signal: AbortSignal): Promise<ToolAnswer>
  /** Its container is gone when this resolves. */
  end(how: string): Promise<void>
  readonly ended: Promise<unknown>
}

export type ToolProcessParts = {
  readonly name: string
  /** Its own: what it says is looked through for them. */
  readonly secrets: readonly Secret[]
  /** For the log. */
  readonly of: Readonly<Record<string, string>>
  readonly record: (code: string, exitCode?: number, scrubbed?: number) => Promise<void>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly system: Pick<System, 'elapsed'>
}

/** Speaks lines of JSON with a program (2025-11-25, transports, stdio), and ends it when its time is over. */
export function openToolProcess(sibling: Sibling, parts: ToolProcessParts): ToolProcess {
  return new Process(sibling, parts)
}

class Process implements ToolProcess {
  readonly #sibling: Sibling
  readonly #parts: ToolProcessParts
  readonly #redactor: Redactor
  readonly #over = Promise.withResolvers<void>()
  readonly #looking: NodeJS.Timeout
  #messages: { readonly number: number; readonly text: string }[] = []
  #bytes = 0
  #last = 0
  #scrubbed = 0
  #stirred = Promise.withResolvers<void>()
  #ending: Promise<void> | undefined
  #how: string | undefined
  #askedMs: number
  #saidMs: number

  constructor(sibling: Sibling, parts: ToolProcessParts) {
    this.#sibling = sibling
    this.#parts = parts
    this.#redactor = createRedactor(parts.secrets)
    this.#askedMs = this.#saidMs = parts.system.elapsed()
    this.#looking = setInterval(() => this.#look(), LIMITS.toolLookMs).unref()
    sibling.stdin.on('error', () => undefined)
    void this.#read()
    void this.#log()
    void sibling.exited.then(
      ({ exitCode, outOfMemory }) =>
        this.#end(outOfMemory ? 'needed more memory than it may have' : `ended with code ${exitCode}`, exitCode),
      () => this.#end('was lost'),
    )
  }

  get ended(): Promise<void> {
    return this.#over.promise
  }

  async send(message: string): Promise<void> {
    if (this.#how !== undefined) throw this.#failed(this.#how)
    this.#saidMs = this.#parts.system.elapsed()
    const { stdin } = this.#sibling
    // One message is one line.
    if (stdin.write(`${message.replaceAll(/[\r\n]/g, ' ')}\n`)) return
    const bound = AbortSignal.timeout(LIMITS.toolWriteMs)
    await Promise.race([once(stdin, 'drain', { signal: bound }).catch(() => undefined), this.#over.promise])
    if (!bound.aborted && this.#how === undefined) return
    void this.#end('does not read what it is sent')
    throw this.#failed(this.#how ?? 'does not read what it is sent')
  }

  async receive(after: number, signal: AbortSignal): Promise<ToolAnswer> {
    this.#askedMs = this.#parts.system.elapsed()
    this.#messages = this.#messages.filter(({ number, text }) => {
      if (number > after) return true
      this.#bytes -= text.length
      return false
    })
    this.#stir()
    if (this.#messages.length === 0 && this.#how === undefined) {
      const waiting = new AbortController()
      const late = sleep(LIMITS.toolReceiveMs, undefined, { signal: AbortSignal.any([signal, waiting.signal]), ref: false }).catch(
        () => undefined,
      )
      while (this.#messages.length === 0 && this.#how === undefined) {
        const isLate = await Promise.race([late.then(() => true), this.#stirred.promise.then(() => false)])
        if (isLate) break
      }
      waiting.abort()
    }
    const messages = this.#messages.slice(0, LIMITS.toolMessagesMax)
    const isAll = messages.length === this.#messages.length
    return {
      messages: messages.map(({ text }) => text),
      next: messages.at(-1)?.number ?? after,
      ...(isAll && this.#how !== undefined && { ended: this.#how }),
    }
  }

  end(how: string): Promise<void> {
    return this.#end(how)
  }

  /** Once, whoever ends it. */
  #end(how: string, exitCode?: number): Promise<void> {
    this.#ending ??= (async () => {
      this.#how = how
      clearInterval(this.#looking)
      this.#stir()
      try {
        await this.#sibling[Symbol.asyncDispose]()
      } catch (error) {
        this.#parts.log.warn({ ...this.#parts.of, code: codeOf(error) }, 'the container of an MCP server could not be removed yet')
      }
      await this.#parts.record(how, exitCode, this.#scrubbed)
      this.#over.resolve()
    })()
    return this.#ending
  }

  #look(): void {
    const now = this.#parts.system.elapsed()
    if (now - this.#askedMs > LIMITS.toolAbandonedMs) void this.#end('was left by the gate')
    else if (now - this.#saidMs > LIMITS.toolIdleMs) void this.#end('was not used')
  }

  async #read(): Promise<void> {
    try {
      for await (const line of linesOf(this.#sibling.stdout, LIMITS.toolAnswerBytesMax)) {
        const text = this.#cleaned(line)
        if (text === undefined) continue
        this.#saidMs = this.#parts.system.elapsed()
        this.#last += 1
        this.#messages.push({ number: this.#last, text })
        this.#bytes += text.length
        this.#stir()
        // Until the gate has taken some: what the program says then stays in its pipe.
        while (this.#bytes > LIMITS.toolQueueBytesMax - LIMITS.toolAnswerBytesMax && this.#how === undefined) await this.#stirred.promise
        if (this.#how !== undefined) return
      }
    } catch {
      void this.#end('said a line that is too long')
    }
  }

  /** I1: a message without the server's own secrets. What is no JSON is none; what is no message of JSON-RPC neither. */
  #cleaned(line: Buffer): string | undefined {
    let value: unknown
    try {
      value = JSON.parse(line.toString('utf8'))
    } catch {
      return undefined
    }
    if (typeof value !== 'object' || value === null) return undefined
    // Written anew, each character has one spelling.
    const bytes = Buffer.from(JSON.stringify(value))
    if (this.#redactor.isClean(bytes)) return bytes.toString('utf8')
    const stream = this.#redactor.open()
    const text = stream.last(bytes).toString('utf8')
    this.#scrubbed += stream.hits
    try {
      JSON.parse(text)
      return text
    } catch {
      return undefined
    }
  }

  async #log(): Promise<void> {
    let lines = 0
    try {
      for await (const line of linesOf(this.#sibling.stderr, LIMITS.toolAnswerBytesMax)) {
        lines += 1
        if (lines > LIMITS.toolLogLinesMax) continue
        const text = this.#redactor.open().last(line).toString('utf8').slice(0, LIMITS.toolLogCharsMax)
        this.#parts.log.info({ ...this.#parts.of, line: visible(text) }, 'an MCP server says')
      }
    } catch {
      // A line that is too long: the rest is read, so that the program does not stand still, and shown to nobody.
      this.#sibling.stderr.resume()
    }
  }

  #stir(): void {
    this.#stirred.resolve()
    this.#stirred = Promise.withResolvers()
  }

  #failed(why: string): SallyportError {
    return new SallyportError('mcp_server_failed', `the MCP server "${this.#parts.name}" ${why}`)
  }
}
