import * as z from 'zod'

const Text = z.string().max(65_536)
const Word = z.string().min(1).max(256)
const Path = z.string().min(1).max(4_096)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** How presence is proven: a key or click, the operator's password, the operating system, a passkey. */
export const Tier = z.enum(['T0', 'T1', 'T2', 'T3'])
export type Tier = z.infer<typeof Tier>

export const Risk = z.strictObject({ level: z.enum(['safe', 'caution', 'dangerous']), reasons: z.array(Text).max(64) })
export type Risk = z.infer<typeof Risk>

/** A file as it was when it was looked at. Device and inode as decimal text: they may be above 2^53. */
export const FileIdentity = z.strictObject({
  path: Path,
  device: Word,
  inode: Word,
  sizeBytes: z.int().min(0),
  sha256: Sha256,
})
export type FileIdentity = z.infer<typeof FileIdentity>

/** A host command: all that decides what runs. */
export const CommandSubject = z.strictObject({
  kind: z.literal('command'),
  argv: z.array(Text).min(1).max(4_096),
  executable: FileIdentity,
  /** Operands that are programs themselves, as a script. */
  scripts: z.array(FileIdentity).max(64),
  cwd: z.strictObject({ path: Path, device: Word, inode: Word }),
  /** The whole environment of the process. */
  environment: z.record(Word, Text),
  /** Names of secrets that it gets, never values. */
  secrets: z.array(Word).max(64),
  sandbox: z.enum(['none', 'bubblewrap', 'seatbelt']),
})
export type CommandSubject = z.infer<typeof CommandSubject>

/** A change of one file as a unified diff, with SHA-256 of what is there now (absent when nothing is) and then. */
export const FileChange = z.strictObject({ target: Path, diff: Text, before: Sha256.optional(), after: Sha256 })
export type FileChange = z.infer<typeof FileChange>

/** A handle for a secret. Of what is behind the name the operator is told, and the agent never. */
export const SecretSubject = z.strictObject({
  kind: z.literal('secret'),
  name: Word,
  scope: z.enum(['single-command', 'session', 'persisted']),
  /** Where the value is kept, as a policy writes it. */
  source: Text,
  /** `absent`: there is none now. `kept`: the policy has it for something else. `unknown`: nobody can say without reading it. */
  state: z.enum(['there', 'absent', 'kept', 'unknown']),
  /** The same in words. */
  note: Text,
  /** How many commands it is for: any number where it is left out. */
  uses: z.int().min(1).optional(),
  /** The handle ends so much later, in milliseconds, or with its session. */
  lifeMs: z.int().min(1),
  workspace: Path,
  /** What becomes of the operator's policy for the workspace, with `persisted`. */
  change: FileChange.optional(),
})
export type SecretSubject = z.infer<typeof SecretSubject>

/** A text with secrets in it, by name. */
export const Composed = z.array(z.union([z.strictObject({ text: Text }), z.strictObject({ secret: Word })])).max(1_024)
export type Composed = z.infer<typeof Composed>

/** A file of the workspace that the command is given a copy of: what was looked at, whatever becomes of the file. */
export const PinnedFile = z.strictObject({
  /** Which argument names it, and as what it stands there: `--file=` of `--file=a.sql`. */
  argument: z.int().min(0),
  prefix: Text,
  /** In the workspace, links resolved. */
  path: Path,
  sizeBytes: z.int().min(0),
  sha256: Sha256,
  isExecutable: z.boolean(),
  /** Where the copy lies for the command: the argument says this instead. */
  at: Path,
})
export type PinnedFile = z.infer<typeof PinnedFile>

/** One command with secrets, in a container of its own. */
export const UseSubject = z.strictObject({
  kind: z.literal('secret_use'),
  /** As the agent wrote it. */
  argv: z.array(Text).min(1).max(4_096),
  /** Id of the image, and the file in it, or the copy, that is run. */
  image: Word,
  program: Path,
  /** What is added to its environment, and what it reads. */
  environment: z.record(Word, Composed),
  stdin: Composed.optional(),
  secrets: z.array(z.strictObject({ name: Word, source: Text })).max(64),
  workspace: z.enum(['none', 'ro']),
  cwd: Path,
  files: z.array(PinnedFile).max(64),
})
export type UseSubject = z.infer<typeof UseSubject>

/** A request or a connection whose rule asks first. A bare connection has the method CONNECT and no path. */
export const DomainSubject = z.strictObject({
  kind: z.literal('domain'),
  rule: Word,
  lane: Word,
  /** The side network that it came by: a container beside the agent asks, with whatever it was given. */
  network: Word.optional(),
  scheme: Word.optional(),
  host: Word,
  port: z.int().min(1).max(65_535),
  method: Word,
  path: Text.optional(),
})
export type DomainSubject = z.infer<typeof DomainSubject>

