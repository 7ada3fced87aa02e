import type { Hostname } from '../kernel/hostname.ts'
import type { Refusal } from '../kernel/errors.ts'
import type { AgentMethod } from '../wire/agent-methods.ts'
import type { Risk, Tier } from '../wire/question.ts'
import type { Budget, CredentialFile, CredentialPlace, HeaderPlace, TokenExchange } from '../wire/credential.ts'
import type { SecretSource } from '../wire/secret-source.ts'
import type { AddressRange } from './addresses.ts'
import type { SessionUser } from './session-values.ts'

/** What is known of a request, canonical. */
export type Facts = {
  readonly scheme: 'http' | 'https'
  readonly host: Hostname
  readonly port: number
  readonly method: string
  /** Raw request target: path and query as they came. */
  readonly path: string
}

/** On whose behalf something passes: what the harness itself needs, or what the agent does with it. */
export type Plane = 'control_plane' | 'agent'

/** What the rule that allows a request says about it. */
export type AllowedRule = {
  readonly id: string
  readonly tls: 'intercept' | 'passthrough'
  /** Plain http leaves as https (port 80 becomes 443). */
  readonly upgrade: boolean
  /** Credentials may go over plain http. */
  readonly plaintext: boolean
  /** Refused ranges that this rule may reach all the same. */
  readonly addresses: readonly AddressRange[]
  readonly plane: Plane
  /** What becomes of a secret in an answer: written over, the answer refused, or nothing. */
  readonly scrub: ScrubMode
  /** What becomes of credentials that the agent sends itself. `undefined`: the rule says nothing. */
  readonly ownCredentials: OwnCredentials | undefined
}

export type ScrubMode = 'replace' | 'block' | 'off'
export type OwnCredentials = 'drop' | 'deny' | 'pass'

/** `rule` of `ask` is what holds once somebody has approved it. */
export type Decision =
  | { readonly action: 'allow'; readonly rule: AllowedRule }
  | { readonly action: 'ask'; readonly rule: AllowedRule }
  | { readonly action: 'deny'; readonly refusal: Refusal }

/**
 * `http`: TLS and HTTP are recognised, and each request inside is decided by itself. `tcp`: bytes as they are, in both
 * directions, and nothing is recognised.
 */
export type TunnelDecision =
  | { readonly action: 'allow' | 'ask'; readonly carries: 'http' | 'tcp'; readonly rule: AllowedRule }
  | { readonly action: 'deny'; readonly refusal: Refusal }

/** A reverse route: what comes to `/route/NAME/…` of the gateway goes to this upstream. */
export type Route = {
  readonly name: string
  readonly scheme: 'http' | 'https'
  readonly host: Hostname
  readonly port: number
  /** `""` or `"/v1"`: never a trailing slash. */
  readonly basePath: string
  /** Id of the credential that is written, if one is named. */
  readonly credential: string | undefined
  /** What holds for its requests. The id is `route:NAME`. */
  readonly rule: AllowedRule
  /** It leads to this MCP server, and is none that agents call by its name. */
  readonly ofServer?: string
}

export type SecretDeclaration = {
  readonly name: string
  readonly source: SecretSource
  /** How long a value is used again once it was obtained, in milliseconds. */
  readonly ttlMs?: number
}

/** A secret with what may use it: `inject`, `route:NAME`, `method:NAME`, `tool:NAME`. */
export type SecretGrant = SecretDeclaration & { readonly uses: readonly string[] }

/** A credential, by names: no value of a secret is part of a policy. */
export type CredentialBinding = {
  readonly id: string
  /** Name of a declared secret. With `aws` the secret access key. */
  readonly secret: string
  readonly place: CredentialPlace
  /** Header fields that are written with it, each with the name of its secret. */
  readonly also: readonly AlsoPlace[]
  /** What is written is an access token that the secret is exchanged for. */
  readonly exchange?: TokenExchange
  readonly budget?: Budget
  readonly file?: CredentialFile
}

export type AlsoPlace = { readonly secret: string; readonly place: HeaderPlace }

/** A worthless value that the agent holds: the variable of its environment, and what it looks like (`parseShape`). */
export type PlaceholderDefinition = { readonly name: string; readonly shape: string }

/** A place in a policy file. `line` and `column` count from 1; 0 is the file as a whole. */
export type Place = { readonly file: string; readonly line: number; readonly column: number }

/** One finding about a policy file. `message` holds the offending value and, where there is one, the right spelling. */
export type Diagnostic = Place & { readonly message: string }

