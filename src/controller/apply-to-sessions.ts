import type { Audit } from '../audit/audit.ts'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import type { AppliedSessions } from '../wire/servers.ts'
import type { SessionSecrets } from './session-secrets.ts'
import type { Sessions } from './sessions/sessions.ts'

export type ApplyParts = {
  readonly sessions: Pick<Sessions, 'list' | 'refreshPolicy' | 'pushSecrets'>
  readonly secrets: Pick<SessionSecrets, 'bundle'>
  readonly audit: Pick<Audit, 'append'>
}

/** Gives every running session its policy, servers and secrets as they are now. One that cannot have them keeps those that it has. */
export async function applyToSessions({ sessions, secrets, audit }: ApplyParts, signal: AbortSignal): Promise<AppliedSessions> {
  const applied: AppliedSessions['applied'][number][] = []
  const failed: AppliedSessions['failed'][number][] = []
  for (const { id, name, state } of sessions.list()) {
    if (state !== 'running') continue
    try {
      await sessions.refreshPolicy(id)
      const bundle = await secrets.bundle(id, signal)
      await audit.append({ event: 'operator', did: 'secrets_applied', details: `${id} version ${bundle.version}` })
      await sessions.pushSecrets(id, bundle)
      applied.push({ session: id, name })
    } catch (error) {
      const code = error instanceof SallyportError ? error.code : codeOf(error)
      const detail = error instanceof SallyportError ? error.message : 'the secrets before stay in force'
      failed.push({ session: id, name, code, detail })
    }
  }
  return { applied, failed }
}
