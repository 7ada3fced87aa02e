import { readdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { replacePrivateFile } from '../../kernel/private-file.ts'
import type { System } from '../../kernel/system.ts'
import { digestOf, textOf, type Changes } from '../proposals/changes.ts'
import type { Audit } from '../../audit/audit.ts'
import { isSessionId } from '../sessions/session-names.ts'
import { editedText, endedRules } from './edits.ts'

export type TimedParts = {
  readonly home: string
  readonly changes: Pick<Changes, 'inTurn'>
  /** Whether a session of this id is not over. */
  readonly isLive: (session: string) => boolean
  /** Sessions that have this file read their policy anew. */
  readonly refresh: (of: { readonly session?: string; readonly file: string }) => Promise<unknown>
  readonly audit: Pick<Audit, 'append'>
  readonly system: Pick<System, 'now' | 'random'>
  readonly log: Pick<Log, 'error'>
}

/**
 * Takes rules that are over out of the files of what is allowed for a time, and files of sessions that are over away: now, and from time to
 * time. Every gate ends such rules by itself, to the second; what remains is litter.
 */
export async function keepTimed(parts: TimedParts): Promise<AsyncDisposable> {
  const { log } = parts
  const look = (): Promise<void> =>
    sweep(parts).catch((error: unknown) => log.error({ cause: codeOf(error) }, 'what was allowed for a time could not be looked over'))
  let looking = look()
  await looking
  const timer = setInterval(() => void (looking = look()), LIMITS.timedLookMs).unref()
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await looking
    },
  }
}

async function sweep({ home, changes, isLive, refresh, audit, system }: TimedParts): Promise<void> {
  const folder = join(home, 'policies', 'timed')
  const names = await readdir(folder).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  })
  for (const name of names.filter((one) => one.endsWith('.yaml'))) {
    const file = join(folder, name)
    const session = isSessionId(name.slice(0, -'.yaml'.length)) ? name.slice(0, -'.yaml'.length) : undefined
    if (session !== undefined && !isLive(session)) {
      await changes.inTurn(() => unlink(file))
      continue
    }
    const isCut = await changes.inTurn(async () => {
      const text = await textOf(home, file)
      const ended = text === undefined ? [] : endedRules(text, system.now())
      if (text === undefined || ended.length === 0) return false
      const after = editedText(text, { kind: 'prune' }, { file, prunedAt: system.now() })
      await audit.append({
        event: 'config_changed',
        of: 'policy',
        what: file,
        did: 'ended',
        digest: digestOf(after),
        by: `the end of ${ended.join(', ')}`,
      })
      await replacePrivateFile(file, after, system)
      return true
    })
    if (isCut) await refresh({ file, ...(session !== undefined && { session }) })
  }
}
