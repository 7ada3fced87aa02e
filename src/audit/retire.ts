import { constants, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../kernel/errors.ts'
import { parseChainFileName } from './chain-names.ts'
import { syncFolder } from './chain-file.ts'
import { lastLink } from './last-link.ts'
import type { AuditEvent } from './line.ts'
import { segmentName, segmentNumbers, SEGMENTS } from './segment-names.ts'

type Retired = Extract<AuditEvent, { event: 'retired' }>

export type RetireParts = {
  readonly folder: string
  /** Milliseconds since 1970: what ended before is deleted. */
  readonly olderThanMs: number
  readonly isLive: (session: string) => boolean
  readonly record: (event: Retired) => Promise<void>
  /** Signs what was recorded, and brings it to the disk. */
  readonly seal: () => Promise<void>
}

/**
 * Deletes files of the audit that are old enough: chains of sessions that are over, then segments from the oldest on, never the last one. Each has
 * a record first, signed and on the disk: what a crash leaves of a deletion still verifies, and is done the next time.
 */
export async function retireOld(parts: RetireParts): Promise<number> {
  const { folder, record, seal } = parts
  const old = [...(await oldChains(parts)), ...(await oldSegments(parts))]
  if (old.length === 0) return 0
  for (const { event } of old) await record(event)
  await seal()
  for (const { file } of old) await rm(file, { force: true })
  await syncFolder(folder)
  return old.length
}

type Old = { readonly file: string; readonly event: Retired }

/** By the file's own time, which the kernel sets: what stands in the lines of a session is the sidecar's word. */
async function oldChains({ folder, olderThanMs, isLive }: RetireParts): Promise<Old[]> {
  const sessions = join(folder, SEGMENTS.sessions)
  const old: Old[] = []
  for (const name of await namesIn(sessions)) {
    const chain = parseChainFileName(name)
    if (chain === undefined || isLive(chain.session)) continue
    const event = await look(join(sessions, name), olderThanMs, { of: chain.session, part: chain.chain })
    if (event !== undefined) old.push({ file: join(sessions, name), event })
  }
  return old
}

async function oldSegments({ folder, olderThanMs }: RetireParts): Promise<Old[]> {
  const old: Old[] = []
  // The last one says where the active one goes on.
  for (const number of (await segmentNumbers(folder)).slice(0, -1)) {
    const file = join(folder, segmentName(number))
    const event = await look(file, olderThanMs, { of: 'controller', part: number })
    if (event === undefined) break
    old.push({ file, event })
  }
  return old
}

/** The record of a file that is old enough. One whose end does not hold is not deleted: it is for a human to see. */
async function look(file: string, olderThanMs: number, which: Pick<Retired, 'of' | 'part'>): Promise<Retired | undefined> {
  await using handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  const { mtimeMs, size } = await handle.stat()
  if (mtimeMs >= olderThanMs) return undefined
  const last = await lastLink(handle)
  if (last === undefined || (which.of === 'controller' && Date.parse(last.time) >= olderThanMs)) return undefined
  return { event: 'retired', ...which, line: last.seq, digest: last.hash, bytes: size }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).toSorted()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  }
}
