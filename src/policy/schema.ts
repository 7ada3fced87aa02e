import * as z from 'zod'
import { parseAddressRange } from './addresses.ts'
import { parseHostPattern } from './hosts.ts'
import { parsePathPattern } from './paths.ts'
import { parseUpstream } from './routes.ts'
import { parseSource } from './sources.ts'

const METHOD = /^[A-Z][A-Z0-9!#$%&'*+.^_`|~-]{0,31}$/
const EXTENDS = /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/
const HARNESS = /^[a-z0-9-]{1,64}$/
const ROUTE = /^[a-z0-9-]{1,64}$/
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
/** Fields that belong to one connection (RFC 9110 §7.6.1), or that say where a message goes and ends. */
const REFUSED_HEADERS = new Set(
  'connection proxy-connection keep-alive te trailer transfer-encoding upgrade host content-length proxy-authorization proxy-authenticate expect'.split(
    ' ',
  ),
)

/** A string with a check whose complaint is the message. */
function text(check: (value: string) => string | undefined, pattern?: RegExp) {
  const base = pattern === undefined ? z.string().min(1).max(2_048) : z.string().max(2_048).meta({ pattern: pattern.source })
  return base.superRefine((value, context) => {
    const message = check(value)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  })
}

/** A list in which nothing stands twice and something stands at all: an empty one would read as "any" to some. */
function list<T extends z.ZodType<string | number>>(item: T, max: number) {
  return z
    .array(item)
    .min(1)
    .max(max)
    .superRefine((values, context) => {
      values.forEach((value, index) => {
        if (values.indexOf(value) !== index)
          context.addIssue({ code: 'custom', path: [index], message: `"${value}" stands in the list twice` })
      })
    })
}

/** The complaint of a parser that gives a string for a bad value. */
function complaint(parse: (value: string) => unknown): (value: string) => string | undefined {
  return (value) => {
    const result = parse(value)
    return typeof result === 'string' ? result : undefined
  }
}

const Id = text((value) => (ID.test(value) ? undefined : `id "${value}" may have letters, digits, ".", "_" and "-" only, 64 at most`), ID)
const Host = text(complaint(parseHostPattern)).describe('One host, or "*.example.com": every name below it, never the apex.')
const Port = z.int().min(1).max(65_535)
const Methods = list(text(methodProblem, METHOD), 64).describe('Default: any.')
const Paths = list(text(complaint(parsePathPattern)), 1_000).describe(
  '"*": within one segment; "**" as a whole segment: any number of them. Query left out. Default: any.',
)
const Name = text((value) =>
  /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/.test(value) ? undefined : `secret name "${value}" may have letters, digits, "_", "." and "-" only`,
)
const Header = text(headerProblem).describe('The header field that carries the secret.')
const Prefix = text((value) =>
  /^[\x20-\x7e]{1,64}$/.test(value) ? undefined : 'prefix must be printable ASCII, 64 characters at most',
).describe('Stands before the secret, as "Bearer ".')
const Username = text((value) =>
  /^[\x20-\x39\x3b-\x7e]{1,256}$/.test(value) ? undefined : 'username must be printable ASCII without ":" (RFC 7617 §2)',
)

const Addresses = list(text(complaint(parseAddressRange)), 256)
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
})

const inject = {
  domains: list(Host, 256).describe('Where the credential is written; the fewer the better.'),
}

export const Credential = z.strictObject({
  id: Id,
  secret: Name.describe('A name from secrets.'),
  inject: z
    .strictObject({
      ...inject,
      header: Header.optional(),
      prefix: Prefix.optional(),
      basic: z.strictObject({ username: Username }).optional().describe('HTTP basic authentication; the secret is the password.'),
      methods: Methods.optional(),
      paths: Paths.optional(),
    })
    .meta({ oneOf: [{ required: ['header'] }, { required: ['basic'], not: { required: ['prefix'] } }] })
    .superRefine((value, context) => {
      const problem = placeProblem(value)
      if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
    }),
})

export const SecretEntry = z.strictObject({
  name: Name,
  source: text(complaint(parseSource)).describe('env:NAME, file:/absolute/path or exec:command arguments'),
  resources: list(z.enum(['inject']), 16)
    .optional()
    .describe('What the secret may be used for. Default: what refers to it.'),
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
})

export type RuleEntry = z.infer<typeof Rule>
export type RouteEntryShape = z.infer<typeof RouteEntry>
export type CredentialEntry = z.infer<typeof Credential>
export type SecretEntryShape = z.infer<typeof SecretEntry>

/**
 * What the format names and nothing enforces yet: a file that has it is refused rather than half obeyed. By the place
 * in the file, with "[]" for a position in a list.
 */
export const NOT_YET: Readonly<Record<string, readonly string[]>> = {
  '': ['host_commands', 'presence', 'filesystem', 'session'],
  'network.rules[]': ['scrub', 'own_credentials'],
  'credentials[]': ['budget'],
  'credentials[].inject': ['query', 'body', 'placeholder'],
}

/** The JSON Schema that `policies/schema.json` publishes. */
export function policyJsonSchema(): Record<string, unknown> {
  const { $schema, ...schema } = z.toJSONSchema(PolicyFile, { target: 'draft-7', io: 'input' })
  return { $schema, title: 'Sallyport policy', ...schema }
}

function methodProblem(value: string): string | undefined {
  if (!METHOD.test(value)) {
    const right = value.trim().toUpperCase()
    return `method "${value}" is not canonical${METHOD.test(right) ? `; write "${right}"` : ''}`
  }
  if (value === 'CONNECT') return 'method "CONNECT" opens tunnels and is never forwarded; rules speak of the requests inside'
  return value === 'TRACE' ? 'method "TRACE" is never forwarded: it would echo credentials' : undefined
}

function headerProblem(value: string): string | undefined {
  if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/.test(value)) return `header "${value}" is not the name of a header field`
  return REFUSED_HEADERS.has(value.toLowerCase())
    ? `header "${value}" belongs to the connection or frames the message: no credential goes there`
    : undefined
}

function placeProblem(value: { header?: string | undefined; prefix?: string | undefined; basic?: unknown }): string | undefined {
  if (value.header !== undefined && value.basic !== undefined) return 'inject has both header and basic: write two credentials'
  if (value.header === undefined && value.basic === undefined) return 'inject needs a header or basic'
  return value.basic !== undefined && value.prefix !== undefined ? 'prefix goes with header, not with basic' : undefined
}