export type Policy = {
  /** Strictest matching rule wins: deny over ask over allow, intercept over passthrough. No match is a denial. */
  decide(facts: Facts): Decision
  /**
   * For CONNECT and SOCKS, where the requests inside are not known yet: allow if one of them could be allowed, ask if one
   * could be asked about and none allowed. `rule.tls` is `intercept` whenever some matching rule has to look inside; each
   * request inside is then decided on its own. With `carries: 'tcp'` this decision is the only one.
   */
  decideTunnel(host: Hostname, port: number): TunnelDecision
  /** For a reverse route, by the facts of its upstream request: what denies or asks still holds, else the route itself allows. */
  decideRoute(route: Route, facts: Facts): Decision
  readonly routes: readonly Route[]
  /** Hosts that connections lead to which know no proxy and speak what nobody looks into: by the port, which no other host has. */
  readonly tcpPorts: ReadonlyMap<number, Hostname>
  /** Whether some port of this host can be reached at all. A few map look-ups for most names. */
  knowsName(host: Hostname): boolean
  /** Judges all addresses of a host together: one refused address refuses all. `own` are this machine's addresses. */
  judgeAddresses(host: Hostname, rule: AllowedRule, addresses: readonly string[], own: readonly string[]): Refusal | undefined
  /** Refuses special-use and metadata names before any look-up, unless the rule lists `addresses`. */
  judgeName(host: Hostname, rule: AllowedRule): Refusal | undefined
  /**
   * The most specific credential that is written into this request, or, with `only`, that one if it is bound to it. Never one
   * with a placeholder, and without `only` none that is for routes alone. Callers see to the scheme.
   */
  credentialFor(facts: Facts, only?: string): CredentialBinding | undefined
  /** Of each placeholder the most specific credential that it is swapped for in this request, or, with `only`, that one. */
  placeholdersFor(facts: Facts, only?: string): readonly CredentialBinding[]
  /** Every credential that is bound to some request to this host: what its answers are searched for. */
  credentialsOf(host: Hostname): readonly CredentialBinding[]
  /** Every placeholder of the policy, each once, AWS' two included where a credential is for AWS. */
  readonly placeholders: readonly PlaceholderDefinition[]
  /** Whether user and password of a way in must carry the session's lease. */
  readonly isLeaseRequired: boolean
  readonly secrets: readonly SecretGrant[]
  readonly credentials: readonly CredentialBinding[]
  /** What the agent of a session has of the workspace. */
  readonly filesystem: FilesystemPolicy
  /** What a session's containers are made of. The gate itself has no use for it. */
  readonly session: SessionPolicySection
  /** What becomes of commands for the host. Of the gate's concern is only whether there are any. */
  readonly hostCommands: EffectiveHostCommands
  /** What the agent may call. */
  readonly gateway: EffectiveGateway
  /** What agents have of MCP servers besides the gate. */
  readonly mcpServers: readonly McpServer[]
  readonly warnings: readonly Diagnostic[]
  /** Every part with the place it came from. */
  readonly effective: EffectivePolicy
  /** The same as it holds at a moment, in milliseconds since 1970. Until one is named, rules of the network that end are none. */
  asOf(now: number): Policy
  /** The moment that it holds at. */
  readonly at?: number
  /** When the next of its rules of the network ends. */
  readonly nextEnd?: number
  /** SHA-256 in hex over what the policy says, wherever it is written. */
  readonly digest: string
}

export type FilesystemPolicy = {
  readonly workspace: 'rw' | 'ro' | 'none'
  /** Patterns from the workspace's folder, as they are written: `*` within a name, `**` for any number of folders. */
  readonly hide: readonly string[]
  readonly gitMetadata: 'protected' | 'writable'
}

/** Absent is what whoever makes the session takes by default. */
export type SessionPolicySection = {
  readonly image?: string
  readonly memoryBytes?: number
  /** Processors, in hundredths at the finest. */
  readonly cpus?: number
  readonly pids?: number
  readonly runtime?: string
  readonly user: SessionUser
  /** Absolute path of a file of the host. */
  readonly seccomp?: string
}

/** A value, and where it is said; without a place it is the default. */
export type Said<T> = { readonly value: T; readonly from?: Place }

export type EffectiveFilesystem = {
  readonly workspace: Said<FilesystemPolicy['workspace']>
  readonly hide: readonly { readonly value: string; readonly from: Place }[]
  readonly gitMetadata: Said<FilesystemPolicy['gitMetadata']>
}

export type EffectiveSession = { readonly [K in keyof SessionPolicySection]: Said<NonNullable<SessionPolicySection[K]>> }

