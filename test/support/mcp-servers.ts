import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { pino } from 'pino'
import type { ToolEvent } from '../../src/audit/audit.ts'
import { createTools, type Tools } from '../../src/controller/mcp-servers/tool-connections.ts'
import { openProviders } from '../../src/controller/providers/providers.ts'
import type { Sibling, SiblingWish } from '../../src/controller/sessions/sessions.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { system } from '../../src/kernel/system.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { loadPolicy } from '../../src/policy/policy.ts'
import { AGENT_LEASE, createTestSession, openTestController, SESSION } from './control.ts'
import { LOOPBACK, openTestGate, type TestGateOptions } from './gate.ts'

/** In no place that an agent sees. */
export const TOOL_CANARY = 'tool-canary-4b1f"x\\y-90e2'
export const TOOL_SERVER = join(import.meta.dirname, 'mcp-tool-server.ts')

/** A policy with a server of stdio whose variable TOOL_SECRET is a secret; `more` are lines of its entry. */
export function toolPolicy(more = '', command: readonly string[] = [process.execPath, TOOL_SERVER]): string {
  return `version: 1
mcp_servers:
  - name: tools
    command: ${JSON.stringify(command)}
    env: {TOOL_SECRET: "\${secret:TOOL_KEY}", PLAIN: "yes"}
${more}`
}

export type ServersOptions = {
  readonly policy: string
  readonly values?: Readonly<Record<string, string>>
  readonly vault?: Readonly<Record<string, string>>
  readonly gate?: Partial<TestGateOptions>
  /** Waited for before a program is there. */
  readonly starting?: () => Promise<void>
}

/**
 * A gate with a controller before it, and MCP servers as the policy names them. Programs run as processes in the place of containers:
 * with their variables and nothing else.
 */
export async function openServers({ policy, values = {}, vault = { TOOL_KEY: TOOL_CANARY }, gate: more = {}, starting }: ServersOptions) {
  await using parts = new AsyncDisposableStack()
  const audited: ToolEvent[] = []
  const started: SiblingWish[] = []
  const logged: string[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => void logged.push(line) })
  const providers = parts.use(
    openProviders({
      env: {},
      vault: {
        get(key) {
          const value = vault[key]
          if (value === undefined) throw new SallyportError('secret_missing', `the vault has no key ${key}`)
          return new Secret(key, value)
        },
      },
    }),
  )
  const current = { policy }
  const tools: Tools = createTools({
    entitledOf: () => ({ policy: loadPolicy([{ file: 'p.yaml', text: current.policy }], { policyDirs: [] }), holder: {} }),
    providers,
    checkLease(_session, lease) {
      if (lease !== AGENT_LEASE) throw new SallyportError('unauthenticated', 'another lease')
    },
    async startSibling(_session, wish) {
      started.push(wish)
      await starting?.()
      return startProcess(wish)
    },
    audit(event) {
      audited.push(event)
      return Promise.resolve()
    },
    log,
    system,
  })
  parts.use(tools)
  const session = parts.use(await createTestSession({ ...values }, { onTool: (request, signal) => tools.call(SESSION, request, signal) }))
  const controller = parts.use(await openTestController(session))
  const gate = parts.use(
    await openTestGate({
      policy,
      ...more,
      config: {
        version: VERSION,
        session: SESSION,
        http: [],
        gateway: [LOOPBACK],
        control: { transport: { kind: 'unix', path: join(controller.link.socketDir, 'control.sock') }, agent: 'agent' },
        ...more.config,
      },
    }),
  )
  const origin = `http://127.0.0.1:${gate.ports.gateway}`
  const client = async (server = 'tools', headers: Readonly<Record<string, string>> = {}) => {
    const made = new Client({ name: 'test', version: '1' })
    const transport = new StreamableHTTPClientTransport(new URL(`/mcp/${server}`, origin), {
      requestInit: { headers: { authorization: `Bearer ${AGENT_LEASE}`, ...headers } },
    })
    await made.connect(transport)
    return Object.assign(made, {
      http: transport,
      async [Symbol.asyncDispose]() {
        await transport.terminateSession().catch(() => undefined)
        await made.close()
      },
    })
  }
  /** A session of a client that sends what it is told to, and ends nothing by itself. */
  const begin = async (server = 'tools') => {
    const headers = {
      authorization: `Bearer ${AGENT_LEASE}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })
    const begun = await fetch(`${origin}/mcp/${server}`, { method: 'POST', headers, body })
    await begun.text()
    const id = { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
    return {
      status: begun.status,
      ask: (method: string, message?: object, signal?: AbortSignal) =>
        fetch(`${origin}/mcp/${server}`, {
          method,
          headers: { ...headers, ...id },
          ...(message !== undefined && { body: JSON.stringify(message) }),
          ...(signal !== undefined && { signal }),
        }),
    }
  }
  const all = parts.move()
  return {
    begin,
    gate,
    tools,
    session,
    controller,
    audited,
    started,
    origin,
    log: () => logged.join(''),
    async setPolicy(text: string) {
      current.policy = text
      return gate.setPolicy(text)
    },
    /** The gate's own audit. */
    gateAudit: () => gate.audit(),
    client,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

async function startProcess(wish: SiblingWish): Promise<Sibling> {
  const [program, ...args] = wish.argv
  const values = Object.fromEntries(Object.entries(wish.values).map(([name, secret]) => [name, secret.reveal()]))
  const child = spawn(program, args, { env: { ...wish.environment, ...values }, stdio: ['pipe', 'pipe', 'pipe'] })
  await once(child, 'spawn')
  const exited = new Promise<Awaited<Sibling['exited']>>((resolve) =>
    child.once('close', (code) => resolve({ exitCode: code ?? 137, outOfMemory: false, outputExceeded: false })),
  )
  return {
    container: `process-${child.pid}`,
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exited,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
    },
  }
}
