import { closeSync, constants, existsSync, fdatasyncSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { System } from '../kernel/system.ts'
import type { ChainMark } from '../wire/control.ts'

/** What sidecars recorded: one file a session, line for line as its own chain has it, countersigned in the controller's. */
export type SessionChains = AsyncDisposable & {
  /** All of them on disk when it resolves, and none when it fails: they come again. @throws audit_unavailable */
  append(session: string, lines: readonly string[]): Promise<void>
  /** The last line that is on disk. */
  last(session: string): ChainMark | undefined
  /** Nothing more comes of it. */
  end(session: string): Promise<void>
}

type Chain = {
  readonly descriptor: number
  /** Bytes of whole lines. */
  size: number
  /** The last line, until it is countersigned. */
  pending: ChainMark | undefined
  countersignedMs: number
  timer: NodeJS.Timeout | undefined
}

/** @param folder `audit/sessions` of the home */
export function createSessionChains(folder: string, audit: Pick<Audit, 'append'>, system: Pick<System, 'elapsed'>): SessionChains {
  const open = new Map<string, Chain>()
  const fileOf = (session: string): string => join(folder, `${session}.jsonl`)

  const chainOf = (session: string): Chain => {
    const known = open.get(session)
    if (known !== undefined) return known
    try {
      const chain = openChain(fileOf(session))
      open.set(session, chain)
      return chain
    } catch (cause) {
      throw unavailable(session, cause)
    }
  }
  /** Not each time: a gate that writes line by line would fill the controller's own record, which has a bound, for all sessions. */
  const countersign = async (session: string, chain: Chain): Promise<void> => {
    clearTimeout(chain.timer)
    chain.timer = undefined
    const mark = chain.pending
    if (mark === undefined) return
    await audit.append({ event: 'countersigned', of: session, line: mark.seq, digest: mark.hash })
    if (chain.pending === mark) chain.pending = undefined
    chain.countersignedMs = system.elapsed()
  }
  const later = (session: string, chain: Chain): void => {
    // When it fails, the next lines are refused until it succeeds.
    chain.timer ??= setTimeout(() => void countersign(session, chain).catch(() => undefined), LIMITS.auditCountersignMs).unref()
  }
  const close = async (session: string, chain: Chain): Promise<void> => {
    open.delete(session)
    await countersign(session, chain).catch(() => undefined)
    closeSync(chain.descriptor)
  }

  return {
    async append(session, lines) {
      const chain = chainOf(session)
      const { size, pending } = chain
      try {
        write(chain, lines)
        chain.pending = markOf(lines.at(-1) ?? '') ?? pending
        if (system.elapsed() - chain.countersignedMs >= LIMITS.auditCountersignMs) await countersign(session, chain)
        else later(session, chain)
      } catch (cause) {
        // The sidecar is told that these are not kept, and sends them again.
        ftruncateSync(chain.descriptor, size)
        Object.assign(chain, { size, pending })
        throw unavailable(session, cause)
      }
    },
    last: (session) => (existsSync(fileOf(session)) ? markOf(lastLine(fileOf(session)).text) : undefined),
    async end(session) {
      const chain = open.get(session)
      if (chain !== undefined) await close(session, chain)
    },
    async [Symbol.asyncDispose]() {
      for (const [session, chain] of open) await close(session, chain)
    },
  }
}

/** Behind its last whole line: a piece that a crash left there would become the beginning of the next one. */
function openChain(file: string): Chain {
  const size = existsSync(file) ? lastLine(file).end : 0
  // A link in the place of a file would lead our writes elsewhere.
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
  const descriptor = openSync(file, flags, 0o600)
  ftruncateSync(descriptor, size)
  return { descriptor, size, pending: undefined, countersignedMs: Number.NEGATIVE_INFINITY, timer: undefined }
}

/** @throws EFBIG at the bound: an agent cannot fill the disk of the host */
function write(chain: Chain, lines: readonly string[]): void {
  const bytes = Buffer.from(`${lines.join('\n')}\n`, 'latin1')
  if (chain.size + bytes.length > LIMITS.auditFileBytesMax) throw Object.assign(new Error('it has reached its limit'), { code: 'EFBIG' })
  for (let written = 0; written < bytes.length;) written += writeSync(chain.descriptor, bytes, written)
  fdatasyncSync(chain.descriptor)
  chain.size += bytes.length
}

function unavailable(session: string, cause: unknown): SallyportError {
  const why = cause instanceof SallyportError ? cause.message : codeOf(cause)
  return new SallyportError('audit_unavailable', `the record of session ${session} cannot be written (${why})`, { cause })
}

/** The last whole line, as far as one can reach, and where it ends; a piece of a line that a crash cut off is none. */
function lastLine(file: string): { readonly text: string; readonly end: number } {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const { size } = fstatSync(descriptor)
    const buffer = Buffer.alloc(Math.min(size, 2 * LIMITS.auditLineBytesMax))
    readSync(descriptor, buffer, 0, buffer.length, size - buffer.length)
    const text = buffer.toString('latin1')
    const last = text.lastIndexOf('\n')
    const whole = text.slice(0, Math.max(last, 0))
    return { text: whole.slice(whole.lastIndexOf('\n') + 1), end: size - buffer.length + last + 1 }
  } finally {
    closeSync(descriptor)
  }
}

function markOf(line: string): ChainMark | undefined {
  const seq = /^\{"seq":(\d+),/.exec(line)?.[1]
  const hash = /"hash":"([0-9a-f]{64})"\}$/.exec(line)?.[1]
  return seq === undefined || hash === undefined ? undefined : { seq: Number(seq), hash }
}
