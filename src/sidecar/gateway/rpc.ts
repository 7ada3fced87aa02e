import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { SallyportError, type Refusal } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import { AGENT_METHODS, AGENT_METHOD_NAMES, type AgentMethod, type AgentMethodEntry } from '../../wire/agent-requests.ts'
import { refusalOf } from '../egress/refuse.ts'
import { tooLarge, type Methods } from './methods.ts'
import { streamOutput } from './output-stream.ts'

export type RpcParts = {
  readonly methods: Methods
  /** The lease that a request showed; it was looked at before. */
  readonly leaseOf: (request: FastifyRequest) => string
  readonly answer: (reply: FastifyReply, refusal: Refusal) => FastifyReply
  /** Of what is not there. */
  readonly answerNotFound: (request: FastifyRequest, reply: FastifyReply) => FastifyReply
}

/** The method table as JSON over HTTP: each entry a route, for as long as the policy in force leaves it. Nothing is decided or kept here. */
export function addRpc(gateway: FastifyInstance, parts: RpcParts): void {
  gateway.register((routes, _options, done) => {
    takeJsonAlone(routes)
    for (const method of AGENT_METHOD_NAMES) addMethod(routes, method, parts)
    done()
  })
}

function addMethod(routes: FastifyInstance, method: AgentMethod, { methods, leaseOf, answer, answerNotFound }: RpcParts): void {
  const { verb, path, status, bodyBytesMax, isStream }: AgentMethodEntry = AGENT_METHODS[method]
  routes.route({
    method: verb,
    url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
    bodyLimit: bodyBytesMax,
    // What waits or streams is not asked for by its head.
    exposeHeadRoute: false,
    // Before a byte of the body is read.
    // I56
    onRequest: (request, reply, next) => {
      if (methods.enabled().includes(method)) next()
      else void answerNotFound(request, reply)
    },
    errorHandler: (error, _request, reply) => void answer(reply, refusalOfFault(error, method)),
    handler: async (request, reply) => {
      const call = (name: AgentMethod, params: unknown, signal?: AbortSignal) => methods.call(name, params, leaseOf(request), signal)
      const params = paramsOf(request, method)
      if (isStream !== true)
        return reply
          .code(status)
          .header('cache-control', 'no-store')
          .send(await call(method, params))
      await streamOutput(reply, params, call)
      return reply
    },
  })
}

/** A body is JSON by its type: a page elsewhere could send another without asking. What is in it the table looks at. */
function takeJsonAlone(routes: FastifyInstance): void {
  routes.removeAllContentTypeParsers()
  routes.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => {
    if (body === '') return done(null, undefined)
    try {
      return done(null, JSON.parse(body as string))
    } catch {
      return done(new SallyportError('request_invalid', 'the body is no JSON', { hint: 'send one JSON object' }))
    }
  })
}

/**
 * A call's parameters: of the path, and of the query, or of a POST of the body. Nothing that was sent is passed over.
 * @throws request_invalid
 */
function paramsOf(request: FastifyRequest, method: AgentMethod): unknown {
  const [path, query] = [request.params, request.query] as [Record<string, string>, Record<string, unknown>]
  const twice = Object.keys(query).find((name) => Object.hasOwn(path, name))
  if (twice !== undefined) throw new SallyportError('request_invalid', `"${twice}" is in the path and in the query`)
  if (request.method === 'POST') {
    const [name] = Object.keys(query)
    if (name === undefined) return request.body
    throw new SallyportError('request_invalid', `unknown field "${shown(name.slice(0, 64))}" in the query`, {
      hint: 'send all fields in the body',
    })
  }
  if (request.body !== undefined) throw new SallyportError('request_invalid', `${request.method} takes no body`)
  const { shape } = AGENT_METHODS[method].params
  return { ...Object.fromEntries(Object.entries(query).map(([name, value]) => [name, numbered(shape, name, value)])), ...path }
}

/** A query has texts only. What is no number stays what it is, and the table refuses it. */
function numbered(shape: Readonly<Record<string, object>>, name: string, value: unknown): unknown {
  const isNumber = Object.hasOwn(shape, name) && innermost(shape[name]) === 'number'
  return isNumber && typeof value === 'string' && /^\d{1,15}(?:\.\d{1,6})?$/.test(value) ? Number(value) : value
}

/** What a schema is about, whether it may be left out or not. */
function innermost(schema: object | undefined): string | undefined {
  const { def } = (schema ?? {}) as { readonly def?: { readonly type: string; readonly innerType?: object } }
  return def?.innerType === undefined ? def?.type : innermost(def.innerType)
}

/** A body that is too large or of another type is the agent's own fault: the framework says so by its status. */
function refusalOfFault(error: unknown, method: AgentMethod): Refusal {
  const { statusCode } = error as { readonly statusCode?: number }
  if (error instanceof SallyportError || statusCode === undefined) return refusalOf(error)
  if (statusCode === 413) return refusalOf(tooLarge(method, AGENT_METHODS[method].bodyBytesMax))
  if (statusCode === 415)
    return {
      code: 'media_type_refused',
      message: 'the body is not application/json',
      hint: 'send JSON with content-type: application/json',
    }
  if (statusCode >= 400 && statusCode <= 499) return { code: 'request_invalid', message: 'the body is not what it was said to be' }
  return refusalOf(error)
}
