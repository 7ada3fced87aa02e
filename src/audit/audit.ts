import { SallyportError } from '../kernel/errors.ts'
import type { Log } from '../kernel/log.ts'
import type { System } from '../kernel/system.ts'
import { openChainFile } from './chain-file.ts'
import { followFile } from './followed-file.ts'
import { openHeldChain } from './held-chain.ts'
import { encodeIdentity, type Identity } from './line.ts'
import type { Outgoing } from './outgoing.ts'
import { QueuedAudit, reporter, type Audit } from './queued-audit.ts'

export { chainFileName, parseChainFileName } from './chain-names.ts'
export type { AuditEvent, Lane, QuestionEvent, RequestAuditEvent, ToolEvent } from './line.ts'
export { auditFiles, entryOf, openToRead, readEntries, readLines, type AuditFile, type Entry } from './entries.ts'
export { EXPORT_FORMATS } from './export.ts'
export { createFilter, createPreview, type EntryFilter } from './filter.ts'
export { createStats, type AuditStats } from './stats.ts'
export { exportedText, latestEntries, placeOf, storyOf, type EntryPlace } from './read-back.ts'
export { block, describe, jsonLine, membersOf, oneLine, summary } from './words.ts'
export { readVerifyingKey } from './signing-key.ts'
export { openControllerAudit, type ControllerAudit } from './controller-audit.ts'
export { readLine as readAuditLine, sessionOfLine } from './read-line.ts'
export type { Outgoing } from './outgoing.ts'
export type { Audit } from './queued-audit.ts'
export { syslogMessage } from './syslog.ts'
export { verifyAudit } from './verify.ts'
export { verifyAuditFolder, type FolderFound } from './verify-folder.ts'

/** An audit whose lines go to another keeper too. */
export type ForwardedAudit = Audit & { readonly outgoing: Outgoing }

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
