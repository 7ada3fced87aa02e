import * as z from 'zod'
import { parseShape } from '../wire/placeholder-shape.ts'
import { injectProblem, KIND_EXTRAS, KINDS, oauth2Problem } from './credential-problems.ts'
import { headerProblem, parseBodyPlace, parsePlace, queryProblem } from './places.ts'
import { Addresses, complaint, Host, Id, list, Methods, Paths, SecretName, text } from './schema-fields.ts'
import { CredentialFile } from './schema-files.ts'
import { parseSize } from './sizes.ts'
import { parseTokenUrl } from './token-urls.ts'

const Header = text(headerProblem).describe('The header field that carries the secret.')
const Prefix = text((value) =>
  /^[\x20-\x7e]{1,64}$/.test(value) ? undefined : 'prefix must be printable ASCII, 64 characters at most',
).describe('Stands before the secret, as "Bearer ".')
const Username = text((value) =>
  /^[\x20-\x39\x3b-\x7e]{1,256}$/.test(value) ? undefined : 'username must be printable ASCII without ":" (RFC 7617 §2)',
)

/** A pattern of names that AWS' regions and services have. */
const awsName = (what: string, example: string) =>
  text((value) =>
    /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/.test(value)
      ? undefined
      : `${what} "${value}" must be one name like "${example}": lower-case letters, digits and "-"`,
  )

export const Aws = z.strictObject({
  region: awsName('region', 'eu-west-1').describe('The only region that is signed for.'),
  service: awsName('service', 's3').describe("The only service that is signed for, by its name in signatures, as in AWS' documentation."),
  access_key_id: SecretName.describe('A name from secrets: the id of the key. The credential itself is the secret access key.'),
  session_token: SecretName.optional().describe('A name from secrets: for temporary keys.'),
})

export const Also = z.strictObject({
  header: Header,
  prefix: Prefix.optional(),
  secret: SecretName.optional().describe("A name from secrets. Default: the credential's own."),
})

export const Inject = z
  .strictObject({
    domains: list(Host, 256).describe('Where the credential is written; the fewer the better.'),
    methods: Methods.optional(),
    paths: Paths.optional(),
    header: Header.optional(),
    prefix: Prefix.optional(),
    basic: z.strictObject({ username: Username }).optional().describe('HTTP basic authentication; the secret is the password.'),
    query: text(queryProblem).optional().describe('The query parameter that carries the secret.'),
    body: text(complaint(parseBodyPlace)).optional().describe('A JSON pointer ("/auth/token"), or the name of a form field.'),
    placeholder: text(variableProblem)
      .optional()
      .describe('An environment variable of the agent with a worthless value, which is swapped for the secret.'),
    shape: text(shapeProblem).optional().describe('What that value looks like, as "ghp_<alnum:36>", or jwt. Default: "<alnum:40>".'),
    in: list(text(complaint(parsePlace)), 32)
      .optional()
      .describe('Where it is swapped: header, header:NAME, basic, query:NAME, path, body:/POINTER, body:FIELD. Default: header and basic.'),
    file: CredentialFile.optional().describe('A ready file with it, for programs that read one.'),
    aws: Aws.optional().describe('What the agent signs with a worthless key is signed anew (AWS Signature Version 4).'),
    also: z.array(Also).min(1).max(8).optional().describe('Further header fields that are written with it.'),
  })
  .meta({
    oneOf: KINDS.map((kind) => {
      const keys = new Set(KINDS.flatMap((other) => [other, ...KIND_EXTRAS[other]]))
      const refused = keys.difference(new Set([kind, ...KIND_EXTRAS[kind]]))
      return { required: [kind], not: { anyOf: [...refused].map((key) => ({ required: [key] })) } }
    }),
  })
  .superRefine((value, context) => {
    const problem = injectProblem(value)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })

const ClientText = (what: string) =>
  text((value) => (/^[\x20-\x7e]{1,1024}$/.test(value) ? undefined : `${what} must be printable ASCII, 1024 characters at most`))

/** Fields of the form that have keys of their own, or that would change what is asked for (RFC 6749 §2.3.1, §4.4.2, §6). */
const FORM_FIELDS = new Set([
  'grant_type',
  'client_id',
  'client_secret',
  'scope',
  'refresh_token',
  'client_assertion',
  'username',
  'password',
])

