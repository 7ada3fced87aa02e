import { hostname } from 'node:os'
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import {
  auditFiles,
  EXPORT_FORMATS,
  exportedText,
  latestEntries,
  membersOf,
  placeOf,
  storyOf,
  summary,
  type Entry,
  type EntryPlace,
  type EntryFilter,
} from '../../audit/audit.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { shown } from '../../kernel/shown.ts'
import { visible } from '../../kernel/visible.ts'
import type { AuditEntryView, AuditPage, AuditStory } from '../../wire/audit-views.ts'
import type { Verification } from '../record/verification.ts'
import { read } from './session-routes.ts'

const Word = z.string().min(1).max(4_096)
const Time = z.iso.datetime().transform((text) => Date.parse(text))
const Filter = z.strictObject({
  session: Word.exactOptional(),
  workspace: Word.exactOptional(),
  event: Word.exactOptional(),
  decision: z.enum(['allow', 'deny']).exactOptional(),
  host: Word.exactOptional(),
  code: Word.exactOptional(),
  text: Word.exactOptional(),
  since: Time.exactOptional(),
  until: Time.exactOptional(),
})
/** `TIME/CHAIN:SEQ` */
const PLACE = /^([^/]{0,64})\/([^/:]{1,256}):(\d{1,15})$/
const Query = Filter.extend({
  /** The oldest event that is known, as `next` said. */
  before: z
    .string()
    .regex(PLACE)
    .transform((text): EntryPlace => {
      const [, time = '', chain = '', seq = ''] = PLACE.exec(text) ?? []
      return { time, chain, seq: Number(seq) }
    })
    .exactOptional(),
  limit: z.coerce.number().int().min(1).max(LIMITS.auditPageEntriesMax).default(LIMITS.auditPageEntriesMax),
})
const Export = Filter.extend({ format: z.enum(EXPORT_FORMATS) })

/** The audit for the page: what `sallyport audit list|show|export|verify` read. */
export function addAuditRoutes(app: FastifyInstance, folder: string, verification: Pick<Verification, 'verify'>): void {
  app.get('/v1/audit', async ({ query }): Promise<AuditPage> => {
    const { before, limit, ...asked } = read(Query, query)
    const entries = await latestEntries(await auditFiles(folder), filterOf(asked), limit, before)
    const [oldest] = entries.map(placeOf)
    const next = oldest && entries.length === limit && `${oldest.time}/${oldest.chain}:${oldest.seq}`
    return { entries: entries.map(viewOf).toReversed(), ...(next && { next }) }
  })
  app.get<{ Params: { id: string } }>('/v1/audit/story/:id', async ({ params }): Promise<AuditStory> => {
    const { entries, signedBy } = await storyOf(params.id, await auditFiles(folder))
    if (entries.length === 0)
      throw new SallyportError('audit_event_not_found', `there is nothing of "${shown(params.id)}" in the audit`, {
        hint: 'it may have been deleted for its age',
      })
    return { entries: entries.map(viewOf), signedBy: signedBy.map(viewOf) }
  })
  app.post('/v1/audit/verify', () => verification.verify())
  app.get('/v1/audit/export', async ({ query }, reply) => {
    const { format, ...asked } = read(Export, query)
    const text = exportedText(await auditFiles(folder), filterOf(asked), format, hostname())
    return reply
      .type(format === 'csv' ? 'text/csv; charset=us-ascii' : 'application/octet-stream')
      .send(Readable.from(text, { objectMode: false }))
  })
}

function filterOf({ since, until, event, ...same }: z.infer<typeof Filter>): EntryFilter {
  return { ...same, ...(event !== undefined && { event: [event] }), sinceMs: since, untilMs: until }
}

function viewOf(entry: Entry): AuditEntryView {
  const { event } = entry.fields
  return {
    ...placeOf(entry),
    event: typeof event === 'string' ? event : '',
    summary: visible(summary(entry.fields)),
    fields: membersOf(entry),
  }
}
