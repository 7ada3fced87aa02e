import type { Audit } from '../../audit/audit.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import type { AppliedSecrets } from '../../wire/secrets.ts'
import type { SessionSecrets } from '../session-secrets.ts'
import type { Sessions } from '../sessions/sessions.ts'

export type ApplyParts = {
  readonly sessions: Pick<Sessions, 'list' | 'refreshPolicy' | 'pushSecrets'>
  readonly secrets: Pick<SessionSecrets, 'bundle'>
  readonly audit: Pick<Audit, 'append'>
}

/** Gives every session that runs the policy and the secrets as they are now. One that fails keeps what it had, and the others go on. */
export async function applySecrets({ sessions, secrets, audit }: ApplyParts, signal: AbortSignal): Promise<AppliedSecrets> {
  const applied: AppliedSecrets['applied'][number][] = []
  const failed: AppliedSecrets['failed'][number][] = []
  for (const { id, name, state: at } of sessions.list()) {
    if (at !== 'running') continue
    try {
      await sessions.refreshPolicy(id)
      const bundle = await secrets.bundle(id, signal)
      await audit.append({ event: 'operator', did: 'secrets_applied', details: `${id} version ${bundle.version}` })
      await sessions.pushSecrets(id, bundle)
      applied.push({ session: id, name, version: bundle.version })
    } catch (error) {
      const detail = error instanceof SallyportError ? error.message : 'the secrets before stay in force'
      failed.push({ session: id, name, code: codeOf(error), detail })
    }
  }
  return { sessions: applied.length, applied, failed }
}