export const OAuth2 = z
  .strictObject({
    grant: z
      .enum(['client_credentials', 'refresh_token'])
      .describe("What the credential's secret is: the client's password, or a refresh token."),
    token_url: text(complaint(parseTokenUrl)).describe('Absolute https URL of the token server.'),
    client_id: ClientText('client_id'),
    client_secret: SecretName.optional().describe("With grant refresh_token: a name from secrets, the client's password."),
    scope: text((value) =>
      // RFC 6749 §3.3
      /^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/.test(value)
        ? undefined
        : `scope "${value}" must be words with one space between them`,
    ).optional(),
    parameters: z
      .record(z.string(), ClientText('a parameter'))
      .superRefine((value, context) => {
        for (const key of Object.keys(value)) {
          const message = parameterProblem(key)
          if (message !== undefined) context.addIssue({ code: 'custom', path: [key], message })
        }
      })
      .optional()
      .describe('Further fields of the form, as audience.'),
    authentication: z.enum(['basic', 'body']).optional().describe('How the client proves itself. Default: basic.'),
    addresses: Addresses.optional().describe('Private or otherwise refused ranges that the token server may have.'),
  })
  .superRefine((value, context) => {
    const problem = oauth2Problem(value)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })

const Count = z.int().min(1).max(1_000_000_000)
const Size = z.union([z.int().min(1).max(Number.MAX_SAFE_INTEGER), text(complaint(parseSize))], {
  error: 'write bytes as a number, or with a unit, as "100MB"',
})

export const Budget = z
  .strictObject({
    requests: Count.optional().describe('In the whole session.'),
    requests_per_minute: Count.optional(),
    bytes_up: Size.optional().describe('Of request bodies, in the whole session: bytes, or as "100MB".'),
    bytes_up_per_minute: Size.optional(),
    bytes_down: Size.optional().describe('Of the bodies of answers, in the whole session: bytes, or as "100MB".'),
    bytes_down_per_minute: Size.optional(),
  })
  .meta({ minProperties: 1 })
  .superRefine((value, context) => {
    if (Object.keys(value).length === 0)
      context.addIssue({ code: 'custom', message: 'budget is empty: name a limit, as requests_per_minute, or remove it' })
  })

export const Credential = z
  .strictObject({
    id: Id,
    secret: SecretName.describe('A name from secrets.'),
    inject: Inject,
    oauth2: OAuth2.optional().describe('What is written is an access token that the secret is exchanged for.'),
    budget: Budget.optional().describe('What the credential may be used for in one session; beyond, requests get 429.'),
  })
  .superRefine(({ inject, oauth2, secret }, context) => {
    if (oauth2 === undefined) return
    const kind = (['basic', 'body', 'aws'] as const).find((key) => inject[key] !== undefined)
    const message =
      kind === undefined
        ? undefined
        : `oauth2 gives an access token, which services take in a header or query: use header, query or placeholder, not ${kind}`
    if (message !== undefined) context.addIssue({ code: 'custom', path: ['oauth2'], message })
    inject.also?.forEach((also, index) => {
      if (also.secret !== undefined && also.secret !== secret && also.secret !== oauth2.client_secret) return
      context.addIssue({
        code: 'custom',
        path: ['inject', 'also', index],
        message: 'also would send what the access token is made from: name another secret',
      })
    })
  })

export type CredentialEntry = z.infer<typeof Credential>

/** Variables by which programs are found, run or connected: a worthless value in one of them breaks the agent. */
const TAKEN =
  /^(?:PATH|HOME|SHELL|IFS|ENV|BASH_ENV|TMPDIR|(?:LD|DYLD|SALLYPORT)_.*|NODE_(?:OPTIONS|EXTRA_CA_CERTS)|PYTHONPATH|.*_PROXY|SSL_CERT_(?:FILE|DIR))$/i

function variableProblem(value: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(value))
    return `placeholder "${value}" is not the name of an environment variable: letters, digits and "_" only`
  if (/^AWS_(?:ACCESS_KEY_ID|SECRET_ACCESS_KEY)$/i.test(value))
    return `placeholder "${value}" is never sent but signed with: use aws: {region, service, access_key_id}`
  return TAKEN.test(value) ? `placeholder "${value}" is a variable that programs use for something else` : undefined
}

function shapeProblem(value: string): string | undefined {
  const shape = parseShape(value)
  return typeof shape === 'string' ? `shape "${value}": ${shape}` : undefined
}

function parameterProblem(key: string): string | undefined {
  if (FORM_FIELDS.has(key)) return `parameter "${key}" is set by oauth2 itself: remove it`
  return /^[A-Za-z0-9._~-]{1,128}$/.test(key) ? undefined : `parameter "${key}" may have letters, digits and ._~- only`
}
