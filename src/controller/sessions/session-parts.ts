import type { Duplex } from 'node:stream'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { IssuedLease, Leases } from '../../lease/lease.ts'
import type { Policy } from '../../policy/policy.ts'
import type { AgentCall, Ask, AskAnswer, ChainMark, SecretBundle, TestedServer, ToolAnswer, ToolRequest } from '../../wire/control.ts'
import type { PullView, SessionView, UpRequest } from '../../wire/operator.ts'
import type { SandboxView, SessionPreview, SessionUsage } from '../../wire/session-facts.ts'
import type { LinkedSession, Links, SessionLink } from '../links/links.ts'
import type { StateFile } from '../state.ts'
import type { Owner } from './agent-files.ts'
import type { FrozenLayers } from './frozen-layers.ts'
import type { ContainerInspection, ContainerOptions, Engine, EngineStream, NetworkOptions, TerminalSize } from './engine.ts'
import type { Bind } from './hardening.ts'
import type { Jail } from './jail.ts'
import type { SessionLayers } from './session-layers.ts'
import type { Sibling, SiblingImage, SiblingWish } from './sibling.ts'
import type { Asked } from './verify.ts'
import type { WorkspaceMount } from './workspace-covers.ts'
import type { Filesystem, WorkspaceRequest } from './workspace.ts'

export type { IssuedLease, SecretBundle, SessionLink, SessionView, UpRequest }

/** What the policy, the harness and the operator make of a request. No secret is in it. */
export type SessionPlan = {
  readonly agent: {
    readonly image: string
    /** Of one that is made on this machine and never fetched: how. */
    readonly imageHint?: string
    readonly command: readonly string[]
    readonly environment: Readonly<Record<string, string>>
    /** Worthless credentials and settings: `path` is below HOME. */
    readonly files: readonly AgentFile[]
    /** What the harness and the policy name. Looked at before anything is made. */
    readonly mounts: readonly Bind[]
    readonly memoryBytes?: number
    readonly cpus?: number
    readonly processes?: number
    readonly runtime?: string
    /** JSON. */
    readonly seccompProfile?: string
    /** Default: the operator. */
    readonly user?: Owner
    /** `session:` of the policy as it is written: whatever is prohibited is refused by its name. */
    readonly settings: Readonly<Record<string, unknown>>
  }
  readonly sidecar: {
    readonly image: string
    readonly environment: Readonly<Record<string, string>>
    readonly mounts: readonly Bind[]
  }
  /** What the gate reads, below the folder that `prepare` was given. */
  readonly policy: PolicyPaths
  readonly filesystem: Filesystem
  /** That the agent is set up for. */
  readonly harness?: string
  /** Whether the agent's programs have to show the lease to the proxy. */
  readonly requiresLease: boolean
  readonly warnings: readonly string[]
}
/** `isRewritten`: its program writes it anew, by renaming over it: it gets a copy, where others are mounted read-only. */
export type AgentFile = { readonly name: string; readonly path: string; readonly content: string; readonly isRewritten?: boolean }
export type PolicyPaths = Pick<FrozenLayers, 'files' | 'restricted' | 'policyDirs'>

/** How the workspace comes into the agent: itself first, then what lies over parts of it. */
export type WorkspaceMounts = {
  readonly mounts: readonly WorkspaceMount[]
  readonly environment: Readonly<Record<string, string>>
  readonly warnings: readonly string[]
  /** What `release` needs at the end, also of another process: plain data. */
  readonly kept: unknown
}

/** What a container beside the agent has of it. */
export type WorkspacePart = Pick<WorkspaceMounts, 'mounts' | 'environment'>

export type AuthorityPair = ReturnType<LinkedSession['authority']>

