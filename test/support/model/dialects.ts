import type { Dialect, Reply } from './conversation.ts'

type Part = { readonly [name: string]: unknown }

const EVENTS = 'text/event-stream'
const JSON_TYPE = 'application/json'

/** Server-sent events, each with its name where the API gives it one. */
function events(list: readonly { readonly type?: string; readonly [name: string]: unknown }[], last = ''): string {
  return list.map((data) => `${data.type === undefined ? '' : `event: ${data.type}\n`}data: ${JSON.stringify(data)}\n\n`).join('') + last
}

const listOf = (value: unknown): Part[] => (Array.isArray(value) ? (value as Part[]) : [])
const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? ''))
const partOf = (value: unknown): Part => (typeof value === 'object' && value !== null ? (value as Part) : {})

/** Anthropic's Messages. */
const MESSAGES: Dialect = {
  matches: (path) => path.endsWith('/v1/messages'),
  read(body) {
    const { tools, messages } = partOf(body)
    const blocks = listOf(messages).flatMap(({ content }) => listOf(content))
    return {
      tools: listOf(tools).map(({ name }) => String(name)),
      results: blocks.filter(({ type }) => type === 'tool_result').map(({ content }) => textOf(content)),
      text: textOf(messages),
    }
  },
  write(reply, { body, id }) {
    const block =
      'tool' in reply ? { type: 'tool_use', id: `toolu_${id}`, name: reply.tool, input: reply.args } : { type: 'text', ...reply }
    const reason = 'tool' in reply ? 'tool_use' : 'end_turn'
    const usage = { input_tokens: 10, output_tokens: 10 }
    const model = partOf(body)['model']
    const message = { id: `msg_${id}`, type: 'message', role: 'assistant', model, stop_sequence: null }
    if (partOf(body)['stream'] !== true)
      return { type: JSON_TYPE, text: JSON.stringify({ ...message, content: [block], stop_reason: reason, usage }) }
    const empty = 'tool' in reply ? { ...block, input: {} } : { type: 'text', text: '' }
    const delta =
      'tool' in reply ? { type: 'input_json_delta', partial_json: JSON.stringify(reply.args) } : { type: 'text_delta', ...reply }
    return {
      type: EVENTS,
      text: events([
        { type: 'message_start', message: { ...message, content: [], stop_reason: null, usage } },
        { type: 'content_block_start', index: 0, content_block: empty },
        { type: 'content_block_delta', index: 0, delta },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage },
        { type: 'message_stop' },
      ]),
    }
  },
}

/** OpenAI's Responses. */
const RESPONSES: Dialect = {
  matches: (path) => path.endsWith('/responses'),
  looksFirst(body) {
    const isFirst = isCode(body) && codeResults(body).length === 0 && textOf(partOf(body)['input']).includes('mcp__sallyport')
    return isFirst ? { tool: CODE, args: { code: "text(ALL_TOOLS.map(({ name }) => name).join(' '))" } } : undefined
  },
  read(body) {
    const { tools, input } = partOf(body)
    const [names = '', ...results] = codeResults(body)
    const outputs = listOf(input).filter(({ type }) => type === 'function_call_output')
    return {
      tools: isCode(body) ? (names.match(/\w+/g) ?? []) : listOf(tools).map(({ name }) => String(name)),
      results: isCode(body) ? results : outputs.map(({ output }) => textOf(output)),
      text: textOf(input),
    }
  },
  write(reply, { body, id }) {
    const answer = responseEvents(reply, body, id)
    return partOf(body)['stream'] === true
      ? { type: EVENTS, text: events(answer) }
      : { type: JSON_TYPE, text: JSON.stringify(answer.at(-1)?.['response']) }
  },
}

