import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openControllerAudit, type ControllerAudit } from '../../src/audit/audit.ts'
import { createSessionChains } from '../../src/controller/session-chains.ts'
import { encodeEvent, encodeIdentity, GENESIS, sealLine } from '../../src/audit/line.ts'
import { system } from '../../src/kernel/system.ts'
import { decided, NOW, recordingLog, temporaryFolder } from './audit.ts'

export const SESSION = 'a'.repeat(16)

export type AuditPlace = AsyncDisposable & {
  readonly home: string
  readonly folder: string
  /** Milliseconds that the clock is ahead. */
  ahead: number
  open(options?: { rotateBytes?: number; onWritten?: (text: string) => void }): Promise<ControllerAudit>
}

/** A home with an audit in it, whose clock the test has in its hand. */
export async function openAuditPlace(): Promise<AuditPlace> {
  const { path: home, [Symbol.asyncDispose]: remove } = await temporaryFolder()
  const folder = join(home, 'audit')
  await mkdir(join(folder, 'sessions'), { recursive: true })
  const place = {
    home,
    folder,
    ahead: 0,
    open: (options = {}) =>
      openControllerAudit(
        { folder, keyFile: join(home, 'audit.key'), ...options },
        { ...system, now: () => NOW + place.ahead },
        recordingLog().log,
      ),
    [Symbol.asyncDispose]: remove,
  }
  return place
}

/** The lines of a gate's own chain, without newlines. */
export function gateLines(count: number, name = 'r'): string[] {
  let prev = GENESIS
  return Array.from({ length: count }, (_, at) => {
    const { line, hash } = sealLine(at + 1, encodeEvent(encodeIdentity({ session: SESSION }), decided(`${name}${at + 1}`), NOW), prev)
    prev = hash
    return line.slice(0, -1)
  })
}

/** Records so many events, one after the other. */
export async function record(audit: Pick<ControllerAudit, 'append'>, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, n) => audit.append({ event: 'operator', did: 'tested', details: `number ${n}` })))
}

/** Chains of a session in the audit: one for each list of lines. */
export async function keepChains(place: AuditPlace, audit: ControllerAudit, ...chains: readonly string[][]): Promise<void> {
  await using kept = createSessionChains(join(place.folder, 'sessions'), audit, { elapsed: () => 0 })
  for (const lines of chains) await kept.append(SESSION, lines)
}
