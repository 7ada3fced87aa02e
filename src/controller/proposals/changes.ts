import { createHash } from 'node:crypto'
import { lstat, readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import * as z from 'zod'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { readPrivateFile, removePrivateFile, replacePrivateFile } from '../../kernel/private-file.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import type { ProposalView } from '../../wire/operator.ts'
import { ProposalSubject } from '../../wire/question.ts'

/** A change that was applied, as it can be taken back. `before` is undefined where there was no file. */
const Applied = z.strictObject({
  id: z.string(),
  of: ProposalSubject.shape.of,
  target: z.string(),
  before: z.string().optional(),
  after: z.string(),
  /** The page, for a change that the operator made on it; else an agent proposed it. */
  by: z.literal('page').optional(),
  appliedAt: z.int(),
  revertedAt: z.int().optional(),
})
export type Applied = z.infer<typeof Applied>

/** What became of the operator's files. */
export type ChangeEvent = {
  readonly what: 'applied' | 'reverted'
  readonly id: string
  readonly of: Applied['of']
  readonly by?: Applied['by']
  readonly target: string
  readonly digest: string
}

export type ChangesParts = {
  readonly home: string
  /** Written before the file changes. @throws when it cannot be */
  audit(event: ChangeEvent): Promise<void>
  /** What is there to be done once a file has changed, as the sessions of its workspace are to have it. */
  onChanged(of: ProposalSubject['of'], workspace: string | undefined, by: Applied['by']): Promise<void>
  readonly system: Pick<System, 'now' | 'random'>
}

/** The files that are changed, and what they were before: one change at a time. */
export type Changes = {
  /** Has nothing of ours change a file between a look at it and its change. */
  inTurn<T>(work: () => Promise<T>): Promise<T>
  /** @throws proposal_outdated when the file is not `before` any more */
  apply(applied: Applied, workspace: string | undefined): Promise<ProposalView>
  /** One of them, with its texts. */
  get(id: string): Promise<Applied | undefined>
  list(): Promise<ProposalView[]>
  /** @param by who takes it back, where an agent proposed it @throws proposal_invalid, proposal_outdated */
  takeBack(id: string, by?: Applied['by']): Promise<ProposalView>
}

const ID = /^[A-Za-z0-9_-]{8,64}$/

export function createChanges(parts: ChangesParts): Changes {
  const { home, system } = parts
  const recordOf = (id: string): string => join(home, 'proposals', `${id}.json`)
  let turn: Promise<unknown> = Promise.resolve()
  /** Between a look at a file and its change nothing of ours changes it. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const mine = turn.then(work)
    turn = mine.catch(() => undefined)
    return mine
  }

  /** What was shown is the change from these bytes: to others it would be another one. */
  async function apply(applied: Applied, workspace: string | undefined): Promise<ProposalView> {
    const { id, of, by, target, before, after } = applied
    if ((await textOf(home, target)) !== before) throw outdated(target)
    await parts.audit({ what: 'applied', id, of, by, target, digest: digestOf(after) })
    await replacePrivateFile(recordOf(id), JSON.stringify(applied), system)
    try {
      await replacePrivateFile(target, after, system)
    } catch (error) {
      // It was not applied: nobody is to see it as one that was.
      await removePrivateFile(recordOf(id)).catch(() => undefined)
      throw error
    }
    await parts.onChanged(of, workspace, by)
    return viewOf(applied)
  }

  async function takeBack(id: string, by: Applied['by']): Promise<ProposalView> {
    const applied = ID.test(id) ? await readRecord(recordOf(id)) : undefined
    if (applied === undefined || applied.revertedAt !== undefined)
      throw new SallyportError('proposal_invalid', `there is no change "${shown(id)}" that could be taken back`)
    const { of, target, before, after } = applied
    if ((await textOf(home, target)) !== after) throw outdated(target)
    await parts.audit({ what: 'reverted', id, of, by, target, digest: digestOf(before ?? '') })
    if (before === undefined) await removePrivateFile(target)
    else await replacePrivateFile(target, before, system)
    const reverted = { ...applied, revertedAt: system.now() }
    await replacePrivateFile(recordOf(id), JSON.stringify(reverted), system)
    await parts.onChanged(of, undefined, by)
    return viewOf(reverted)
  }

  return {
    inTurn,
    apply: (applied, workspace) => inTurn(() => apply(applied, workspace)),
    takeBack: (id, by) => inTurn(() => takeBack(id, by)),
    get: (id) => (ID.test(id) ? readRecord(recordOf(id)) : Promise.resolve(undefined)),
    async list() {
      const names = await readdir(join(home, 'proposals')).catch((error: unknown) => {
        if (codeOf(error) === 'ENOENT') return []
        throw error
      })
      const found = await Promise.all(
        names.filter((name) => name.endsWith('.json')).map((name) => readRecord(join(home, 'proposals', name))),
      )
      return found
        .flatMap((applied) => (applied === undefined ? [] : [viewOf(applied)]))
        .toSorted((one, another) => another.appliedAt - one.appliedAt)
        .slice(0, LIMITS.proposalsListedMax)
    },
  }
}

function viewOf({ id, of, target, appliedAt, revertedAt }: Applied): ProposalView {
  return { id, of, target, appliedAt, ...(revertedAt !== undefined && { revertedAt }) }
}

function outdated(target: string): SallyportError {
  return new SallyportError('proposal_outdated', `${target} has changed since`, { hint: 'look at it as it is now, and propose again' })
}

/**
 * The file as it is. A link, or a folder above it that is one, would bring the change to a file that nobody spoke of.
 * @throws proposal_invalid
 */
export async function textOf(home: string, file: string): Promise<string | undefined> {
  const invalid = (why: string): SallyportError => new SallyportError('proposal_invalid', `${file} ${why}`)
  for (let folder = dirname(file); folder !== home; folder = dirname(folder)) {
    const found = await lstat(folder).catch(absent)
    if (found !== undefined && !found.isDirectory()) throw invalid(`cannot be changed: ${folder} is a link, or no folder`)
  }
  const found = await lstat(file).catch(absent)
  if (found === undefined) return undefined
  if (!found.isFile()) throw invalid('cannot be changed: it is a link, or no file')
  if (found.size > LIMITS.proposalRecordBytesMax) throw invalid(`has more than ${LIMITS.proposalRecordBytesMax} bytes`)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await readFile(file))
  } catch (cause) {
    throw new SallyportError('proposal_invalid', `${file} cannot be read as text (${codeOf(cause)})`, { cause })
  }
}

function absent(error: unknown): undefined {
  if (codeOf(error) !== 'ENOENT') throw error
}

async function readRecord(file: string): Promise<Applied | undefined> {
  const text = await readPrivateFile(file, LIMITS.proposalRecordBytesMax)
  try {
    return text === undefined ? undefined : Applied.safeParse(JSON.parse(text)).data
  } catch {
    // Cut or written by others: it is none of ours, and hides no other.
    return undefined
  }
}

export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
