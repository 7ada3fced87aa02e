import type { SessionView } from './operator.ts'

/** What a container of a session uses at this moment, as the engine counts it. */
export type SessionUsage = {
  /** Of one processor: two that are busy are 200. Null until it was read twice. */
  readonly cpuPercent: number | null
  /** Without what the kernel keeps of files and gives back when it is wanted. */
  readonly memoryBytes: number
  readonly memoryBytesMax: number
  readonly pids: number
  readonly pidsMax: number
}

/** By session: those whose agent runs. */
export type SessionStats = Readonly<Record<string, SessionUsage & { readonly requestsPerMinute: number }>>

/** One thing that holds a session's agent, as it was found. */
export type SandboxFlag = {
  readonly id: string
  readonly what: string
  readonly found: string
  /** Null where the engine does not have it: another thing stands in for it, or nothing. */
  readonly holds: boolean | null
}

/** What the engine shows of a session at a moment, held against what was asked of it. */
export type SandboxView = {
  readonly at: number
  readonly flags: readonly SandboxFlag[]
  /** Every way in which a container or the network is not what was asked for, a line each. */
  readonly differences: readonly string[]
}

/** All that is known of a session, as far as the page shows it. */
export type SessionDetailView = SessionView & {
  /** What is being done, or was when it ended. */
  readonly step: string
  /** `uid:gid` of the agent's processes. */
  readonly user: string
  readonly control: 'unix' | 'stdio'
  readonly filesystem: { readonly workspace: string; readonly hide: readonly string[]; readonly git_metadata: string }
  readonly jail?: { readonly subnet: string; readonly sidecar: string }
  readonly asked: { readonly agent?: { readonly Entrypoint: readonly string[]; readonly Cmd: readonly string[] } }
}

/** A row of the selftest: one way out that was tried. */
export type TriedWay = {
  readonly id: string
  readonly what: string
  readonly expected: string
  readonly why: string
  readonly ok: boolean
  readonly detail: string
}

/** What is remembered of a lease; the lease itself is not. */
export type LeaseView = {
  readonly id: string
  readonly session: string
  readonly audience: 'sidecar' | 'agent'
  readonly workspace: string
  readonly role?: string
  readonly agent: string
  readonly state: 'live' | 'revoked' | 'ended'
}

/** What a session can be started with. */
export type StartChoices = {
  /** Used before, the last first. */
  readonly workspaces: readonly string[]
  readonly harnesses: readonly string[]
  readonly roles: readonly string[]
}

type RuleLine = {
  readonly id: string
  /** `api.github.com:443 GET /repos/**`, and what is out of the ordinary. */
  readonly text: string
  /** `FILE:LINE` */
  readonly from: string
  /** What the harness itself needs. */
  readonly isOfHarness: boolean
}

/** What a session would be, of which nothing was made. */
export type SessionPreview = {
  readonly name: string
  readonly workspace: string
  readonly harness: string | null
  readonly image: {
    readonly name: string
    /** `fetched`: when it starts. */
    readonly state: 'present' | 'fetched'
  }
  readonly command: readonly string[]
  readonly limits: { readonly memoryBytes: number; readonly cpus: number; readonly pids: number; readonly user: string }
  /** `restricted` allows what rules allow, `open` all but what they deny. */
  readonly mode: string
  readonly layers: readonly { readonly layer: string; readonly file: string }[]
  /** Whether the workspace brings a policy of its own, and what becomes of it. */
  readonly trust: 'none' | 'trusted' | 'restricted'
  readonly rules: Readonly<Record<'allow' | 'ask' | 'deny', readonly RuleLine[]>>
  readonly credentials: readonly { readonly id: string; readonly secret: string; readonly text: string; readonly from: string }[]
  readonly routes: readonly { readonly name: string; readonly upstream: string; readonly from: string }[]
  readonly servers: readonly { readonly name: string; readonly text: string }[]
  readonly commands: {
    readonly mode: string
    readonly rules: readonly { readonly list: 'allow' | 'ask' | 'deny'; readonly pattern: string; readonly from: string }[]
  }
  readonly mounts: readonly { readonly source: string; readonly target: string; readonly readOnly: boolean }[]
  readonly filesystem: SessionDetailView['filesystem']
  /** Below the workspace: what it would not see, and what of git it could not write. */
  readonly hidden: readonly string[]
  readonly git: readonly string[]
  /** How many more of both there are. */
  readonly hiddenMore: number
  readonly gitMore: number
  /** Names: values are the operator's. */
  readonly variables: readonly string[]
  readonly warnings: readonly string[]
}
