import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import { MCP_SERVER_NAME } from './mcp-server.ts'
import { DomainSubject } from './question.ts'

/** Version of everything in this file. A sidecar and a controller that differ in it do not talk. */
export const CONTROL_PROTOCOL = 3

/** Names of secrets and their values. In memory only. */
export type SecretBundle = { readonly version: number; readonly values: Readonly<Record<string, string>> }

const Word = z.string().min(1).max(128)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/**
 * What the frames of the channel hold. A request is answered once by `answer` or `fault` with its id; ids of one side grow. `beat` says
 * that there is nothing to say.
 */
export const Frame = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('request'), id: z.int().min(1), method: Word, params: z.unknown() }),
  z.strictObject({ kind: z.literal('answer'), id: z.int().min(1), result: z.unknown() }),
  z.strictObject({
    kind: z.literal('fault'),
    id: z.int().min(1),
    code: Word,
    message: z.string().max(4_096),
    hint: z.string().max(4_096).optional(),
  }),
  z.strictObject({ kind: z.literal('note'), method: Word, params: z.unknown() }),
  z.strictObject({ kind: z.literal('beat') }),
])
export type Frame = z.infer<typeof Frame>

/** A place in a sidecar's audit chain: number and hash of a line. */
export const ChainMark = z.strictObject({ seq: z.int().min(1), hash: Sha256 })
export type ChainMark = z.infer<typeof ChainMark>

/**
 * INIT_HELLO, the first frame of a sidecar. Other versions may have more in it: that is read over, so that they can be told apart.
 * Over a socket it shows `lease`. Over the engine's stream, which an engine may log, it shows `proof` that it knows the lease.
 */
export const Hello = z.object({
  protocol: z.int(),
  image: Word,
  session: Word,
  agent: Word,
  lease: z.string().min(1).max(8_192).optional(),
  /** HMAC-SHA-256 over the stream's nonce, keyed by the lease, hex. */
  proof: Sha256.optional(),
  /** It serves with an authority already, which its agent trusts: another one would shut the agent out. */
  hasAuthority: z.boolean().optional(),
})
export type Hello = z.infer<typeof Hello>

/** A session's certificate authority. */
export const Authority = z.strictObject({ certificatePem: z.string().max(16_384), keyPem: z.string().max(16_384) })
export type Authority = z.infer<typeof Authority>

/** The answer to INIT_HELLO. */
export const Welcome = z.strictObject({
  protocol: z.int(),
  /** How long secrets are kept without a controller. */
  graceMs: z.int().min(0).max(LIMITS.controllerGraceMaxMs),
  /** The session's certificate authority, for one that has none. */
  authority: Authority.optional(),
  /** The last line of the sidecar's audit that the controller has. */
  audit: ChainMark.optional(),
})
export type Welcome = z.infer<typeof Welcome>

/** What GET_SECRETS answers and SECRETS brings. */
export const Secrets = z.strictObject({
  version: z.int().min(0),
  values: z.record(z.string().min(1).max(256), z.string().max(LIMITS.secretBytesMax)),
  /** SHA-256, hex, of each text that the agent may show as its lease. */
  leases: z.array(Sha256).max(16),
})
export type Secrets = z.infer<typeof Secrets>

/** Lines of the sidecar's audit, in order, without their newlines: visible ASCII, as the chain writes them. */
export const Lines = z.strictObject({
  lines: z
    .array(
      z
        .string()
        .max(LIMITS.auditLineBytesMax)
        .regex(/^\{[ -~]*\}$/),
    )
    .min(1)
    .max(LIMITS.controlLinesMax),
})

const Nothing = z.strictObject({})

/** A request of the agent's at the gateway, with the lease that it showed. The method's own shape is looked at by the controller. */
export const AgentCall = z.strictObject({ lease: z.string().min(1).max(8_192), method: Word, params: z.unknown() })
export type AgentCall = z.infer<typeof AgentCall>

/** A request or connection whose rule asks the operator first. */
export const Ask = z.strictObject({ request: Word, subject: DomainSubject })
export type Ask = z.infer<typeof Ask>
export const AskAnswer = z.discriminatedUnion('decision', [
  z.strictObject({ decision: z.literal('allow'), scope: z.enum(['once', 'session']) }),
  z.strictObject({ decision: z.literal('deny') }),
])
export type AskAnswer = z.infer<typeof AskAnswer>

/** What the audit calls a side network, as `use-REQUESTID` or `tool-NAME`. */
const Label = z.string().regex(/^[a-z0-9-]{1,64}$/)