/** A change of a file of the operator's. */
export const ProposalSubject = z.strictObject({
  kind: z.literal('proposal'),
  of: z.enum(['policy', 'tool', 'skill', 'config_change']),
  ...FileChange.shape,
})
export type ProposalSubject = z.infer<typeof ProposalSubject>

export const Subject = z.discriminatedUnion('kind', [CommandSubject, SecretSubject, UseSubject, DomainSubject, ProposalSubject])
export type Subject = z.infer<typeof Subject>

/** Who asks. `agent` is what the lease says, never what the agent says of itself. */
export type Asker = {
  readonly session: string
  readonly sessionName: string
  readonly workspace: string
  readonly role?: string
  readonly agent: string
}

/** What is asked, before it has an id. */
export type QuestionWish = {
  readonly asker: Asker
  readonly subject: Subject
  /** The agent's words: data, never a reason for anything. */
  readonly reason: string
  readonly risk: Risk
  /** The lowest tier whose proof is enough to allow it. Denying needs none. */
  readonly tier: Tier
  /** What asks, as `file:line pattern`, and what nearly allowed it. */
  readonly rule?: string
  readonly nearMiss?: string
  /** The rule that `remember` makes of it: absent when it cannot be remembered. */
  readonly remember?: { readonly rule: string; readonly kind: 'host_command' | 'network' }
  readonly expiresInMs: number
}

export type QuestionState = 'pending' | 'claimed' | 'approved' | 'denied' | 'expired' | 'cancelled'

/** `digest`: SHA-256, hex, of the canonical JSON (RFC 8785) of all that will happen. */
export type Question = Omit<QuestionWish, 'expiresInMs'> & {
  readonly id: string
  readonly digest: string
  readonly state: QuestionState
  readonly createdAt: number
  readonly expiresAt: number
  readonly claimedBy?: string
  /** Equal questions that wait together: each is answered by its own digest. */
  readonly bundle?: string
  /** After 5 equal approvals or 3 equal denials. */
  readonly offer?: 'allow' | 'deny'
  readonly answer?: {
    readonly decision: 'allow' | 'deny'
    readonly scope: Scope
    readonly by: string
    readonly tier: Tier
    readonly at: number
    readonly message?: string
  }
  readonly settledAt?: number
  /** How it ended where no answer says it: what withdrew it, or whose answer for the session it is. */
  readonly note?: string
  /** What became of an approval that was used. `code` is `interrupted` when the controller ended before it did. */
  readonly run?: { readonly startedAt: number; readonly finishedAt?: number; readonly code?: string; readonly exitCode?: number }
}

export const Scope = z.enum(['once', 'session', 'remember'])
export type Scope = z.infer<typeof Scope>

/** What a surface shows for the tier: a password, the process that the operating system asks about, a passkey's answer. */
export const PresenceProof = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('key') }),
  z.strictObject({ kind: z.literal('password'), password: z.string().max(1_024) }),
  z.strictObject({ kind: z.literal('system'), pid: z.int().min(1), startTime: z.string().max(32) }),
  z.strictObject({ kind: z.literal('passkey'), response: z.unknown() }),
])
export type PresenceProof = z.infer<typeof PresenceProof>

/** What is recorded of a proof that held. */
export type PresenceEvidence = { readonly tier: Tier; readonly means: string; readonly at: number; readonly digest: string }

export const Answer = z.strictObject({
  /** Of the question as it was shown. */
  digest: Sha256,
  decision: z.enum(['allow', 'deny']),
  scope: Scope.default('once'),
  /** For the agent, with a denial. */
  message: z.string().max(2_000).optional(),
  /** The rule of `remember`, as it was shown: the one that was offered or a narrower one. */
  rule: z.string().max(16_384).optional(),
  /** When the remembered rule ends, milliseconds since the epoch. */
  expiresAt: z.int().optional(),
})
export type Answer = z.infer<typeof Answer>

/** How a question ended. `code` of a denial: approval_denied, approval_expired, approval_cancelled. */
export type Outcome =
  | { readonly decision: 'allow'; readonly scope: Scope; readonly question: Question }
  | {
      readonly decision: 'deny'
      readonly code: 'approval_denied' | 'approval_expired' | 'approval_cancelled'
      readonly question: Question
      readonly message?: string
    }

export type QuestionEvent = { readonly kind: 'asked' | 'changed' | 'settled'; readonly question: Question }
