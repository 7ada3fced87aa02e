import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import type { ServerHow } from './mcp-server.ts'
import type { AppliedSecrets } from './secrets.ts'

/** Which session is meant; without a workspace, any. */
export const ServersQuery = z.strictObject({
  workspace: z.string().min(1).max(4_096).exactOptional(),
  role: z.string().min(1).max(64).exactOptional(),
  harness: z.string().min(1).max(64).exactOptional(),
})

/**
 * Of a secret that a server names. `kept`: the vault has it for other workspaces or roles. `locked`: the vault is closed, and nobody can say.
 * `unread`: it is in another place, which is not asked before it is used.
 */
export type SecretState = 'there' | 'unknown' | 'kept' | 'locked' | 'unread'

export type ServerSecret = {
  readonly key: string
  readonly state: SecretState
  /** Where it is from, as a policy writes it. */
  readonly source: string
}

/** A server that a session would have. */
export type ServerView = {
  readonly name: string
  readonly how: ServerHow
  /** Its program with arguments, or its URL. */
  readonly what: readonly string[]
  /** Who says so: `mcp.json`, a policy, or the operator's own configuration of the harness. */
  readonly source: 'home' | 'policy' | 'harness'
  readonly file: string
  /** 0 where it is not known. */
  readonly line: number
  readonly secrets: readonly ServerSecret[]
  /** Patterns of the tools that agents have; undefined for all. */
  readonly tools?: readonly string[]
}

export type ServersView = {
  readonly servers: readonly ServerView[]
  /** Of the harness's configuration: what a session does not have, and why. */
  readonly leftOut: readonly { readonly name: string; readonly file: string; readonly why: string }[]
  /** Whose configuration was read, where one was. */
  readonly harness?: string
  readonly harnesses: readonly string[]
  /** Why no such session would start, a line each. */
  readonly problems: readonly string[]
}

const Values = z.record(z.string().min(1).max(128), z.string().max(8_192))
const Tools = z.array(z.string().min(1).max(128)).max(256)

/** A server as a form has it. What is left out is not in the file either. */
export const FileServer = z.union([
  z.strictObject({
    command: z.array(z.string().max(4_096)).min(1).max(256),
    env: Values,
    workspace: z.enum(['none', 'ro']).exactOptional(),
    image: z.string().min(1).max(512).exactOptional(),
    tools: Tools.exactOptional(),
  }),
  z.strictObject({ url: z.string().min(1).max(4_096), headers: Values, tools: Tools.exactOptional() }),
])
export type FileServer = z.infer<typeof FileServer>

/** Something that is wrong with `mcp.json`, where; lines and columns from 1. */
export type FileProblem = {
  readonly line: number
  readonly column: number
  readonly message: string
  /** With a warning it can be written all the same. */
  readonly severity: 'error' | 'warning'
  readonly server?: string
}

/** `mcp.json` of the home. Values that look like secrets are hidden in all of it. */
export type ServersFile = {
  readonly path: string
  /** SHA-256 of the file, hex; null where there is none. */
  readonly digest: string | null
  readonly content: string
  /** How many values are hidden. */
  readonly hidden: number
  readonly servers: readonly { readonly name: string; readonly line: number; readonly server: FileServer }[]
  readonly problems: readonly FileProblem[]
  /** What a reference may name. */
  readonly secrets: readonly { readonly key: string; readonly source: string }[]
  readonly isVaultOpen: boolean
}

export type ServersSaved = AppliedSecrets & { readonly digest: string; readonly problems: readonly FileProblem[] }

const Content = z.string().max(LIMITS.mcpHomeFileBytesMax)
const Digest = z.string().regex(/^[0-9a-f]{64}$/)
const Name = z.string().min(1).max(128)

export const ServersCheck = z.strictObject({ content: Content })
/** `before`: of the file that the new content was made from; null where there was none. */
export const ServersWrite = z.strictObject({ before: Digest.nullable(), content: Content })
export const ServersEdit = z.strictObject({
  before: Digest.nullable(),
  edit: z.discriminatedUnion('kind', [
    /** `was`: its name before; absent for a new one. */
    z.strictObject({ kind: z.literal('put'), name: Name, was: Name.exactOptional(), server: FileServer }),
    z.strictObject({ kind: z.literal('remove'), name: Name }),
    /** null for all tools. */
    z.strictObject({ kind: z.literal('tools'), name: Name, tools: Tools.nullable() }),
  ]),
})
export type ServerEdit = z.infer<typeof ServersEdit>['edit']
