import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'
import { LIMITS } from '../../kernel/limits.ts'
import { AGENT_METHOD_NAMES, AGENT_METHODS, LATER, type AgentMethod, type RequestView } from '../../wire/agent-requests.ts'
import { refusalOf } from '../egress/refuse.ts'
import { paramsSchema, resultSchema, type PlainSchema } from './schemas.ts'

/** What a client is told of the whole, for its model. */
export const INSTRUCTIONS = [
  'Sallyport is the gate of this session: your container reaches the network only through it, and you hold no keys.',
  'Requests to allowed hosts need no credentials of yours: the gate writes them in. policy_explain tells what would pass, and how to ask for more.',
  'host_run runs a command on the host of the person you work for, outside of your container. secret_request asks for the use of a secret, and secret_use_in runs one command with it: you never see its value.',
  'A person may be asked first and sees exactly what you sent, with your reason: say briefly what it is for.',
  `A call waits up to ${LIMITS.requestWaitMs / 1_000} s. When its result has the status "pending" (a person is asked) or "running", call request_await with its id until it has another. A denial is a decision: do not ask for the same again, do what its hint says.`,
].join('\n')

const WAITS = `Waits up to ${LIMITS.requestWaitMs / 1_000} s. If the result has the status "pending" (a person is asked) or "running", call request.await with its id until it has another.`

const NEXT = { type: 'string', description: 'What to do next, where it goes on.' }

/** A method that begins a request, which goes on by itself. */
export function isBeginning(method: AgentMethod): boolean {
  return AGENT_METHODS[method].status === 202
}

/** The method of a tool, if the policy leaves it. */
export function methodOfTool(name: string, enabled: readonly AgentMethod[]): AgentMethod | undefined {
  return enabled.find((method) => AGENT_METHODS[method].tool === name)
}

/** The methods as tools. */
export function toolsOf(enabled: readonly AgentMethod[]): Tool[] {
  return enabled.map((method) => (tools[method] ??= toolOf(method)))
}

const tools: Partial<Record<AgentMethod, Tool>> = {}

function toolOf(method: AgentMethod): Tool {
  const { tool, title, description, annotations } = AGENT_METHODS[method]
  return {
    name: tool,
    title,
    description: inToolNames(description.replace(LATER, WAITS)),
    inputSchema: named(paramsSchema(method)),
    outputSchema: named(outputOf(method)),
    annotations: { title, ...annotations },
    ...(isBeginning(method) && { execution: { taskSupport: 'optional' } }),
  }
}

/** What the result of a tool is: where it waits, what to do next as well. */
function outputOf(method: AgentMethod): PlainSchema {
  const schema = resultSchema(method)
  return isBeginning(method) || method === 'request.await' ? { ...schema, properties: { ...schema.properties, next: NEXT } } : schema
}

function named(schema: PlainSchema): Tool['inputSchema'] {
  return JSON.parse(inToolNames(JSON.stringify(schema))) as Tool['inputSchema']
}

/** A model knows the tools by their names alone. */
function inToolNames(text: string): string {
  return AGENT_METHOD_NAMES.reduce((changed, method) => changed.replaceAll(method, AGENT_METHODS[method].tool), text)
}

/**
 * What a method answered, as the result of its tool. That a command ended with another status than 0 is no error: it ran, and what it
 * printed is what the model needs; some clients show nothing of a result that is one. That it did not run, or did not end, is.
 */
export function resultOf(method: AgentMethod, value: unknown): CallToolResult {
  const structuredContent = isView(value) ? shortened(value) : (value as Record<string, unknown>)
  const isError = isView(value) && method !== 'request.cancel' && !['pending', 'running', 'done'].includes(value.status)
  return { content: [{ type: 'text', text: JSON.stringify(structuredContent) }], structuredContent, ...(isError && { isError }) }
}

/** The same for a method that refused. What is known of its request is told with it. */
export function faultResult(error: unknown, view?: RequestView): CallToolResult {
  const { code, message, hint } = refusalOf(error)
  const told = { code, message, ...(hint !== undefined && { hint: inToolNames(hint) }) }
  // Without a request it has not the form of the tool's results, which clients check.
  const structuredContent = view && { ...shortened(view), error: told }
  const text = JSON.stringify(structuredContent ?? { error: told })
  return { content: [{ type: 'text', text }], ...(structuredContent && { structuredContent }), isError: true }
}

export function isOpen({ status }: RequestView): boolean {
  return status === 'pending' || status === 'running'
}

function isView(value: unknown): value is RequestView {
  return typeof value === 'object' && value !== null && 'status' in value && 'id' in value
}

function shortened(view: RequestView): RequestView & { readonly next?: string } {
  const { stdout, stderr } = view
  const isLong = [stdout, stderr].some((text) => (text?.length ?? 0) > LIMITS.mcpOutputCharsMax)
  return {
    ...view,
    ...(stdout !== undefined && { stdout: endOf(stdout, view.id) }),
    ...(stderr !== undefined && { stderr: endOf(stderr, view.id) }),
    ...(isLong && { truncated: true }),
    ...(isOpen(view) && { next: `call request_await with the id ${view.id}` }),
  }
}

/** What matters of long output is mostly at its end. */
function endOf(text: string, id: string): string {
  if (text.length <= LIMITS.mcpOutputCharsMax) return text
  const end = text.slice(-LIMITS.mcpOutputCharsMax).toWellFormed()
  return `[${text.length - end.length} characters before this are left out: GET $SALLYPORT_URL/v1/requests/${id} has them]\n${end}`
}
