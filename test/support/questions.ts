import type { Question, QuestionWish, Tier } from '../../src/wire/question.ts'

const SHA = 'a'.repeat(64)

/** A host command that waits for an answer, before it has an id. */
export function commandWish(argv: readonly string[], more: Partial<QuestionWish> & { session?: string } = {}): QuestionWish {
  const { session = 's1', ...rest } = more
  return {
    asker: { session, sessionName: `acme-${session}`, workspace: '/srv/acme', agent: 'agent' },
    subject: {
      kind: 'command',
      argv: [...argv],
      executable: { path: `/usr/bin/${argv[0] ?? ''}`, device: '1', inode: '2', sizeBytes: 3, sha256: SHA },
      scripts: [],
      cwd: { path: '/srv/acme', device: '1', inode: '4' },
      environment: { PATH: '/usr/bin:/bin' },
      secrets: [],
      sandbox: 'none',
    },
    reason: 'to see the state of the pull request',
    risk: { level: 'safe', reasons: ['it only reads'] },
    tier: 'T0',
    rule: 'global.yaml:3 git **',
    expiresInMs: 30_000,
    ...rest,
  }
}

/** The same as surfaces see it. */
export function question(id: string, argv: readonly string[], more: Partial<Question> = {}): Question {
  const { expiresInMs, ...wish } = commandWish(argv)
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
