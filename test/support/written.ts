import { applyCredential } from '../../src/credential/credential.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { withoutOwn } from '../../src/sidecar/egress/own-credentials.ts'

/** The fields of a request as they go out where a credential is written into a header, and what the agent sent is dropped. */
export function withCredential(headers: readonly string[], header: string, value: string): readonly string[] {
  const binding = { id: 'c', secret: 'S', place: { kind: 'header', header, prefix: '' }, also: [] } as const
  const kept = withoutOwn({ path: '/', headers }, binding, new Set())
  return applyCredential(kept, binding, () => new Secret('S', value)).headers
}