/** What sessions are built from. */
export type SessionParts = {
  /** Real path of `$SALLYPORT_HOME`. */
  readonly home: string
  readonly engine: Engine
  readonly state: StateFile
  readonly links: Pick<Links, 'open'>
  readonly leases: Pick<Leases, 'issue' | 'verify' | 'revoke'>
  /** Policy, harness and the operator's wishes as one plan. What it makes is in `folder`, which is the session's own. */
  prepare(request: UpRequest, session: PlannedNames): Promise<SessionPlan>
  /** The same with what it was made of, for a look at it. Nothing is written. */
  foresee(request: UpRequest, session: Omit<PlannedNames, 'policyFolder'>): Promise<Foreseen>
  /** The policy as its files are now, for a gate that runs. @throws policy_invalid and its kin: then the old one is there still */
  refreeze(session: PlannedNames, request: Pick<UpRequest, 'policy' | 'role' | 'harness'>): Promise<void>
  /** Digest of the policy that a session's gate has to have in force. @throws policy_not_found, policy_invalid */
  policyDigest(session: string): string
  readonly workspace: {
    /** `filesDir` is the session's own, for empty files that lie over hidden ones. */
    mounts(request: Pick<WorkspaceRequest, 'workspace' | 'filesystem' | 'owner' | 'filesDir'>): Promise<WorkspaceMounts>
    /** Stands before whatever runs in the workspace on the host. @throws workspace_suspect */
    refuseSuspect(kept: unknown): Promise<void>
    /** Tells of covers that the host took away, a line each, all of them each time. */
    watch(kept: unknown, onLost: (lines: readonly string[]) => void): Disposable
    /** At the end: what was made for covers is removed. Gives what was planted meanwhile, a line each. */
    release(kept: unknown): Promise<readonly string[]>
    /**
     * The same workspace once more, read-only, for a container beside the agent, which stands still meanwhile where something is hidden:
     * no more of it than the agent has, and the same hidden.
     * @throws workspace_suspect when it is not known where all is that was hidden; workspace_refused
     */
    beside(request: Pick<WorkspaceRequest, 'workspace' | 'filesystem' | 'owner' | 'filesDir'>, kept: unknown): Promise<WorkspacePart>
    /** What was planted, a line each. Nothing is removed. */
    look(kept: unknown): Promise<readonly string[]>
    /** The same, compared with how the workspace is from now on. */
    renewed(kept: unknown): Promise<unknown>
  }
  /** Ended by the signal at once: nobody waits for them any more. */
  secrets(session: string, signal: AbortSignal): Promise<SecretBundle>
  /** What a container of a session printed, as the operator may see it: visible, and without secrets. */
  printed(session: string, text: string): string
  /** A new certificate authority; kept in memory here. */
  createAuthority(session: string): AuthorityPair
  /** What the sidecar recorded, into the session's chain. */
  auditLines(session: string, lines: readonly string[]): Promise<void>
  /** The last of them that is on disk. */
  lastAuditLine(session: string): ChainMark | undefined
  /** Before what it says is done. @throws audit_unavailable: then it is not done */
  audit(event: SessionAuditEvent): Promise<void>
  /** Tries the ways out from a container in the agent's place. @throws what is open, and the agent never starts */
  selftest?(target: SelftestTarget, signal: AbortSignal): Promise<void>
  /** What a session's agent asks of the host, and its gate of the operator. Without it nobody is asked. */
  readonly requests?: {
    call(session: string, call: AgentCall, signal: AbortSignal): Promise<unknown>
    ask(session: string, ask: Ask, signal: AbortSignal): Promise<AskAnswer>
    /** A step of a connection with an MCP server in a container of its own. */
    tool?(session: string, request: ToolRequest, signal: AbortSignal): Promise<ToolAnswer>
    /** Withdraws its questions and ends its commands. Resolves when nothing of it goes on. */
    endSession(session: string): Promise<void>
  }
  readonly system: System
  readonly log: Log
}

export type Foreseen = {
  readonly plan: Omit<SessionPlan, 'policy'>
  readonly policy: Policy
  readonly layers: SessionLayers
  /** Secrets without a value, a line each. */
  readonly missing: readonly string[]
}

/** `policyFolder`: where the gate's policy is frozen. */
export type PlannedNames = { readonly id: string; readonly workspace: string; readonly policyFolder: string }

export type SessionAuditEvent = {
  readonly session: string
  readonly name: string
  readonly workspace: string
  readonly event:
    | 'starting'
    | 'running'
    | 'unverified'
    | 'selftest_skipped'
    | 'reset'
    | 'uncovered'
    | 'adopted'
    | 'reaped'
    | 'failed'
    | 'ended'
  /** Differences, reasons, images. Never a value. */
  readonly details?: readonly string[]
}

/** A session as its ways out are tried. */
export type SelftestTarget = {
  /** Runs the gate's program with this command in a container that is otherwise as the agent's, and removes it. */
  runProbe(command: readonly string[], signal: AbortSignal): Promise<ProbeRun>
  inspectAgent(): Promise<ContainerInspection | undefined>
  readonly setting: {
    readonly subnet: string
    readonly sidecar: string
    readonly networkId: string
    /** Gates of other sessions. */
    readonly neighbours: readonly string[]
    /** Mount points that the agent may write. */
    readonly writable: readonly string[]
    readonly isRootAllowed: boolean
  }
}
export type ProbeRun = {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
  readonly inspected: ContainerInspection
}

/** What is kept of a session in the state file. */
export type SessionRecord = {
  readonly workspace: string
  /** The compose project, where docker compose makes its containers. */
  readonly project?: string
  /** Files of the session's own layer. */
  readonly policy: string[]
  /** That was asked for. */
  readonly harness?: string
  /** That the agent is set up for, also where a policy names it. */
  readonly harnessInUse?: string
  readonly role?: string
  /** The agent's image, as it was asked for. */
  readonly image?: string
  /** When every way out was found shut, before the agent started. */
  readonly selftestAt?: number
  readonly owner: Owner
  readonly tty: boolean
  readonly control: 'unix' | 'stdio'
  readonly filesystem: Filesystem
  readonly warnings: readonly string[]
  /** What came to be wrong with it while it ran. */
  readonly alerts?: readonly string[]
  readonly jail?: Jail
  readonly uplink?: string
  readonly networks?: readonly NetworkOptions[]
  readonly agent?: Asked
  readonly sidecar?: Asked
  /** SHA-256, hex, of what the agent may show as its lease. */
  readonly agentLeases: readonly string[]
  /** What the workspace's guard needs at the end. */
  readonly kept?: unknown
  /** By role, as the engine gave them. */
  readonly ids: Readonly<Partial<Record<'agent' | 'sidecar' | 'jail' | 'uplink', string>>>
}