export type EffectiveRule = {
  /** `workspace:ID` for a rule of a restricted file. */
  readonly id: string
  readonly host: string
  readonly ports: readonly number[]
  /** `any` is for denials and questions that name none. */
  readonly protocol: 'http' | 'tcp' | 'any'
  readonly methods?: readonly string[]
  readonly paths?: readonly string[]
  readonly action: 'allow' | 'ask' | 'deny'
  readonly tls: 'intercept' | 'passthrough'
  readonly upgrade?: 'https'
  readonly plaintext: 'accept' | 'refuse'
  readonly addresses: readonly string[]
  readonly plane: Plane
  readonly scrub: ScrubMode
  readonly ownCredentials?: OwnCredentials
  /** Milliseconds since 1970. From then on the rule is none. */
  readonly expiresAt?: number
  /** From a file that may only take away: it denies or asks about what the others allow. */
  readonly restricted?: true
  readonly from: Place
}

export type EffectiveCredential = CredentialBinding & {
  readonly domains: readonly string[]
  readonly methods?: readonly string[]
  readonly paths?: readonly string[]
  /** It is for this MCP server alone. */
  readonly ofServer?: string
  readonly from: Place
}

export type EffectiveSecret = SecretDeclaration & { readonly resources?: readonly string[]; readonly from: Place }

export type EffectiveRoute = {
  readonly name: string
  /** As it is written: an absolute URL. */
  readonly upstream: string
  readonly credential?: string
  readonly plaintext: 'accept' | 'refuse'
  readonly addresses: readonly string[]
  readonly plane: Plane
  /** It leads to this MCP server, and is none that agents call by its name. */
  readonly ofServer?: string
  readonly from: Place
}

/** An MCP server of the sessions. No value of a secret is in it: `${secret:KEY}` stands for one. */
export type McpServer = {
  readonly name: string
  /** Patterns of the tools that agents see and may call; undefined for all. */
  readonly tools?: readonly string[]
} & (
  | {
      readonly kind: 'stdio'
      readonly command: readonly [string, ...string[]]
      readonly env: Readonly<Record<string, string>>
      readonly workspace: 'none' | 'ro'
      readonly image?: string
      /** It runs in a container of its own: it has a secret, or something of it is held back from the agent. */
      readonly isContained: boolean
    }
  | {
      readonly kind: 'http'
      readonly url: string
      readonly headers: Readonly<Record<string, string>>
      readonly plaintext: 'accept' | 'refuse'
      readonly addresses: readonly string[]
    }
)

export type EffectiveMcpServer = McpServer & { readonly from: Place }

export type NetworkMode = 'restricted' | 'none' | 'open'

export type HostCommandMode = 'always-prompt' | 'allowlist' | 'blocklist' | 'disabled'

export type HostCommandRule = {
  readonly list: 'allow' | 'ask' | 'deny'
  /** As it is written: words of a line, `*` for one argument, `**` for any at the end, `<int>` and the like. */
  readonly pattern: string
  /** The folder that it is about, with those below it, from the workspace's folder: `.` is that. */
  readonly cwd?: string
  /** What the command gets in its environment. */
  readonly environment: Readonly<Record<string, string>>
  /** `**` at the end of an allowance is meant. */
  readonly openTail: boolean
  /** It may run what is in the workspace, inside a sandbox. */
  readonly workspaceCode: boolean
  /** At least so much presence, where somebody is asked. */
  readonly presence?: Tier
  /** Milliseconds since 1970. From then on the rule is none. */
  readonly expiresAt?: number
  /** From a file that may only take away. */
  readonly restricted?: true
  readonly from: Place
}

export type EffectiveHostCommands = {
  readonly mode: Said<HostCommandMode>
  readonly presence: Readonly<Record<Risk['level'], Said<Tier>>>
  readonly rules: readonly HostCommandRule[]
}

export type EffectiveGateway = { readonly disabled: readonly { readonly value: AgentMethod; readonly from: Place }[] }

/** All layers put together, in the order in which they were read. */
export type EffectivePolicy = {
  /** Every file that was read, in order. */
  readonly files: readonly string[]
  readonly mode: { readonly value: NetworkMode; readonly from?: Place }
  readonly harness?: { readonly value: string; readonly from: Place }
  readonly lease: { readonly value: 'required' | 'optional'; readonly from?: Place }
  readonly rules: readonly EffectiveRule[]
  readonly routes: readonly EffectiveRoute[]
  readonly credentials: readonly EffectiveCredential[]
  readonly secrets: readonly EffectiveSecret[]
  readonly filesystem: EffectiveFilesystem
  readonly session: EffectiveSession
  readonly hostCommands: EffectiveHostCommands
  readonly gateway: EffectiveGateway
  readonly mcpServers: readonly EffectiveMcpServer[]
  readonly mcpUserServers: Said<'keep' | 'drop'>
}
