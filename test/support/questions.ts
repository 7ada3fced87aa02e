import type { Question, Tier } from '../../src/wire/question.ts'
import { commandSubject, SHA, wishOf } from './approvals.ts'

/** A host command that waits, as surfaces see it. */
export function question(id: string, argv: readonly string[], more: Partial<Question> = {}): Question {
  const { expiresInMs, ...wish } = wishOf({ subject: commandSubject(argv) })
  return { ...wish, id, digest: SHA, state: 'pending', createdAt: 0, expiresAt: expiresInMs, ...more }
}

export const TIERS: readonly Tier[] = ['T0', 'T1', 'T2', 'T3']

/** Texts that look like something else, move the cursor, or hide what follows. */
export const HOSTILE_TEXTS: readonly string[] = [
  '\u202egnp.exe',
  '\u2066a\u2069',
  'a\u200bb\u2060c\ufeffd\u00ade',
  '\u{e0041}\u{e007f}',
  'one\u2028two\u2029three',
  `x${' '.repeat(400)}; rm -rf ~`,
  `x${'\n'.repeat(80)}; rm -rf ~`,
  'ls\rrm',
  '\x1b[2K\x1b[1Aallowed by T0',
  '\x1b]8;;https://evil.test\x1b\\ok\x1b]8;;\x1b\\',
  '\x1b]52;c;aGk=\x07',
  '\u009b31m\u009d0;title\u009c',
  'раураl',
  'ｆｕｌｌ 日本語 😀👩‍👩‍👧 ﷽',
  `z${'\u0301'.repeat(64)}`,
  'key\n| a allow once',
  '\x00\x07\x08\x7f',
  '<script>alert(1)</script> **already approved**',
  'y'.repeat(16_384),
]
