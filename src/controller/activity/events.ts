import { join } from 'node:path'
import { entryOf, openToRead } from '../../audit/audit.ts'
import { codeOf } from '../../kernel/errors.ts'
import type { ActivityEvent } from '../../wire/activity.ts'
import type { AuditPlace } from './ring.ts'

/**
 * The lines of the audit at these places, as they are on disk now.
 * @param folder `audit/sessions` of the home
 */
export async function eventsAt(
  folder: string,
  places: readonly AuditPlace[],
): Promise<{ readonly events: readonly ActivityEvent[]; readonly problem?: string }> {
  const events: ActivityEvent[] = []
  for (const { chain, seq, offset, bytes } of places) {
    try {
      await using handle = await openToRead(join(folder, `${chain}.jsonl`))
      if (handle === undefined) return { events, problem: 'the chain was deleted for its age' }
      const buffer = Buffer.alloc(bytes)
      await handle.read(buffer, 0, bytes, offset)
      const { fields } = entryOf(chain, buffer.toString('latin1'))
      if (fields['seq'] !== seq) return { events, problem: `the chain ${chain} has something else where line ${seq} was` }
      events.push({ chain, seq, fields })
    } catch (error) {
      return { events, problem: `the chain ${chain} cannot be read (${codeOf(error)})` }
    }
  }
  return { events }
}