export type SessionDetail = SessionView & {
  readonly step: string
  readonly user: string
  readonly control: 'unix' | 'stdio'
  readonly filesystem: Filesystem
  readonly jail?: Jail
  /** What was asked of the engine, without the values of variables. */
  readonly asked: Partial<Record<'agent' | 'sidecar', Omit<ContainerOptions, 'Env'>>>
}

export type SessionEvent = {
  readonly at: number
  readonly session: string
  readonly name: string
  readonly event:
    | 'starting'
    | 'running'
    | 'agent_ended'
    | 'gate_lost'
    | 'gate_ready'
    | 'reset'
    | 'uncovered'
    | 'revoked'
    | 'ended'
    | 'failed'
  readonly exitCode?: number
  readonly details?: readonly string[]
}

export type SessionLogOptions = { readonly follow: boolean; readonly tail?: number; readonly of?: 'agent' | 'sidecar' }
export type SessionExecOptions = {
  readonly tty: boolean
  readonly size?: TerminalSize
  readonly folder?: string
  readonly environment?: Readonly<Record<string, string>>
}
/** What a reset has thrown away, and what it left. */
export type ResetReport = { readonly wiped: readonly string[]; readonly kept: readonly string[] }

/** Hears how an image comes that the engine did not have. */
export type OnPull = (view: PullView) => void

/** The life of sessions. Each verb takes an id or a name. @throws session_not_found, session_not_running, engine_unavailable */
export type Sessions = AsyncDisposable & {
  /** Resolves when the agent runs behind a gate that is ready, both as they were asked for; else nothing of it is left. */
  up(request: UpRequest, signal: AbortSignal, progress: (step: string) => void, onPull?: OnPull): Promise<SessionView>
  /** A compose project of this home, which a session begins in whenever its gate comes. @throws config_invalid, control_socket_invalid */
  register(project: string): Promise<SessionView>
  /** Those that have not ended. */
  list(): SessionView[]
  inspect(session: string): Promise<SessionDetail>
  /** What the session of a request would be. Nothing is made, fetched or written. @throws whatever `up` refuses before it makes anything */
  preview(request: UpRequest): Promise<SessionPreview>
  /** What the engine shows of it now. @throws usage for a compose project, whose containers are made by another */
  sandbox(session: string): Promise<SandboxView>
  /** What the agents that run use now. Of several who ask within a moment one reads. */
  usage(): Promise<Readonly<Record<string, SessionUsage>>>
  /** Nothing is left when this resolves. Gives what was planted in the workspace meanwhile. */
  down(session: string): Promise<readonly string[]>
  /**
   * The agent is made anew from what was asked for: whatever it had in memory (`/tmp`, `/run`, HOME, a workspace that is none of the
   * host's) is gone, and its command starts again. A workspace of the host is the operator's and is not touched.
   */
  reset(session: string): Promise<ResetReport>
  attach(session: string, options?: { readonly size?: TerminalSize; readonly replay?: boolean }): Promise<EngineStream>
  exec(session: string, argv: readonly string[], options: SessionExecOptions): Promise<EngineStream>
  logs(session: string, options: SessionLogOptions, signal: AbortSignal): AsyncIterable<Buffer>
  forward(session: string, port: number): Promise<Duplex>
  resize(session: string, size: TerminalSize): Promise<void>
  /** The agent's exit code, once it has ended. */
  wait(session: string, signal: AbortSignal): Promise<number>
  events(signal: AbortSignal): AsyncIterable<SessionEvent>
  /** At the start, once: what lives goes on, the rest is removed. */
  adopt(signal: AbortSignal): Promise<void>
  /** The gate reads the operator's policy as it is now. @throws policy_invalid and its kin: the old one stays */
  refreshPolicy(session: string): Promise<void>
  pushSecrets(session: string, bundle: SecretBundle): Promise<void>
  /** Has the gate try an MCP server as an agent would have it. @throws mcp_server_unknown, mcp_server_failed, sidecar_unreachable */
  testServer(session: string, server: string, pass: string): Promise<TestedServer>
  /** Its leases are good for nothing any more: tunnels are cut and its secrets wiped. Where the gate does not confirm it, it is stopped. */
  revoke(session: string): Promise<void>
  /** For trying the ways out of a session that runs. */
  selftestTarget(session: string): Promise<SelftestTarget>
  /**
   * Starts a container beside the agent. The signal kills it, at any time.
   * @throws too_many_siblings, sibling_refused, shell_missing, session_unverified, workspace_suspect, usage for a compose project
   */
  startSibling(session: string, wish: SiblingWish, signal: AbortSignal): Promise<Sibling>
  /** @param image default the agent's. @throws image_missing, usage for a compose project */
  siblingImage(session: string, image?: string): Promise<SiblingImage>
}
