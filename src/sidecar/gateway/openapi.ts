import { ERRORS, type RefusalCode } from '../../kernel/errors.ts'
import { VERSION } from '../../kernel/version.ts'
import { RequestView } from '../../wire/agent-views.ts'
import { paramsSchema, resultSchema, type PlainSchema } from './schemas.ts'
import { AGENT_METHODS, type AgentMethod, type AgentMethodEntry } from '../../wire/agent-requests.ts'

type Json = Readonly<Record<string, unknown>>

/** The gateway as an OpenAPI 3.1 document: what is always there, and of the method table what is enabled. */
export function openApiDocument(enabled: readonly AgentMethod[]): Json {
  const paths: Record<string, Record<string, Json>> = {}
  const add = (path: string, verb: string, operation: Json): void => {
    paths[path] = { ...paths[path], [verb]: operation }
  }
  for (const [path, operation] of Object.entries(OWN)) add(path, 'get', operation)
  for (const method of enabled)
    add(AGENT_METHODS[method].path, AGENT_METHODS[method].verb.toLowerCase(), operationOf(AGENT_METHODS[method]))
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sallyport gateway',
      version: VERSION,
      description: 'What the agent of a session may ask for. The same methods are the tools of the MCP server at /mcp.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: [...new Set(['gateway', ...enabled.map(tagOf)])].map((name) => ({ name })),
    security: [{ lease: [] }],
    paths,
    components: {
      securitySchemes: {
        lease: { type: 'http', scheme: 'bearer', description: 'The lease of the session: the agent has it in SALLYPORT_LEASE.' },
      },
      schemas: { Problem: PROBLEM, Request: resultSchema('request.await') },
      responses: describedRefusals(),
    },
  }
}

function operationOf(entry: AgentMethodEntry): Json {
  const { title, tool, description, verb, path, status, result, isStream } = entry
  const schema = paramsSchema(title)
  const content: Json =
    isStream === true
      ? { 'text/event-stream': { schema: { type: 'string' } } }
      : { 'application/json': { schema: result === RequestView ? { $ref: '#/components/schemas/Request' } : resultSchema(title) } }
  return {
    operationId: tool,
    summary: title,
    description: isStream === true ? `${description} ${STREAM}` : description,
    tags: [tagOf(title)],
    ...(verb === 'POST'
      ? { requestBody: { required: true, content: { 'application/json': { schema } } } }
      : { parameters: parametersOf(schema, path) }),
    responses: {
      [status]: { description: status === 202 ? 'It is asked for: what became of it is at /v1/requests/{id}.' : 'The answer.', content },
      ...refusals([...REFUSALS, ...(verb === 'POST' ? OF_BODIES : []), ...(FURTHER[title] ?? [])]),
    },
  }
}

function parametersOf({ properties, required = [] }: PlainSchema, path: string): Json[] {
  return Object.entries(properties).map(([name, { description, ...schema }]) => {
    const isInPath = path.includes(`{${name}}`)
    return {
      name,
      in: isInPath ? 'path' : 'query',
      required: isInPath || required.includes(name),
      ...(description !== undefined && { description }),
      schema,
    }
  })
}

function tagOf(method: AgentMethod): string {
  return method.replace(/\..*$/, '')
}

const STREAM =
  'As server-sent events: "output" with {stream, text}, "lost" where pieces are not kept any more, and at last "end" with the request as it ended, or "error" with {code, message}.'

/** What every call may be refused with, each with the status of the table of errors. */
const REFUSALS: readonly RefusalCode[] = [
  'request_invalid',
  'unauthenticated',
  'controller_unavailable',
  'session_revoked',
  'not_found',
  'head_timeout',
  'rate_limited',
  'head_too_large',
  'internal',
  'overloaded',
]
/** Of what is there besides the table. */
const OF_OWN: readonly RefusalCode[] = ['head_too_large', 'head_timeout', 'internal', 'request_malformed']
const OF_BODIES: readonly RefusalCode[] = ['request_too_large', 'media_type_refused']
const FURTHER: { readonly [M in AgentMethod]?: readonly RefusalCode[] } = {
  'host.run_capability': ['command_invalid'],
  'policy.explain': ['command_invalid'],
  'request.await': ['request_not_found'],
  'request.output': ['request_not_found'],
  'request.cancel': ['request_not_found'],
}

