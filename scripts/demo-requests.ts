import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Row } from './demo.ts'
import { ROOT, SetupError, type capture } from './steps.ts'

/** Runs a command of ours, with this on its standard input. */
export type Sallyport = (args: readonly string[], input?: string) => ReturnType<typeof capture>

type Said = {
  readonly id: string
  readonly status: string
  readonly stdout?: string
  readonly handle?: string
  readonly error?: { readonly code: string }
}
/** The agent of a session, and somebody who answers what it asks. */
type Scene = {
  readonly post: (route: string, body: object) => Promise<Said>
  readonly end: (request: string) => Promise<Said>
  /** The request as it ended, after the next question was approved. */
  readonly approved: (request: Said) => Promise<Said>
  readonly shell: (script: string) => Promise<string>
  readonly sallyport: Sallyport
}

/** What an agent asks of the host and of the vault, and what it finds as tools. */
export async function playRequests(id: string, env: NodeJS.ProcessEnv, sallyport: Sallyport): Promise<Row[]> {
  await using watching = watch(env)
  await inTime(watching.ready, 'nobody watches what the agent asks')
  const shell = async (script: string): Promise<string> => (await sallyport(['exec', id, '--', 'sh', '-c', script])).stdout
  const call = async (request: string): Promise<Said> =>
    JSON.parse(await shell(`curl -sS -m 60 -H "authorization: Bearer $SALLYPORT_LEASE" ${request}`)) as Said
  const end: Scene['end'] = (request) => call(`"$SALLYPORT_URL/v1/requests/${request}?wait=30"`)
  const scene: Scene = {
    post: (route, body) =>
      call(`-H 'content-type: application/json' -d '${JSON.stringify({ ...body, reason: 'the demo' })}' "$SALLYPORT_URL/v1/${route}"`),
    end,
    async approved(request) {
      await sallyport(['approve', await inTime(watching.asked(), 'what the agent asks does not arrive')])
      return end(request.id)
    },
    shell,
    sallyport,
  }
  return [...(await playCommands(scene)), ...(await playSecret(scene)), ...(await playTools(scene))]
}

/** What a rule allows, what one denies, and what somebody has to answer. */
async function playCommands({ post, end, approved }: Scene): Promise<Row[]> {
  const run = (argv: readonly string[]): Promise<Said> => post('host/run', { argv })
  const allowed = await end((await run(['uname', '-s'])).id)
  const denied = await end((await run(['rm', '-rf', '/workspace'])).id)
  const asked = await approved(await run(['date', '-u', '+%Y']))
  return [
    { what: 'the agent asks the host for a command that a rule allows', outcome: inWords(allowed), ok: allowed.status === 'done' },
    { what: 'for one that a rule denies', outcome: inWords(denied), ok: denied.error?.code === 'command_not_allowed' },
    { what: 'for one that somebody is asked about, and approves', outcome: inWords(asked), ok: asked.status === 'done' },
  ]
}

/** A secret that a command has and the agent has not: both the request for it and the command are approved. */
async function playSecret({ post, approved, sallyport }: Scene): Promise<Row[]> {
  const value = randomBytes(12).toString('hex')
  await sallyport(['secret', 'set', 'DEMO_TOKEN'], value)
  const granted = await approved(await post('secrets/request', { name: 'DEMO_TOKEN', scope: 'single-command' }))
  const used = await approved(await post('secrets/use', { argv: ['printenv', 'TOKEN'], env: { TOKEN: `\${${granted.handle ?? ''}}` } }))
  return [
    {
      what: 'for a secret, and gets a handle',
      outcome: inWords(granted).replace(granted.handle ?? ' ', 'sph_…'),
      ok: granted.handle !== undefined,
    },
    {
      what: 'for a command with that secret, which says it aloud',
      outcome: inWords(used),
      ok: used.stdout === `${'*'.repeat(value.length)}\n`,
    },
  ]
}

/** As an MCP client does it (2025-06-18, streamable HTTP). */
async function playTools({ shell }: Scene): Promise<Row[]> {
  const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'demo', version: '1' } }
  const text = await shell(`
    mcp() { curl -sS -m 30 -H "authorization: Bearer $SALLYPORT_LEASE" -H 'accept: application/json, text/event-stream' -H 'content-type: application/json' "$@" "$SALLYPORT_URL/mcp"; }
    session=$(mcp -D - -o /dev/null -d '${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}' | tr -d '\r' | sed -n 's/^mcp-session-id: //Ip')
    mcp -H "mcp-session-id: $session" -d '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'`)
  const names = [...text.matchAll(/"name":"([a-z_]+)","title"/g)].map(([, name]) => name)
  const outcome = names.length === 0 ? 'none' : `${names.length}: ${names.slice(0, 3).join(', ')}, …`
  return [{ what: 'what an MCP client finds at the gateway', outcome, ok: names.includes('host_run') && names.includes('secret_use_in') }]
}

const PATIENCE_MS = 60_000

/** @throws SetupError when it takes longer than a minute */
async function inTime<T>(work: Promise<T>, otherwise: string): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new SetupError(otherwise, ['run "npm start" again'])), PATIENCE_MS)
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

function inWords({ status, stdout, handle, error }: Said): string {
  return `${status}: ${error?.code ?? handle ?? (stdout ?? '').trim()}`
}

/** Somebody who watches: with nobody there what asks is refused at once. `asked` gives the id of the next question. */
function watch(env: NodeJS.ProcessEnv): AsyncDisposable & { readonly ready: Promise<unknown>; asked(): Promise<string> } {
  const options = { env, stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'] }
  const child = spawn(process.execPath, [path.join(ROOT, 'src/main.ts'), 'pending', '--watch'], options)
  const ended = once(child, 'exit')
  const questions = questionsOf(createInterface({ input: child.stdout }))
  // Read from the beginning: a line that comes before somebody reads would be lost.
  let next = questions.next()
  return {
    async asked() {
      const { value, done } = await next
      next = questions.next()
      if (done === true) throw new SetupError('nothing was asked', [])
      return value
    },
    ready: Promise.race([once(child.stderr, 'data'), ended]),
    async [Symbol.asyncDispose]() {
      child.kill()
      await ended
    },
  }
}

/** Each question once: a line says too how it ended. */
async function* questionsOf(lines: AsyncIterable<string>): AsyncGenerator<string, undefined> {
  const seen = new Set<string>()
  for await (const line of lines) {
    const id = /^(q-[0-9a-f]+) /.exec(line)?.[1]
    if (id === undefined || seen.has(id)) continue
    seen.add(id)
    yield id
  }
}