/** A network of the session beside its jail, with the gate in it and one container that the controller put there. */
export const SideNetwork = z.strictObject({
  /** The gate's own address in it. */
  address: z.ipv4(),
  /** Clients from elsewhere are refused. */
  subnet: z.cidrv4(),
  label: Label,
})
export type SideNetwork = z.infer<typeof SideNetwork>

/**
 * A step of a connection with an MCP server that runs in a container of its own. `after`: what was received up to there need not be kept
 * any more. A message is the text of one of JSON-RPC.
 */
export const ToolRequest = z.strictObject({
  /** Of the agent, or the pass of a test. */
  lease: z.string().min(1).max(8_192),
  server: z.string().regex(MCP_SERVER_NAME),
  /** The gate makes it up. */
  connection: z.string().regex(/^[0-9a-f]{32}$/),
  do: z.enum(['open', 'send', 'receive', 'close']),
  message: z.string().max(LIMITS.toolMessageBytesMax).optional(),
  after: z.int().min(0).optional(),
})
export type ToolRequest = z.infer<typeof ToolRequest>
/** `ended`: it is over, and this is how. */
export const ToolAnswer = z.strictObject({
  messages: z.array(z.string().max(LIMITS.toolAnswerBytesMax)).max(LIMITS.toolMessagesMax).optional(),
  next: z.int().min(0).optional(),
  ended: z.string().max(512).optional(),
})
export type ToolAnswer = z.infer<typeof ToolAnswer>

/** What a server has, as whoever tries it is told. */
export const TestedServer = z.strictObject({
  /** Name and version, as it says itself. */
  server: z.string().max(256),
  tools: z
    .array(
      z.strictObject({
        name: z.string().max(256),
        isAllowed: z.boolean(),
        /** As it says itself. */
        description: z.string().max(LIMITS.serverTestDescriptionCharsMax).exactOptional(),
      }),
    )
    .max(LIMITS.serverTestToolsMax),
})
export type TestedServer = z.infer<typeof TestedServer>

/** Requests of a sidecar. */
export const FROM_SIDECAR = {
  INIT_HELLO: { params: Hello, result: Welcome },
  GET_SECRETS: { params: Nothing, result: Secrets },
  /** It has its secrets and serves, under this policy, with its ways open in these side networks. */
  READY: {
    params: z.strictObject({ policy: Sha256.optional(), ways: z.array(SideNetwork).max(LIMITS.sideNetworksMax).optional() }),
    result: Nothing,
  },
  /** Its authority, for a controller that has come after the one that made it: JSON of `Authority`, sealed under the lease. */
  AUTHORITY: { params: z.strictObject({ sealed: z.string().max(65_536) }), result: Nothing },
  /** Answered when the lines are on disk. */
  AUDIT: { params: Lines, result: Nothing },
  /** Answered as the method says, within `LIMITS.requestWaitMaxMs` and a little. */
  AGENT: { params: AgentCall, result: z.unknown() },
  /** Answered when the operator has, or when nobody did in time. */
  ASK: { params: Ask, result: AskAnswer },
  /** `open` is answered when the program runs, `receive` when there is something or after `LIMITS.toolReceiveMs`. */
  TOOL: { params: ToolRequest, result: ToolAnswer },
} as const

/** Requests of a controller. */
export const FROM_CONTROLLER = {
  /** Answered when they are in force. */
  SECRETS: { params: Secrets, result: z.strictObject({ version: z.int() }) },
  /** Its policy files changed. Answered when the policy is in force. */
  POLICY: { params: Nothing, result: Nothing },
  /**
   * All ways in, in a side network too: answered when they listen there. Or no more: answered when nothing listens and every connection
   * that came by it is cut. What is so already is no fault.
   */
  WAYS: { params: SideNetwork.extend({ open: z.boolean() }), result: Nothing },
  /** Tries an MCP server as an agent would have it. `pass` stands for a lease in its TOOL frames. */
  MCP_TEST: {
    params: z.strictObject({ server: z.string().regex(MCP_SERVER_NAME), pass: z.string().min(1).max(256) }),
    result: TestedServer,
  },
  /** Answered when tunnels are cut and secrets are gone. */
  REVOKE: { params: Nothing, result: z.strictObject({ cut: z.int() }) },
} as const

/** The note with which a controller opens the engine's stream: the lease that a file has elsewhere. */
export const OFFER = 'OFFER'
export const Offer = z.strictObject({ lease: z.string().min(1).max(8_192) })
