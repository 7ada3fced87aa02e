/** What a program sent to its model, whatever the model's maker calls it. */
export type Turn = {
  /** Names of the tools that it offers. */
  readonly tools: readonly string[]
  /** What tools that were called before said, oldest first. */
  readonly results: readonly string[]
  /** All of it, as one text. */
  readonly text: string
}

export type Reply = { readonly tool: string; readonly args: Readonly<Record<string, unknown>> } | { readonly text: string }

/** How one maker's API is spoken. */
export type Dialect = {
  readonly matches: (path: string) => boolean
  /** What a model has to call first where a program shows it the names of tools no other way. */
  readonly looksFirst?: (body: unknown) => Reply | undefined
  readonly read: (body: unknown) => Turn
  /** Content type and body of the answer. `path` and `body` say whether it is wanted as events. */
  readonly write: (
    reply: Reply,
    request: { readonly path: string; readonly body: unknown; readonly id: string },
  ) => {
    readonly type: string
    readonly text: string
  }
}

const OWN_TOOL = /^(?:mcp__?)?sallyport[_-]{1,2}(?<tool>[a-z_]+)$/
/** A list of arguments, as the person at the keyboard asked for it. */
const WISH = /run:(?<argv>[\w-]+)/
const RESULTS_MAX = 6

/** What the tools of the gate are called there: by the gate's name. */
export function ownTools(tools: readonly string[]): Map<string, string> {
  const named = tools.map((name) => [OWN_TOOL.exec(name)?.groups?.['tool'], name] as const)
  return new Map(named.flatMap(([tool, name]) => (tool === undefined ? [] : [[tool, name] as const])))
}

/**
 * What a model would do that was asked to have a command run on the host: it asks whether it may, has it run, waits for the end, and says
 * what came of it. Whatever else a program asks its model (for a title, say) is answered by a word.
 */
export function nextReply({ tools, results, text }: Turn): Reply {
  const own = ownTools(tools)
  const encoded = WISH.exec(text)?.groups?.['argv']
  const [capability, run, wait] = [own.get('host_run_capability'), own.get('host_run'), own.get('request_await')]
  if (encoded === undefined || capability === undefined || run === undefined || wait === undefined) return { text: 'Hello.' }
  const argv = JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8')) as string[]
  if (results.length === 0) return { tool: capability, args: { argv } }
  if (results.length === 1) return { tool: run, args: { argv, reason: 'I was asked to' } }
  const last = results.at(-1) ?? ''
  const [, id] = /"id": ?"([a-z0-9]{16,64})"/.exec(last.replaceAll('\\"', '"')) ?? []
  const isPending = /"status": ?"(?:pending|running)"/.test(last.replaceAll('\\"', '"'))
  if (id !== undefined && isPending && results.length < RESULTS_MAX) return { tool: wait, args: { id } }
  return { text: `The host said: ${last.replaceAll(/[^\w :.-]+/g, ' ')}` }
}
