import type { Question, QuestionWish, Tier } from '../../src/wire/question.ts'
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

const TOGETHER = 5

/** Questions with these texts, and one more, in every field: all of them where there is a list, and some of them together elsewhere. */
export function hostileWishes(more: string): QuestionWish[] {
  const texts = [...HOSTILE_TEXTS, more].filter((one) => !one.includes('\x00'))
  const wishes: QuestionWish[] = []
  for (let from = 0; from < texts.length; from += TOGETHER) {
    const some = texts.slice(from, from + TOGETHER)
    const text = some.join(' ')
    const name = some.map((one) => one.slice(0, 60)).join(' ')
    const asker = { session: 's-evil', sessionName: name, workspace: `/w/${name}`, role: name, agent: name }
    const subject = commandSubject(['x', ...texts, name], {
      cwd: { path: `/c/${name}`, device: '1', inode: '2' },
      environment: Object.fromEntries(texts.map((one, at) => [`EVIL_${at}`, one])),
      secrets: [name],
    })
    wishes.push(wishOf({ asker, subject, reason: text, rule: text, nearMiss: text, risk: { level: 'dangerous', reasons: some } }))
  }
  const host = `\u202e${more}`
  const domain = { kind: 'domain', rule: more, lane: more, host, port: 1, method: more, path: `/\u200b${more}` } as const
  const proposal = { kind: 'proposal', of: 'skill', target: `/t/\u202e${more}`, diff: `+${more}\u2066`, after: SHA } as const
  return [...wishes, wishOf({ subject: domain }), wishOf({ subject: proposal })]
}