/** The same over a WebSocket: an event a message. */
export function responseEvents(reply: Reply, body: unknown, id: string): (Part & { readonly type: string })[] {
  const item = responseItem(reply, body, id)
  const usage = { input_tokens: 10, output_tokens: 10, total_tokens: 20, input_tokens_details: null, output_tokens_details: null }
  const response = { id: `resp_${id}`, object: 'response', created_at: 1, model: partOf(body)['model'] }
  return [
    { type: 'response.created', sequence_number: 0, response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', sequence_number: 1, output_index: 0, item },
    { type: 'response.output_item.done', sequence_number: 2, output_index: 0, item },
    { type: 'response.completed', sequence_number: 3, response: { ...response, status: 'completed', output: [item], usage } },
  ]
}

/** The tool by which models of Codex call all others, as a program. */
const CODE = 'exec'

function isCode(body: unknown): boolean {
  const { tools, input } = partOf(body)
  const offered = [...listOf(tools), ...listOf(input).flatMap(({ tools: more }) => listOf(more))]
  return offered.flatMap((tool) => [tool, ...listOf(tool['tools'])]).some(({ type, name }) => type === 'custom' && name === CODE)
}

function codeResults(body: unknown): string[] {
  return listOf(partOf(body)['input'])
    .filter(({ type }) => type === 'custom_tool_call_output')
    .map(({ output }) => textOf(output))
}

function responseItem(reply: Reply, body: unknown, id: string): Part {
  if (!('tool' in reply)) {
    const content = [{ type: 'output_text', text: reply.text, annotations: [] }]
    return { type: 'message', id: `msg_${id}`, role: 'assistant', status: 'completed', content }
  }
  const call = { call_id: `call_${id}`, status: 'completed' }
  if (!isCode(body)) return { type: 'function_call', id: `fc_${id}`, ...call, name: reply.tool, arguments: JSON.stringify(reply.args) }
  const program = reply.tool === CODE ? String(reply.args['code']) : `text(await tools.${reply.tool}(${JSON.stringify(reply.args)}))`
  return { type: 'custom_tool_call', id: `ctc_${id}`, ...call, namespace: 'functions', name: CODE, input: program }
}

/** OpenAI's Chat Completions. */
const COMPLETIONS: Dialect = {
  matches: (path) => path.endsWith('/chat/completions'),
  read(body) {
    const { tools, messages } = partOf(body)
    return {
      tools: listOf(tools).map(({ function: named }) => String(partOf(named)['name'])),
      results: listOf(messages)
        .filter(({ role }) => role === 'tool')
        .map(({ content }) => textOf(content)),
      text: textOf(messages),
    }
  },
  write(reply, { body, id }) {
    const call = 'tool' in reply && {
      id: `call_${id}`,
      type: 'function',
      function: { name: reply.tool, arguments: JSON.stringify(reply.args) },
    }
    const said = call === false ? { content: 'text' in reply ? reply.text : '' } : { content: null, tool_calls: [{ index: 0, ...call }] }
    const reason = call === false ? 'stop' : 'tool_calls'
    const usage = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 }
    const base = { id: `chatcmpl-${id}`, created: 1, model: partOf(body)['model'] }
    if (partOf(body)['stream'] !== true) {
      const choices = [{ index: 0, message: { role: 'assistant', ...said }, finish_reason: reason }]
      return { type: JSON_TYPE, text: JSON.stringify({ ...base, object: 'chat.completion', choices, usage }) }
    }
    const chunk = { ...base, object: 'chat.completion.chunk' }
    const pieces = [
      { ...chunk, choices: [{ index: 0, delta: { role: 'assistant', ...said }, finish_reason: null }] },
      { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: reason }], usage },
    ]
    return { type: EVENTS, text: events(pieces, 'data: [DONE]\n\n') }
  },
}

/** Google's generateContent. */
const GENERATE: Dialect = {
  matches: (path) => /:(?:streamG|g)enerateContent/.test(path),
  read(body) {
    const { tools, contents } = partOf(body)
    const parts = listOf(contents).flatMap(({ parts: some }) => listOf(some))
    return {
      tools: listOf(tools)
        .flatMap(({ functionDeclarations }) => listOf(functionDeclarations))
        .map(({ name }) => String(name)),
      results: parts.flatMap(({ functionResponse }) => (functionResponse === undefined ? [] : [textOf(functionResponse)])),
      text: textOf(contents),
    }
  },
  write(reply, { path }) {
    const parts = 'tool' in reply ? [{ functionCall: { name: reply.tool, args: reply.args } }] : [{ text: reply.text }]
    const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 10, totalTokenCount: 20 }
    const whole = { candidates: [{ index: 0, content: { role: 'model', parts }, finishReason: 'STOP' }], usageMetadata }
    return path.includes(':stream') ? { type: EVENTS, text: events([whole]) } : { type: JSON_TYPE, text: JSON.stringify(whole) }
  },
}

export const DIALECTS: readonly Dialect[] = [MESSAGES, RESPONSES, COMPLETIONS, GENERATE]
