import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import type { Section } from './section.ts'

const Folder = z.string().min(1).max(4_096).startsWith('/')
const RoleName = z.string().min(1).max(64)
const SessionName = z.string().min(1).max(256)
const Text = z.string().min(1).max(4_096)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** Whose word a change is: a file of the operator's, or what holds for one session while it runs. */
export const LayerRef = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('global') }),
  z.strictObject({ kind: z.literal('role'), role: RoleName }),
  z.strictObject({ kind: z.literal('workspace'), workspace: Folder }),
  z.strictObject({ kind: z.literal('session'), session: SessionName }),
])
export type LayerRef = z.infer<typeof LayerRef>

/** How long something is allowed for: until the session ends, for so long, or until somebody takes it back. */
export const AllowFor = z.enum(['session', 'hour', 'day', 'always'])
export type AllowFor = z.infer<typeof AllowFor>

const SecretOfCredential = z.strictObject({
  name: Text,
  source: Text,
  resources: z.array(Text).min(1).max(256).exactOptional(),
})

/** What becomes of the file. Whatever it makes of it is judged as a whole. */
export const PolicyEdit = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('content'), content: z.string().max(LIMITS.policyEditBytesMax) }),
  z.strictObject({
    kind: z.literal('allow_host'),
    host: Text,
    ports: z.array(z.int().min(1).max(65_535)).min(1).max(64).exactOptional(),
    methods: z.array(Text).min(1).max(64).exactOptional(),
    paths: z.array(Text).min(1).max(64).exactOptional(),
    /** Default: allow. */
    action: z.enum(['allow', 'deny', 'ask']).exactOptional(),
    for: AllowFor,
  }),
  z.strictObject({
    kind: z.literal('credential'),
    /** Declared where they are not: the first is the credential's. */
    secrets: z.array(SecretOfCredential).min(1).max(16),
    /** As it stands in `extends`: what brings the credentials. */
    preset: Text.exactOptional(),
    credential: z.strictObject({ id: Text, inject: z.record(z.string().max(64), z.unknown()) }).exactOptional(),
  }),
  /** Takes the rule of the network of this id out of the file. */
  z.strictObject({
    kind: z.literal('remove_rule'),
    id: Text,
    /** Of the file of what is allowed for a time. */ isTimed: z.boolean().exactOptional(),
  }),
])
export type PolicyEdit = z.infer<typeof PolicyEdit>

export const ChangeWish = z.strictObject({ layer: LayerRef, edit: PolicyEdit })
export type ChangeWish = z.infer<typeof ChangeWish>

/** A change as it was looked at: of this file, and to this one. */
export const ChangeRequest = ChangeWish.extend({
  target: z.string().min(1).max(8_192),
  before: Sha256.exactOptional(),
  after: Sha256,
  expiresAt: z.int().min(0).exactOptional(),
})
export type ChangeRequest = z.infer<typeof ChangeRequest>

export type ProblemView = {
  readonly severity: 'error' | 'warning'
  readonly file: string
  /** From 1; 0 is the file as a whole. */
  readonly line: number
  readonly column: number
  readonly message: string
  /** Names of running sessions whose whole policy it is about. */
  readonly sessions?: readonly string[]
}

export type SessionName = { readonly id: string; readonly name: string }

/** What a change would do. */
export type ChangePreview = {
  readonly target: string
  readonly layer: string
  /** Escaped lines of a unified diff, and what about it could deceive. */
  readonly diff: Section
  /** SHA-256 of the file as it is; none where there is no file. */
  readonly before?: string
  readonly after: string
  readonly problems: readonly ProblemView[]
  /** It cannot be applied: some of them are errors that it would bring. */
  readonly isRefused: boolean
  /** Running sessions that have it at once. */
  readonly reaches: readonly SessionName[]
  readonly expiresAt?: number
}

export type ChangeDone = {
  readonly id: string
  readonly target: string
  readonly notTaken: readonly (SessionName & { readonly why: string })[]
}

export const PolicyCheck = z.strictObject({ layer: LayerRef, content: z.string().max(LIMITS.policyEditBytesMax) })

