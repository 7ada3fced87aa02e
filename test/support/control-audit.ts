import { readAuditLine } from '../../src/audit/audit.ts'

/** The lines of one chain, as a reader of them sees them. */
export const AuditChain = {
  /** Why they are not one chain from its beginning; undefined when they are. */
  problemOf(lines: readonly string[]): string | undefined {
    let [seq, head] = [0, '0'.repeat(64)]
    for (const line of lines) {
      const link = readAuditLine(Buffer.from(line))
      if (typeof link === 'string') return link
      if (link.seq !== seq + 1 || link.prev !== head) return `line ${link.seq} after line ${seq}`
      ;[seq, head] = [link.seq, link.hash]
    }
    return lines.length === 0 ? 'there is none' : undefined
  },
}
