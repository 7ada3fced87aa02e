import type * as z from 'zod'
import { SallyportError } from '../kernel/errors.ts'
import { nearest } from '../kernel/nearest.ts'
import { shown } from '../kernel/shown.ts'
import { AGENT_METHODS, type AgentMethod, type AgentParams } from './agent-requests.ts'

/**
 * What a method takes, from what somebody sent for it: with its defaults, and nothing else in it.
 * @throws request_invalid with the field that is wrong, by name
 */
export function parseAgentParams<M extends AgentMethod>(method: M, params: unknown): AgentParams<M> {
  const { params: schema } = AGENT_METHODS[method]
  const poisoned = poisonedField(params)
  if (poisoned !== undefined) throw invalid(method, `unknown field "${poisoned}"`)
  const parsed = schema.safeParse(params)
  if (parsed.success) return parsed.data as AgentParams<M>
  throw invalid(method, describe(parsed.error.issues[0], Object.keys(schema.shape)))
}

function invalid(method: AgentMethod, problem: string): SallyportError {
  const fields = Object.keys(AGENT_METHODS[method].params.shape).join(', ')
  return new SallyportError('request_invalid', problem, { hint: `${method} takes ${fields}` })
}

/** A name that some readers of a map pass over, and others take for something else: it is seen to by none of them. */
function poisonedField(params: unknown): string | undefined {
  const maps = isMap(params) ? [params, ...Object.values(params)] : []
  return maps.some((map) => isMap(map) && Object.hasOwn(map, '__proto__')) ? '__proto__' : undefined
}

function isMap(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function describe(issue: z.core.$ZodIssue | undefined, known: readonly string[]): string {
  if (issue === undefined) return 'it is not what the method takes'
  if (issue.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    const near = nearest(key, known)
    return `unknown field "${shown(key.slice(0, SHOWN_CHARS_MAX))}"${near === undefined ? '' : `: did you mean "${near}"?`}`
  }
  const field = issue.path.map((part) => shown(String(part).slice(0, SHOWN_CHARS_MAX))).join('.')
  if (issue.code === 'invalid_type' && issue.message.endsWith('received undefined'))
    return `${field === '' ? 'a JSON object' : field} is missing`
  return field === '' ? issue.message : `${field}: ${issue.message}`
}

const SHOWN_CHARS_MAX = 64
