import * as z from 'zod'
import { codeOf } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import { readPrivateFile, replacePrivateFile } from '../kernel/private-file.ts'
import type { System } from '../kernel/system.ts'
import type { SecretHolder } from '../wire/secret-holder.ts'
import type { SecretUse } from '../wire/secrets.ts'

const Text = z.string().max(4_096)
const Use = z.strictObject({
  at: z.int().min(0),
  use: Text,
  session: Text.exactOptional(),
  workspace: Text.exactOptional(),
  role: Text.exactOptional(),
})
const File = z.strictObject({ version: z.literal(1), uses: z.record(z.string().max(128), Use) })

/** When each secret of the vault was last given out, and for what: names and times. */
export type SecretUses = AsyncDisposable & {
  used(key: string, holder: SecretHolder): void
  last(key: string): SecretUse | undefined
  /** Of a secret that is gone. */
  forget(key: string): void
}

/**
 * Kept in a file (0600) that is written once in `LIMITS.secretUsesWriteMs` at most, and at the end. It is for the operator to look at and
 * decides nothing: one that cannot be read is begun anew.
 */
export async function openSecretUses(file: string, system: Pick<System, 'now' | 'random'>, log: Pick<Log, 'warn'>): Promise<SecretUses> {
  const uses = new Map(await readUses(file, log))
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()
  const write = (): void => {
    clearTimeout(timer)
    timer = undefined
    const content = JSON.stringify({ version: 1, uses: Object.fromEntries(uses) })
    writing = writing
      .then(() => replacePrivateFile(file, `${content}\n`, system))
      .catch((error: unknown) => log.warn({ code: codeOf(error) }, 'when secrets were used last could not be written'))
  }
  const changed = (): void => void (timer ??= setTimeout(write, LIMITS.secretUsesWriteMs).unref())
  return {
    used(key, { use = '', session, workspace, role }) {
      // The one that was used last stands at the end.
      uses.delete(key)
      uses.set(key, {
        at: system.now(),
        use: use.slice(0, LIMITS.secretUseCharsMax),
        ...(session !== undefined && { session }),
        ...(workspace !== undefined && { workspace }),
        ...(role !== undefined && { role }),
      })
      const [oldest] = uses.keys()
      if (uses.size > LIMITS.vaultSecretsMax && oldest !== undefined) uses.delete(oldest)
      changed()
    },
    last: (key) => uses.get(key),
    forget(key) {
      if (uses.delete(key)) changed()
    },
    async [Symbol.asyncDispose]() {
      if (timer !== undefined) write()
      await writing
    },
  }
}

async function readUses(file: string, log: Pick<Log, 'warn'>): Promise<readonly (readonly [string, SecretUse])[]> {
  try {
    const text = await readPrivateFile(file, LIMITS.secretUsesBytesMax)
    return text === undefined ? [] : Object.entries(File.parse(JSON.parse(text)).uses)
  } catch (error) {
    log.warn({ code: codeOf(error) }, 'when secrets were used last could not be read: it is begun anew')
    return []
  }
}
