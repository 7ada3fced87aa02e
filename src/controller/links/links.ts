import type { Duplex } from 'node:stream'
import { SallyportError } from '../../kernel/errors.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type {
  AgentCall,
  Ask,
  AskAnswer,
  Authority,
  ChainMark,
  SecretBundle,
  SideNetwork,
  TestedServer,
  ToolAnswer,
  ToolRequest,
} from '../../wire/control.ts'
import { openLinkedSession } from './linked-session.ts'

/** What the links know of one session, and whom they tell. */
export type LinkedSession = {
  readonly id: string
  /** Folder of the host that holds `control.sock` and `lease`, made here with mode 0700. The sidecar mounts it, nobody else. */
  readonly socketDir: string
  readonly sidecarLease: string
  /** Whom the sidecar runs as: owner of folder, socket and lease where this process is root. */
  readonly owner?: { readonly uid: number; readonly gid: number }
  verifyLease(token: string): boolean
  /** Ended by the signal: whoever asked is gone. */
  secrets(signal: AbortSignal): Promise<SecretBundle>
  /** Of the policy that the gate has to have in force. Not given: whatever it has will do. @throws policy_not_found, policy_invalid */
  policyDigest?(): string
  authority(): Authority
  /** The one that its sidecar serves with already: an earlier controller made it. */
  keepAuthority?(authority: Authority): void
  /** SHA-256, hex, of each text that the agent may show as its lease. None: nothing is taken for one. */
  agentLeases?(): readonly string[]
  /** Lines of the sidecar's audit chain, in order. Resolved when they are on disk. */
  onLines(lines: readonly string[]): Promise<void>
  /** The last of them that is on disk: after a restart of the daemon the sidecar goes on behind it. */
  lastLine?(): ChainMark | undefined
  /** The streams of the gate anew, where no socket can be mounted and it runs. Asked for when they ended. */
  attachAgain?(): Promise<Duplex | undefined>
  onState(state: 'connected' | 'ready' | 'lost'): void
  /** A request of the agent's. The signal says that the sidecar is gone. @throws what is wrong with it */
  onAgent?(call: AgentCall, signal: AbortSignal): Promise<unknown>
  /** A step of a connection with an MCP server in a container of its own. */
  onTool?(request: ToolRequest, signal: AbortSignal): Promise<ToolAnswer>
  /** A rule asks the operator first. */
  onAsk?(ask: Ask, signal: AbortSignal): Promise<AskAnswer>
}

/** The controller's end of one session's control channel. */
export type SessionLink = AsyncDisposable & {
  readonly socketDir: string
  /** Resolves when the sidecar has its secrets and serves. @throws sidecar_not_ready, control_version_mismatch, control_socket_invalid */
  ready(signal: AbortSignal): Promise<void>
  /** The same frames over the streams of the sidecar's container, where no socket can be mounted: its stdin, and its stdout alone. */
  attach(stream: Duplex): void
  /** Resolved when they are in force. @throws sidecar_unreachable, and what the sidecar says against them: then the old ones stay */
  pushSecrets(bundle: SecretBundle): Promise<void>
  /** Its policy files changed. Resolved when they are in force. @throws sidecar_unreachable, policy_invalid and its kin */
  pushPolicy(): Promise<void>
  /**
   * Has the gate open all its ways in, in this side network too, or close them and cut what came by them: resolved when that is so. A gate
   * that comes again is told anew what is open. One that was not there to close them is told when it comes, and `sidecar_unreachable` is
   * no reason to keep the network.
   * @throws sidecar_unreachable, listen_failed when it has no such address in `LIMITS.sideAddressMs`, overloaded, and why the signal was
   *   aborted: of what was to be opened nothing is open then
   */
  ways(network: SideNetwork, open: boolean, signal: AbortSignal): Promise<void>
  /** Has an MCP server tried as an agent would have it. @throws sidecar_unreachable, mcp_server_unknown, mcp_server_failed */
  testServer(server: string, pass: string): Promise<TestedServer>
  /**
   * Cuts tunnels and takes secrets back within `LIMITS.controlRevokeMs`; no sidecar is let in any more.
   * @throws sidecar_unreachable when nobody confirms it: the container is to be stopped then
   */
  revoke(): Promise<void>
}

export type LinksParts = {
  /** Version of this program: a sidecar has the same. */
  readonly version: string
  /** How long secrets are kept without this controller. */
  readonly graceMs: number
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  readonly system: Pick<System, 'elapsed' | 'random'>
}

export type Links = AsyncDisposable & {
  /** Listens for the session's sidecar. @throws control_socket_invalid */
  open(session: LinkedSession): Promise<SessionLink>
}

/** One socket a session: what one sidecar does to its own reaches no other. */
export function createLinks(parts: LinksParts): Links {
  const open = new Map<string, SessionLink>()
  return {
    async open(session) {
      if (open.has(session.id)) throw new SallyportError('control_busy', `session ${session.id} has a link already`)
      const link = await openLinkedSession(session, parts)
      const registered: SessionLink = {
        ...link,
        async [Symbol.asyncDispose]() {
          open.delete(session.id)
          await link[Symbol.asyncDispose]()
        },
      }
      open.set(session.id, registered)
      return registered
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...open.values()].map((link) => link[Symbol.asyncDispose]()))
    },
  }
}
