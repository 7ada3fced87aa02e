import { closeSync, constants, existsSync, fdatasyncSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { ChainMark } from '../wire/control.ts'

/** What sidecars recorded: one file a session, line for line as its own chain has it, countersigned in the controller's. */
export type SessionChains = Disposable & {
  /** On disk when it resolves. @throws audit_unavailable */
  append(session: string, lines: readonly string[]): Promise<void>
  /** The last line that is on disk. */
  last(session: string): ChainMark | undefined
}

/** @param folder `audit/sessions` of the home */
export function createSessionChains(folder: string, audit: Audit): SessionChains {
  const open = new Map<string, number>()
  const fileOf = (session: string): string => join(folder, `${session}.jsonl`)
  const descriptorOf = (session: string): number => {
    const known = open.get(session)
    if (known !== undefined) return known
    // A link in the place of a file would lead our writes elsewhere.
    const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
    const descriptor = openSync(fileOf(session), flags, 0o600)
    open.set(session, descriptor)
    return descriptor
  }
  return {
    async append(session, lines) {
      try {
        const descriptor = descriptorOf(session)
        const bytes = Buffer.from(`${lines.join('\n')}\n`, 'latin1')
        for (let written = 0; written < bytes.length;) written += writeSync(descriptor, bytes, written)
        fdatasyncSync(descriptor)
      } catch (cause) {
        throw new SallyportError('audit_unavailable', `the record of session ${session} cannot be written (${codeOf(cause)})`, { cause })
      }
      const mark = markOf(lines.at(-1) ?? '')
      if (mark) await audit.append({ event: 'countersigned', of: session, line: mark.seq, digest: mark.hash })
    },
    last: (session) => (existsSync(fileOf(session)) ? markOf(lastLine(fileOf(session))) : undefined),
    [Symbol.dispose]() {
      for (const descriptor of open.values()) closeSync(descriptor)
      open.clear()
    },
  }
}

/** The end of the file, as far as one line can reach; a piece of a line that a crash cut off is none. */
function lastLine(file: string): string {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const { size } = fstatSync(descriptor)
    const buffer = Buffer.alloc(Math.min(size, 2 * LIMITS.auditLineBytesMax))
    readSync(descriptor, buffer, 0, buffer.length, size - buffer.length)
    const text = buffer.toString('latin1')
    const whole = text.slice(0, text.lastIndexOf('\n'))
    return whole.slice(whole.lastIndexOf('\n') + 1)
  } finally {
    closeSync(descriptor)
  }
}

function markOf(line: string): ChainMark | undefined {
  const seq = /^\{"seq":(\d+),/.exec(line)?.[1]
  const hash = /"hash":"([0-9a-f]{64})"\}$/.exec(line)?.[1]
  return seq === undefined || hash === undefined ? undefined : { seq: Number(seq), hash }
}