/** Which policy is meant: that of a session that runs, or the one that a session would have. */
export const PolicyQuery = z.strictObject({
  session: SessionName.exactOptional(),
  workspace: Folder.exactOptional(),
  role: RoleName.exactOptional(),
  harness: z.string().min(1).max(64).exactOptional(),
})
export type PolicyQuery = z.infer<typeof PolicyQuery>

export const ExplainRequest = PolicyQuery.extend({
  url: Text.exactOptional(),
  method: z.string().min(1).max(64).exactOptional(),
  command: z.string().min(1).max(LIMITS.argumentBytesMax).exactOptional(),
  argv: z.array(z.string().max(LIMITS.argumentBytesMax)).min(1).max(1_024).exactOptional(),
  cwd: z.string().min(1).max(4_096).exactOptional(),
})
export type ExplainRequest = z.infer<typeof ExplainRequest>

export const TrustRequest = z.strictObject({ workspace: Folder, digest: Sha256 })
export const WorkspaceOnly = z.strictObject({ workspace: Folder })
export const Nothing = z.strictObject({})

/** A file of a layer, with its text. */
export type PolicyFileView = {
  readonly layer: LayerRef
  readonly file: string
  /** None where there is no file yet, or it cannot be shown. */
  readonly text?: string
  /** Why it cannot be shown or used. */
  readonly problem?: string
  readonly sessions: readonly SessionName[]
}

/** What a workspace brings itself: an agent can write it. */
export type OwnPolicyView = {
  readonly workspace: string
  readonly file: string
  readonly text?: string
  readonly problem?: string
  readonly digest?: string
  readonly isTrusted: boolean
  readonly errors: readonly ProblemView[]
  /** What it would say beyond denials and questions, each by line. */
  readonly allows: readonly ProblemView[]
}

/** Something that holds for a time. */
export type RememberedView = {
  readonly id: string
  readonly kind: 'host_command' | 'network' | 'timed'
  readonly rule: string
  readonly createdAt?: number
  readonly expiresAt?: number
  readonly workspace?: string
  readonly session?: SessionName
  /** What takes it back, of one that stands in a layer. */
  readonly layer?: LayerRef
}

export type PolicyListing = {
  readonly files: readonly PolicyFileView[]
  readonly own: readonly OwnPolicyView[]
  readonly remembered: readonly RememberedView[]
  readonly presets: readonly { readonly name: string; readonly file: string }[]
  readonly sessions: readonly (SessionName & { readonly workspace: string; readonly role?: string })[]
}

export type EffectiveView = {
  readonly digest: string
  readonly files: readonly { readonly file: string; readonly layer?: string }[]
  readonly lines: readonly {
    readonly text: string
    readonly depth: 0 | 1
    readonly file?: string
    readonly line?: number
    /** Nobody says it: the default holds. */
    readonly isDefault?: true
  }[]
  readonly warnings: readonly ProblemView[]
}

export type HistoryEntry = {
  readonly at: number
  readonly what: string
  readonly did: string
  readonly by: string
  readonly digest?: string
  /** Where its content is kept: what it can be looked at and taken back by. */
  readonly id?: string
  readonly isReverted?: boolean
}
export type HistoryView = { readonly entries: readonly HistoryEntry[] }

/** A change whose content is kept. */
export type ChangeDetail = {
  readonly id: string
  readonly target: string
  readonly appliedAt: number
  readonly revertedAt?: number
  /** An agent proposed it: it is taken back as a proposal. */
  readonly isProposed?: true
  readonly diff: Section
}

/** What would become of a request or a command. */
export type ExplainedView = {
  readonly action: 'allow' | 'ask' | 'deny' | 'disabled'
  /** The request or the command. */
  readonly what: string
  /** Without a label it goes on with the one before. */
  readonly rows: readonly (readonly [label: string, text: string])[]
  /** Every rule for the host, and why it matches or does not. */
  readonly candidates: readonly { readonly matches: boolean; readonly text: string }[]
}
