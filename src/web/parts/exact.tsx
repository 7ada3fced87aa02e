import { visible } from '../../kernel/visible.ts'

/**
 * I85: Text of somebody else: an agent, a repository, a host. What would show as nothing, or turn the text around it, is written out, and it
 * is set apart from ours in its direction (CVE-2021-42574). Line ends and spaces stay.
 */
export function Exact({ text }: { text: string }) {
  return <bdi class="exact">{visible(text)}</bdi>
}
