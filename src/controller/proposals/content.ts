import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { visible } from '../../kernel/visible.ts'
import { checkPolicy, formatDiagnostic } from '../../policy/policy.ts'
import { parseNotifySettings } from '../notify/settings.ts'
import { parseProviderSettings } from '../providers/settings.ts'
import { parseAuditSettings } from '../record/settings.ts'
import type { ProposalWish } from './targets.ts'

/** What is wrong with what a file would say, a line each. I54 */
export function proposalProblems(target: string, { of, name, content }: ProposalWish, policyDirs: readonly string[]): readonly string[] {
  const unseen = unseenIn(content)
  if (unseen !== undefined) return [unseen]
  if (Buffer.byteLength(content) > LIMITS.proposalBytesMax) return [`it has more than ${LIMITS.proposalBytesMax} bytes`]
  switch (of) {
    case 'policy':
      return said(() => checkPolicy([{ file: target, text: content }], { policyDirs }).errors.map(formatDiagnostic))
    case 'tool':
      return isJsonObject(content) ? [] : ['it is not an object in JSON']
    case 'skill':
      return content.trim() === '' ? ['it is empty'] : []
    case 'config_change':
      return said(() => void SETTINGS[name as keyof typeof SETTINGS](content, target))
  }
}

/** By the name of the file: the reader that the daemon itself starts with. */
const SETTINGS = { audit: parseAuditSettings, notify: parseNotifySettings, providers: parseProviderSettings } as const

/** The operator allows what can be read: nothing that shows as nothing, or turns the text around it. CVE-2021-42574 */
function unseenIn(content: string): string | undefined {
  if (!content.isWellFormed()) return 'it is not Unicode text'
  const plain = content.replaceAll('\t', ' ')
  const shown = visible(plain)
  if (shown === plain) return undefined
  const line = plain.split('\n').findIndex((one) => visible(one) !== one)
  const [found] = /\\u\{[0-9A-F]+\}/.exec(visible(plain.split('\n')[line] ?? '')) ?? []
  return `line ${line + 1} has a character that cannot be seen (${found ?? 'a control'})`
}

function said(check: () => readonly string[] | void): readonly string[] {
  try {
    return check() ?? []
  } catch (error) {
    return error instanceof SallyportError ? error.message.split('\n') : [`it cannot be read (${codeOf(error)})`]
  }
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
