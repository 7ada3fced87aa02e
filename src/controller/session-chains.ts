import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { chainFileName, parseChainFileName, type Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { System } from '../kernel/system.ts'
import type { ChainMark } from '../wire/control.ts'

/**
 * What sidecars recorded: each chain of a session in a file of its own, line for line as the sidecar has it. That it began, and how far it
 * has come, is recorded in the controller's chain: a chain that is put in, dropped or cut shows there. I15
 */
export type SessionChains = AsyncDisposable & {
  /** All of them on disk when it resolves, and none when it fails: they come again. @throws audit_unavailable */
  append(session: string, lines: readonly string[]): Promise<void>
  /** The last line that is on disk. */
  last(session: string): ChainMark | undefined
  /** What is on its way is kept; what comes later is refused: it would be lines that nobody countersigns. */
  end(session: string): Promise<void>
}

/** Where lines were kept: the first of them begins at that byte of that chain. */
export type KeptAt = { readonly session: string; readonly chain: number; readonly offset: number }

/** The controller's own record. `flush` resolves when all that was acknowledged is on the disk itself. */
export type CountersigningAudit = Pick<Audit, 'append'> & { flush?(): Promise<void> }

type Chain = {
  readonly number: number
  readonly descriptor: number
  /** Bytes of the session's chains before this one. */
  readonly bytesBefore: number
  /** Bytes of whole lines. */
  size: number
  /** The last line, until it is countersigned. */
  pending: ChainMark | undefined
  countersignedMs: number
  timer: NodeJS.Timeout | undefined
}

/**
 * @param folder `audit/sessions` of the home
 * @param onKept hears the lines that are on disk
 */
export function createSessionChains(
  folder: string,
  audit: CountersigningAudit,
  system: Pick<System, 'elapsed'>,
  onKept: (lines: readonly string[], at: KeptAt) => void = () => undefined,
): SessionChains {
  const open = new Map<string, Chain>()
  const turns = createTurns()
  const over = new Set<string>()
  let isClosed = false

  const chainOf = (session: string): Chain => {
    const chain = open.get(session) ?? openNewest(folder, session)
    open.set(session, chain)
    return chain
  }
  const countersign = (session: string, chain: Chain): Promise<void> => countersignIn(audit, system, session, chain)
  const close = async (session: string, chain: Chain): Promise<void> => {
    open.delete(session)
    await countersign(session, chain).catch(() => undefined)
    closeSync(chain.descriptor)
  }
  const begin = async (session: string, before: Chain, digest: string): Promise<Chain> => {
    const number = before.size === 0 ? before.number : before.number + 1
    if (number > LIMITS.auditSessionChainsMax) throw limitReached()
    await countersign(session, before)
    await recordBeginning(audit, session, number, digest)
    if (number === before.number) return before
    const next = openChain(folder, session, number, before.bytesBefore + before.size)
    open.set(session, next)
    closeSync(before.descriptor)
    return next
  }

  const keep = async (session: string, lines: readonly string[]): Promise<void> => {
    let chain: Chain | undefined
    let kept: Pick<Chain, 'size' | 'pending'> | undefined
    try {
      if (isClosed || over.has(session)) throw new SallyportError('audit_unavailable', 'it is over')
      chain = chainOf(session)
      const first = markOf(lines[0] ?? '')
      if (chain.size === 0 || first?.seq === 1) chain = await begin(session, chain, first?.hash ?? '')
      const at = chain
      kept = { size: at.size, pending: at.pending }
      write(chain, lines)
      chain.pending = markOf(lines.at(-1) ?? '') ?? kept.pending
      if (system.elapsed() - chain.countersignedMs >= LIMITS.auditCountersignMs) await countersign(session, chain)
      // When it fails, the next lines are refused until it succeeds.
      else chain.timer ??= setTimeout(() => void countersign(session, at).catch(() => undefined), LIMITS.auditCountersignMs).unref()
      onKept(lines, { session, chain: chain.number, offset: kept.size })
    } catch (cause) {
      // The sidecar is told that these are not kept, and sends them again.
      if (chain !== undefined && kept !== undefined) takeBack(chain, kept)
      throw unavailable(session, cause)
    }
  }

  return {
    append: (session, lines) => turns.take(session, () => keep(session, lines)),
    last: (session) => lastOf(folder, session)?.mark,
    async end(session) {
      over.add(session)
      await turns.take(session, async () => {
        // Also of one that an earlier daemon kept: what it had no time to countersign.
        if (open.has(session) || lastOf(folder, session) !== undefined) await close(session, chainOf(session))
      })
      turns.forget(session)
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await turns.all()
      for (const [session, chain] of open) await close(session, chain)
    },
  }
}

/** Not each time: a gate that writes line by line would fill the controller's own record, which has a bound, for all sessions. */
async function countersignIn(audit: CountersigningAudit, system: Pick<System, 'elapsed'>, session: string, chain: Chain): Promise<void> {
  clearTimeout(chain.timer)
  chain.timer = undefined
  const mark = chain.pending
  if (mark === undefined) return
  const further = chain.number > 1 && { chain: chain.number }
  await audit.append({ event: 'countersigned', of: session, ...further, line: mark.seq, digest: mark.hash })
  if (chain.pending === mark) chain.pending = undefined
  chain.countersignedMs = system.elapsed()
}

/** One thing after the other for each session: the number of a file that was closed meanwhile is another file's. */
function createTurns() {
  const last = new Map<string, Promise<unknown>>()
  return {
    take<T>(session: string, run: () => Promise<T>): Promise<T> {
      const done = (last.get(session) ?? Promise.resolve()).then(run)
      last.set(
        session,
        done.catch(() => undefined),
      )
      return done
    },
    forget: (session: string) => void last.delete(session),
    all: async () => void (await Promise.all(last.values())),
  }
}

/** For good, before its first line is kept: a chain that the controller's own does not know was put there by another. */
async function recordBeginning(audit: CountersigningAudit, session: string, chain: number, digest: string): Promise<void> {
  await audit.append({ event: 'chain_begun', of: session, chain, digest })
  await audit.flush?.()
}

/** The chain that a session goes on with: its newest one that has a line, or its first. */
function openNewest(folder: string, session: string): Chain {
  const last = lastOf(folder, session)
  return openChain(folder, session, last?.number ?? 1, last?.bytesBefore ?? 0, last)
}

/** Behind its last whole line: a piece that a crash left there would become the beginning of the next one. */
function openChain(folder: string, session: string, number: number, bytesBefore: number, last?: Last): Chain {
  // A link in the place of a file would lead our writes elsewhere.
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
  const descriptor = openSync(join(folder, chainFileName({ session, chain: number })), flags, 0o600)
  const size = last?.end ?? 0
  ftruncateSync(descriptor, size)
  if (size === 0) syncFolder(folder)
  return {
    number,
    descriptor,
    bytesBefore,
    size,
    pending: last?.mark,
    countersignedMs: Number.NEGATIVE_INFINITY,
    timer: undefined,
  }
}

/** @throws EFBIG at the bound of a session: an agent cannot fill the disk of the host */
function write(chain: Chain, lines: readonly string[]): void {
  const bytes = Buffer.from(`${lines.join('\n')}\n`, 'latin1')
  if (chain.bytesBefore + chain.size + bytes.length > LIMITS.auditFileBytesMax) throw limitReached()
  for (let written = 0; written < bytes.length;) written += writeSync(chain.descriptor, bytes, written)
  fdatasyncSync(chain.descriptor)
  chain.size += bytes.length
}

function takeBack(chain: Chain, kept: Pick<Chain, 'size' | 'pending'>): void {
  ftruncateSync(chain.descriptor, kept.size)
  Object.assign(chain, kept)
}

function limitReached(): Error {
  return Object.assign(new Error('it has reached its limit'), { code: 'EFBIG' })
}

function unavailable(session: string, cause: unknown): SallyportError {
  const why = cause instanceof SallyportError ? cause.message : codeOf(cause)
  return new SallyportError('audit_unavailable', `the record of session ${session} cannot be written (${why})`, { cause })
}

type Last = { readonly number: number; readonly bytesBefore: number; readonly mark: ChainMark | undefined; readonly end: number }

/** The last whole line of a session's newest chain that has one. */
function lastOf(folder: string, session: string): Last | undefined {
  const numbers = readdirSync(folder)
    .map(parseChainFileName)
    .flatMap((name) => (name?.session === session ? [name.chain] : []))
    .toSorted((a, b) => a - b)
  let bytesBefore = 0
  let last: Last | undefined
  for (const number of numbers) {
    const { text, end } = lastLine(join(folder, chainFileName({ session, chain: number })))
    if (end === 0) continue
    last = { number, bytesBefore, mark: markOf(text), end }
    bytesBefore += end
  }
  return last
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
    return { text: whole.slice(whole.lastIndexOf('\n') + 1), end: last === -1 ? 0 : size - buffer.length + last + 1 }
  } finally {
    closeSync(descriptor)
  }
}

function syncFolder(folder: string): void {
  const descriptor = openSync(folder, constants.O_RDONLY)
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

function markOf(line: string): ChainMark | undefined {
  const seq = /^\{"seq":(\d+),/.exec(line)?.[1]
  const hash = /"hash":"([0-9a-f]{64})"\}$/.exec(line)?.[1]
  return seq === undefined || hash === undefined ? undefined : { seq: Number(seq), hash }
}
