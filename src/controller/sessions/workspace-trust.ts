import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { readPrivateFile, replacePrivateFile } from '../../kernel/private-file.ts'
import type { System } from '../../kernel/system.ts'
import { tryLock } from '../file-lock.ts'

/** How often a list that another command changes is looked at again. */
const LOOK_MS = 20

/** That the operator accepts a workspace's own policy as it was, to the byte. */
export type Trust = {
  /** Real path. */
  readonly workspace: string
  /** SHA-256 of the file's bytes, in hex. */
  readonly digest: string
  /** Milliseconds since 1970. */
  readonly since: number
}

export type TrustStore = {
  list(): Promise<readonly Trust[]>
  isTrusted(workspace: string, text: string): Promise<boolean>
  /** In the place of what was accepted of this workspace before. */
  add(workspace: string, digest: string): Promise<void>
  /** False when nothing of this workspace was accepted. */
  remove(workspace: string): Promise<boolean>
}

const TrustFile = z.strictObject({
  version: z.literal(1),
  workspaces: z
    .array(z.strictObject({ workspace: z.string().min(1), digest: z.string().regex(/^[0-9a-f]{64}$/), since: z.int().min(0) }))
    .max(LIMITS.trustedWorkspacesMax),
})

/** SHA-256 of a policy's text, in hex: what is accepted is this and nothing else. */
export function contentDigest(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/**
 * What the operator has accepted, kept in `trust.json` of the home folder (0600). It is read anew each time: what is withdrawn counts at once.
 * Each function @throws trust_invalid when the file is damaged, a link, another user's or open to others: then nothing is trusted.
 */
export function openTrust(home: string, system: Pick<System, 'now' | 'random'>): TrustStore {
  const path = join(home, 'trust.json')

  async function read(): Promise<readonly Trust[]> {
    let data: unknown
    try {
      const text = await readPrivateFile(path, LIMITS.trustFileBytesMax)
      if (text === undefined) return []
      data = JSON.parse(text)
    } catch (cause) {
      throw invalid(path, cause instanceof SyntaxError ? 'it is not JSON' : problemOf(cause), cause)
    }
    const parsed = TrustFile.safeParse(data)
    if (!parsed.success) throw invalid(path, 'its form is not that of a list of trusted policies', parsed.error)
    return parsed.data.workspaces
  }

  async function write(workspaces: readonly Trust[]): Promise<void> {
    try {
      await replacePrivateFile(path, `${JSON.stringify({ version: 1, workspaces }, null, 2)}\n`, system)
    } catch (cause) {
      throw invalid(path, problemOf(cause), cause)
    }
  }

  /** One at a time, of all processes: what is read is still there when it is written. */
  async function changing<T>(change: () => Promise<T>): Promise<T> {
    for (let waited = 0; ; waited += LOOK_MS) {
      using held = lockOf(home)
      if (held !== undefined) return await change()
      if (waited >= LIMITS.trustWaitMs)
        throw new SallyportError('trust_invalid', `${path}: another command changes it, and does not end`, {
          hint: 'try again, or end that one',
        })
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }

  function lockOf(folder: string): Disposable | undefined {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      return tryLock(join(folder, 'trust.lock'))
    } catch (cause) {
      throw invalid(path, problemOf(cause), cause)
    }
  }

  return {
    list: read,
    async isTrusted(workspace, text) {
      const digest = contentDigest(text)
      return (await read()).some((entry) => entry.workspace === workspace && entry.digest === digest)
    },
    add: (workspace, digest) =>
      changing(async () => {
        const others = (await read()).filter((entry) => entry.workspace !== workspace)
        if (others.length >= LIMITS.trustedWorkspacesMax)
          throw new SallyportError('trust_invalid', `${path}: ${LIMITS.trustedWorkspacesMax} workspaces are trusted already`, {
            hint: 'sallyport trust ls lists them, sallyport trust rm takes one back',
          })
        await write([...others, { workspace, digest, since: system.now() }])
      }),
    remove: (workspace) =>
      changing(async () => {
        const before = await read()
        const others = before.filter((entry) => entry.workspace !== workspace)
        if (others.length === before.length) return false
        await write(others)
        return true
      }),
  }
}

function problemOf(cause: unknown): string {
  const code = codeOf(cause)
  return code === 'Error' && cause instanceof Error ? cause.message : `it cannot be read or written (${code})`
}

function invalid(path: string, problem: string, cause: unknown): SallyportError {
  return new SallyportError('trust_invalid', `${path}: ${problem}`, {
    hint: 'bring the file back, or move it away: then no policy of a workspace is trusted until you say so again',
    cause,
  })
}
