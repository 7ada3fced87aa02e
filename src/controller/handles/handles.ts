import type { Story } from '../requests/requests.ts'
import { createHandleBook } from './handle-book.ts'
import { createHeldFiles } from './held-files.ts'
import { secretRequest, type SecretRequestParts } from './secret-request.ts'
import { secretUse, type SecretUseParts } from './secret-use.ts'

export type SecretStoriesParts = Omit<SecretRequestParts, 'handles'> & Omit<SecretUseParts, 'handles' | 'held'>

/** Secrets by handle: an agent asks for one by its name, and has a command run with it, without ever having the value. */
export type SecretStories = {
  readonly request: Story<'secret.request'>
  readonly use: Story<'secret.use_in'>
  /** No handle of it is one any more. */
  readonly endSession: (session: string) => void
}

export function createSecretStories(parts: SecretStoriesParts): SecretStories {
  const handles = createHandleBook(parts.system)
  const held = createHeldFiles()
  return {
    request: (session, wish, request) => secretRequest({ ...parts, handles }, session, wish, request),
    use: (session, wish, request) => secretUse({ ...parts, handles, held }, session, wish, request),
    endSession(session) {
      handles.endSession(session)
      held.endSession(session)
    },
  }
}