/** By their statuses: each is described once for all. */
function refusals(codes: readonly RefusalCode[]): Record<string, Json> {
  return Object.fromEntries(codes.map((code) => [ERRORS[code].status, { $ref: `#/components/responses/${nameOf(ERRORS[code].status)}` }]))
}

const nameOf = (status: number): string => `Refused${status}`

function describedRefusals(): Record<string, Json> {
  const codes = new Set([...REFUSALS, ...OF_BODIES, ...OF_OWN, ...Object.values(FURTHER).flat()])
  return Object.fromEntries(
    [...Map.groupBy(codes, (code) => ERRORS[code].status)].map(([status, of]) => [
      nameOf(status),
      {
        description: of.map((code) => `${code}: ${ERRORS[code].means}`).join(' '),
        ...(status in HEADERS && { headers: HEADERS[status] }),
        content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    ]),
  )
}

const RETRY: Json = { 'Retry-After': { schema: { type: 'integer' }, description: 'Seconds.' } }
const HEADERS: Readonly<Record<number, Json>> = { 401: { 'WWW-Authenticate': { schema: { type: 'string' } } }, 429: RETRY, 503: RETRY }

const text = (description: string): Json => ({ type: 'string', description })

/** RFC 9457, with members of our own. */
const PROBLEM: Json = {
  type: 'object',
  description: 'Why it was refused (RFC 9457).',
  properties: {
    type: text('urn:sallyport:error: and the code'),
    title: text('What the code means.'),
    status: { type: 'integer' },
    detail: text('What was wrong, with the value.'),
    code: text('For programs: one of docs/ERRORS.md.'),
    hint: text('What to do about it.'),
    rule: text('The rule of the policy that decided.'),
    host: text('The host that it is about.'),
    port: { type: 'integer' },
    request_id: text('The same in the audit.'),
  },
  required: ['type', 'title', 'status', 'detail', 'code', 'request_id'],
}

/** What a gateway has besides the table. */
const OWN: Readonly<Record<string, Json>> = {
  '/healthz': {
    ...own('healthz', 'Whether the gate works', 'application/json', {
      type: 'object',
      properties: { status: { const: 'ok' } },
      required: ['status'],
    }),
    security: [],
  },
  '/ca.crt': {
    ...own('ca', 'The certificate authority of the session, as PEM', 'application/x-pem-file', { type: 'string' }),
    security: [],
  },
  '/openapi.json': leased(own('openapi', 'This document', 'application/json', { type: 'object' })),
  '/v1/placeholders': leased(
    own('placeholders', 'Variables for programs of the agent, and the worthless values that the gate swaps', 'application/json', {
      type: 'object',
      additionalProperties: { type: 'string' },
    }),
  ),
  '/v1/files': leased(
    own('files', 'Configuration files with worthless values, and where programs look for them', 'application/json', {
      type: 'object',
      properties: {
        files: {
          type: 'array',
          items: {
            type: 'object',
            properties: { name: { type: 'string' }, path: { type: 'string' } },
            required: ['name', 'path'],
          },
        },
      },
      required: ['files'],
    }),
  ),
  '/v1/files/{name}': {
    ...leased(own('file', 'One of these files', 'text/plain', { type: 'string' })),
    parameters: [{ name: 'name', in: 'path', required: true, schema: { type: 'string' } }],
  },
}

function own(operationId: string, summary: string, type: string, schema: Json): Json {
  return {
    operationId,
    summary,
    tags: ['gateway'],
    responses: {
      200: { description: summary, content: { [type]: { schema } } },
      ...refusals(['head_too_large', 'head_timeout', 'internal']),
    },
  }
}

function leased(operation: Json): Json {
  return {
    ...operation,
    responses: { ...(operation['responses'] as Json), ...refusals(['unauthenticated', 'not_found']) },
  }
}
