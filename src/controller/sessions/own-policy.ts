import { SallyportError } from '../../kernel/errors.ts'
import { visible } from '../../kernel/visible.ts'
import { formatDiagnostic, inspectRestricted, type Diagnostic } from '../../policy/policy.ts'
import { readWorkspaceFile, WORKSPACE_POLICY } from './workspace-file.ts'
import { contentDigest } from './workspace-trust.ts'

/** A workspace's own policy that could be accepted, and what it would allow then. */
export type OwnPolicy = { readonly file: string; readonly text: string; readonly digest: string; readonly allows: readonly Diagnostic[] }

/**
 * Reads what a workspace brings, once, so that what is accepted is what was looked at.
 * @param workspace its real path
 * @param meant SHA-256 of the content that somebody looked at before
 * @throws workspace_refused, policy_untrusted for another content, policy_invalid
 */
export function acceptableOwn(workspace: string, meant?: string): OwnPolicy {
  const own = readWorkspaceFile(workspace)
  if (own === undefined)
    throw new SallyportError('workspace_refused', `"${visible(workspace)}" brings no policy of its own: there is no ${WORKSPACE_POLICY}`, {
      hint: 'there is nothing to accept',
    })
  if ('problem' in own) throw new SallyportError('workspace_refused', `${visible(own.file)}: ${visible(own.problem)}`)
  const { file, text } = own
  const digest = contentDigest(text)
  if (meant !== undefined && meant !== digest)
    throw new SallyportError('policy_untrusted', `${file}: its content has the digest ${digest}, not "${visible(meant)}"`, {
      hint: 'it is another content than the one that was meant: look at it with sallyport trust',
    })
  const { errors, allows } = inspectRestricted({ file, text })
  if (errors.length > 0)
    throw new SallyportError('policy_invalid', visible(errors.map(formatDiagnostic).join('\n')), {
      hint: 'it cannot be accepted as long as it has errors',
    })
  return { file, text, digest, allows }
}
