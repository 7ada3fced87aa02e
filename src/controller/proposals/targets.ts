import { join } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import type { ProposalSubject } from '../../wire/question.ts'
import { workspacePolicyDir } from '../sessions/session-layers.ts'

/** What can be proposed: the operator's policy for the workspace, or a file of tools, skills or settings. */
export type ProposalWish = { readonly of: ProposalSubject['of']; readonly name: string; readonly content: string }

/** Settings of the daemon that a proposal may be about. Its keys, trust and vault are none: they are the operator's alone. */
const SETTINGS: ReadonlySet<string> = new Set(['audit', 'notify', 'providers'])
/** It becomes a part of a path. */
const NAME = /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/

/** The file that it would change. @throws proposal_invalid */
export function targetOf(home: string, workspace: string, { of, name }: Omit<ProposalWish, 'content'>): string {
  const folder = workspacePolicyDir(home, workspace)
  if (of === 'policy') return join(folder, 'policy.yaml')
  if (!NAME.test(name))
    throw new SallyportError('proposal_invalid', `"${shown(name)}" is no name for a ${of}`, {
      hint: 'lower-case letters, digits and "-", 64 at most',
    })
  if (of === 'skill') return join(folder, 'skills', `${name}.md`)
  if (of === 'tool') return join(folder, 'tools', `${name}.json`)
  if (SETTINGS.has(name)) return join(home, `${name}.yaml`)
  throw new SallyportError('proposal_invalid', `there is no setting "${shown(name)}" that could be proposed`, {
    hint: `there is ${[...SETTINGS].join(', ')}`,
  })
}
