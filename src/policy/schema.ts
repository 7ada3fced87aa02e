import * as z from 'zod'
import { Credential } from './schema-credentials.ts'
import { Addresses, complaint, Host, Id, list, Methods, Paths, SecretName, text } from './schema-fields.ts'
import { LIMITS } from '../kernel/limits.ts'
import { parseResource } from './resources.ts'
import { McpSection, McpServerEntry } from './schema-mcp.ts'
import { Filesystem, Session } from './schema-session.ts'
import { Gateway } from './gateway-section.ts'
import { Expiry, HostCommands, PresenceSection } from './host-commands/schema.ts'
import { parseUpstream } from './routes.ts'
import { parseSource } from './sources.ts'

const EXTENDS = /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/
const HARNESS = /^[a-z0-9-]{1,64}$/
const ROUTE = /^[a-z0-9-]{1,64}$/

const Port = z.int().min(1).max(65_535)
const Plaintext = z.enum(['accept', 'refuse'])

export const Rule = z.strictObject({
  id: Id,
  host: Host,
  ports: list(Port, 1_000).optional().describe('Default: 80 and 443.'),
  protocol: z
    .enum(['http', 'tcp'])
    .optional()
    .describe('tcp: bytes as they are, unseen. Default: http for rules that allow, both for those that deny or ask.'),
  methods: Methods.optional(),
  paths: Paths.optional(),
  action: z.enum(['allow', 'ask', 'deny']).describe('The strictest matching rule wins.'),
  tls: z.enum(['intercept', 'passthrough']).optional().describe('Default: intercept. Passthrough carries no credentials.'),
  upgrade: z.literal('https').optional().describe('Plain http leaves as https.'),
  plaintext: Plaintext.optional().describe('Whether credentials may go over plain http. Default: refuse.'),
  addresses: Addresses.optional().describe('Private or otherwise refused ranges that this rule may reach.'),
  scrub: z
    .enum(['replace', 'block', 'off'])
    .optional()
    .describe('What becomes of a secret in an answer: written over, the answer refused, or nothing ("off" in quotes). Default: replace.'),
  own_credentials: z
    .enum(['drop', 'deny', 'pass'])
    .optional()
    .describe('What becomes of credentials that the agent sends itself. Default: drop where one is written.'),
  expires: Expiry.optional().describe('From this day or moment on the rule is none. Of rules that allow or ask.'),
})

export const SecretEntry = z.strictObject({
  name: SecretName,
  source: text(complaint(parseSource)).describe(
    'vault:KEY, env:NAME, file:/absolute/path, exec:command arguments, op:VAULT/ITEM/FIELD, keychain:SERVICE/ACCOUNT, libsecret:ATTRIBUTE=VALUE,…, pass:NAME, vault-http:MOUNT/PATH#FIELD or mcp-config:HARNESS/SERVER/env/VARIABLE',
  ),
  resources: list(text(complaint(parseResource)), 256)
    .optional()
    .describe('What may use the secret: inject, route:NAME, method:NAME, tool:NAME. Default: the credentials that refer to it.'),
  ttl: z
    .int()
    .min(1)
    .max(LIMITS.secretTtlMaxMs / 1000)
    .optional()
    .describe(
      'Seconds that a value is used again once it was obtained. Default: a minute for programs in a gate of its own, else not at all.',
    ),
})

export const RouteEntry = z.strictObject({
  name: text(
    (value) => (ROUTE.test(value) ? undefined : `route name "${value}" may have lower-case letters, digits and "-" only, 64 at most`),
    ROUTE,
  ).describe('In the URL: http://sallyport:7070/route/NAME/…'),
  upstream: text(complaint(parseUpstream)).describe('Absolute URL without query; a path in it cannot be left.'),
  credential: Id.optional().describe('Id of the credential that is written.'),
  plaintext: Plaintext.optional().describe('Whether the credential may go to an http upstream. Default: refuse.'),
  addresses: Addresses.optional().describe('Private or otherwise refused ranges that this route may reach.'),
})

export const Network = z.strictObject({
  mode: z.enum(['restricted', 'none', 'open']).optional().describe('Default: restricted, to what rules allow.'),
  harness: text(
    (value) => (HARNESS.test(value) ? undefined : `harness "${value}" must be a name like "claude": lower-case letters, digits and "-"`),
    HARNESS,
  )
    .optional()
    .describe('Brings harness/NAME.yaml, whose rules hold in every mode.'),
  lease: z.enum(['required', 'optional']).optional().describe("Whether proxies want the session's lease as password. Default: optional."),
  rules: z.array(Rule).max(10_000).optional().describe('No match is a denial; an empty list denies all.'),
})

/** One policy file. Unknown keys are errors: a typo must not widen access. */
export const PolicyFile = z.strictObject({
  version: z.literal(1),
  extends: list(
    text((value) =>
      EXTENDS.test(value)
        ? undefined
        : `extends "${value}" must be a name like "service/npm": lower-case letters, digits, "-", parts joined by "/"`,
    ),
    64,
  ).optional(),
  network: Network.optional(),
  routes: z.array(RouteEntry).max(1_000).optional(),
  credentials: z.array(Credential).max(1_000).optional(),
  secrets: z.array(SecretEntry).max(1_000).optional(),
  filesystem: Filesystem.optional().describe('What the agent of a session sees of the workspace.'),
  session: Session.optional().describe("What a session's containers are made of."),
  host_commands: HostCommands.optional().describe('What becomes of commands that an agent asks the host to run.'),
  presence: PresenceSection.optional().describe('How presence is proven when somebody is asked, by risk.'),
  gateway: Gateway.optional().describe('What an agent may call at the gateway.'),
  mcp_servers: z.array(McpServerEntry).max(64).optional().describe('MCP servers that sessions have besides the gate.'),
  mcp: McpSection.optional().describe('What sessions have of MCP servers that are not named here.'),
})

export type RuleEntry = z.infer<typeof Rule>
export type RouteEntryShape = z.infer<typeof RouteEntry>
export type SecretEntryShape = z.infer<typeof SecretEntry>

/**
 * What the format names and nothing enforces yet: a file that has it is refused rather than half obeyed. By the place
 * in the file, with "[]" for a position in a list.
 */
export const NOT_YET: Readonly<Record<string, readonly string[]>> = {}

/** The JSON Schema that `policies/schema.json` publishes. */
export function policyJsonSchema(): Record<string, unknown> {
  const { $schema, ...schema } = z.toJSONSchema(PolicyFile, { target: 'draft-7', io: 'input' })
  return { $schema, title: 'Sallyport policy', ...schema }
}
