import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { openToRead, parseChainFileName, readLines } from '../../audit/audit.ts'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import type { KeptAt } from '../session-chains.ts'
import { isTold } from './read-line.ts'

/** A line of a chain, and where it is. */
export type EarlierLine = { readonly text: string; readonly at: KeptAt }

type ChainFile = {
  readonly file: string
  readonly session: string
  readonly chain: number
  readonly size: number
  readonly changedMs: number
}

/**
 * What is about requests in the newest part of the chains of sessions, `LIMITS.activityReadBytesMax` of all together, in the order in which
 * it happened. What cannot be read is left out: the audit itself is verified elsewhere.
 * @param folder `audit/sessions` of the home
 */
export async function readEarlier(folder: string, log: Pick<Log, 'warn'>): Promise<EarlierLine[]> {
  const found: { readonly line: EarlierLine; readonly timeMs: number }[] = []
  let left: number = LIMITS.activityReadBytesMax
  for (const one of await newestFirst(folder)) {
    if (left <= 0) break
    const from = Math.max(0, one.size - left)
    left -= one.size - from
    try {
      let timeMs = 0
      for await (const line of linesOf(one, from)) {
        // In the order of their chain, wherever a clock was set back.
        timeMs = Math.max(timeMs, timeOf(line.text))
        found.push({ line, timeMs })
      }
    } catch (error) {
      log.warn({ file: one.file, cause: codeOf(error) }, 'activity: a chain could not be read')
    }
  }
  return found.toSorted((a, b) => a.timeMs - b.timeMs).map(({ line }) => line)
}

async function newestFirst(folder: string): Promise<ChainFile[]> {
  const found: ChainFile[] = []
  for (const name of await readdir(folder)) {
    const chain = parseChainFileName(name)
    const file = join(folder, name)
    const facts = chain && (await stat(file).catch(() => undefined))
    if (chain !== undefined && facts?.isFile() === true) found.push({ file, ...chain, size: facts.size, changedMs: facts.mtimeMs })
  }
  return found.toSorted((a, b) => b.changedMs - a.changedMs)
}

async function* linesOf({ file, session, chain }: ChainFile, from: number): AsyncGenerator<EarlierLine, void> {
  await using handle = await openToRead(file)
  if (handle === undefined) return
  // One byte more: where a line begins there is the end of the one before, and what comes before the first end is a piece.
  const start = Math.max(0, from - 1)
  let isPiece = start > 0
  for await (const { lines, end } of readLines(handle, start)) {
    let offset = end - lines.reduce((sum, { length }) => sum + length + 1, 0)
    for (const text of lines) {
      if (!isPiece && isTold(text)) yield { text, at: { session, chain, offset } }
      isPiece = false
      offset += text.length + 1
    }
  }
}

function timeOf(text: string): number {
  const timeMs = Date.parse(/"time":"([^"]{1,32})"/.exec(text)?.[1] ?? '')
  return Number.isNaN(timeMs) ? 0 : timeMs
}
