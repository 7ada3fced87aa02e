import { join } from 'node:path'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import type { System } from '../kernel/system.ts'
import { encodeIdentity } from './line.ts'
import { QueuedAudit, reporter, type Audit } from './queued-audit.ts'
import { retireOld } from './retire.ts'
import { openSegments } from './segments.ts'
import { SEGMENTS } from './segment-names.ts'
import { openSigningKey } from './signing-key.ts'

/** The controller's own record: signed at intervals, in segments, and kept as long as it must be. */
export type ControllerAudit = Audit & {
  /** Resolves when all that was acknowledged is on the disk itself. */
  flush(): Promise<void>
  /** Deletes what is older, with a record of it that is signed before; gives how many files. @throws audit_unavailable: then nothing was */
  retire(options: { readonly olderThanMs: number; readonly isLive: (session: string) => boolean }): Promise<number>
}

export type ControllerAuditOptions = {
  readonly folder: string
  /** Where the key is that signs. */
  readonly keyFile: string
  readonly rotateBytes?: number
  /** Hears the lines that were added, with their newlines. Must not throw. */
  readonly onWritten?: (text: string) => void
}

/**
 * The audit of a home, continued or begun.
 * @throws audit_open_failed when it was cut or does not hold; audit_key_invalid
 */
export async function openControllerAudit(
  { folder, keyFile, rotateBytes = LIMITS.auditRotateBytes, onWritten = () => undefined }: ControllerAuditOptions,
  system: Pick<System, 'now' | 'elapsed' | 'random'>,
  log: Pick<Log, 'info' | 'warn' | 'error'>,
): Promise<ControllerAudit> {
  const key = await openSigningKey(keyFile, join(folder, SEGMENTS.publicKey), system)
  const identity = encodeIdentity({ session: 'controller' })
  const report = reporter(folder, log)
  const chain = await openSegments({ folder, identity, key, rotateBytes, system, onWritten, onFault: (error) => report.fails(error) })
  const audit = new QueuedAudit(chain, identity, system, report)
  if (chain.recoveredBytes > 0) {
    log.warn({ folder, bytes: chain.recoveredBytes }, 'audit: an unfinished last line was cut off')
    try {
      await audit.append({ event: 'recovered', bytes: chain.recoveredBytes })
    } catch (cause) {
      await audit[Symbol.asyncDispose]()
      throw new SallyportError('audit_open_failed', `${folder}: ${String(cause)}`, { cause })
    }
  }
  return Object.assign(audit, {
    flush: () => chain.sync(),
    retire: ({ olderThanMs, isLive }) =>
      retireOld({
        folder,
        olderThanMs,
        isLive,
        record: (event) => audit.append(event),
        async seal() {
          chain.checkpoint()
          await chain.sync()
        },
      }),
  } satisfies Omit<ControllerAudit, keyof Audit>)
}
