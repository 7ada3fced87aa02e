import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Row } from './demo.ts'
import { capture, ROOT, SetupError } from './steps.ts'

/** A session of the controller, from its start to its end, in a home and a workspace of its own that are gone afterwards. */
export async function playSession(): Promise<Row[]> {
  await using parts = new AsyncDisposableStack()
  const folder = parts.adopt(await mkdtemp(path.join(tmpdir(), 'sallyport-demo-')), (made) => rm(made, { recursive: true, force: true }))
  const env = { ...process.env, SALLYPORT_HOME: path.join(folder, 'home') }
  const workspace = path.join(folder, 'workspace')
  const sallyport = (...args: string[]) => capture(process.execPath, [path.join(ROOT, 'src/main.ts'), ...args], { env })
  await mkdir(path.join(env.SALLYPORT_HOME, 'policies'), { recursive: true, mode: 0o700 })
  await writeFile(path.join(env.SALLYPORT_HOME, 'policies', 'global.yaml'), POLICY)
  const before = await inventory()
  await capture('git', ['init', '--quiet', workspace])
  parts.use(await startDaemon(env))

  const began = Date.now()
  const up = await sallyport('up', '--workspace', workspace, '--detach')
  const id = up.stdout.trim()
  if (up.code !== 0) throw new SetupError('the session did not come up', up.stderr.trim().split('\n').slice(-6))
  const seconds = ((Date.now() - began) / 1000).toFixed(1)
  parts.defer(async () => void (await sallyport('down', id)))
  const rows: Row[] = [
    { what: 'sallyport up: a session, every way out tried before its agent starts', outcome: `running after ${seconds} s`, ok: true },
  ]

  const { stdout: shut, code } = await sallyport('selftest', id)
  rows.push({ what: 'sallyport selftest: the same while it runs', outcome: shut.trim().split('\n').at(-1) ?? '', ok: code === 0 })
  const plant = await sallyport('exec', id, '--', 'git', '-C', '/workspace', 'config', 'core.fsmonitor', '/workspace/x')
  rows.push({
    what: 'the agent writes what the operator’s git would run',
    outcome: plant.code === 0 ? 'WRITTEN' : 'refused: read-only',
    ok: plant.code !== 0,
  })
  const asked = await sallyport('exec', id, '--', 'curl', '-sS', '-o', '/dev/null', '-w', '%{http_code}', 'http://elsewhere.example/')
  rows.push({ what: 'curl of a host that no rule allows', outcome: asked.stdout.trim(), ok: asked.stdout.trim() === '403' })

  rows.push(...(await playRequests(id, env, sallyport)))

  const down = await sallyport('down', id)
  const left = (await inventory()).filter((one) => !before.includes(one))
  rows.push({ what: 'sallyport down: what is left of it', outcome: left.join(', ') || 'nothing', ok: down.code === 0 && left.length === 0 })
  return rows
}

const POLICY = `version: 1
host_commands:
  mode: allowlist
  allow: [uname -s]
  deny: ["rm **"]
`

type Sallyport = (...args: string[]) => ReturnType<typeof capture>

/** What the agent asks of the host: what a rule allows, what one denies, and what somebody has to answer. */
async function playRequests(id: string, env: NodeJS.ProcessEnv, sallyport: Sallyport): Promise<Row[]> {
  await using watching = watch(env)
  await inTime(watching.ready, 'nobody watches what the agent asks')
  const call = async (request: string): Promise<Said> => {
    const script = `curl -sS -m 60 -H "authorization: Bearer $SALLYPORT_LEASE" ${request}`
    return JSON.parse((await sallyport('exec', id, '--', 'sh', '-c', script)).stdout) as Said
  }
  const run = (argv: readonly string[]): Promise<Said> =>
    call(`-H 'content-type: application/json' -d '${JSON.stringify({ argv, reason: 'the demo' })}' "$SALLYPORT_URL/v1/host/run"`)
  const end = (request: string): Promise<Said> => call(`"$SALLYPORT_URL/v1/requests/${request}?wait=30"`)

  const allowed = await end((await run(['uname', '-s'])).id)
  const denied = await end((await run(['rm', '-rf', '/workspace'])).id)
  const { id: request } = await run(['date', '-u', '+%Y'])
  const question = await inTime(watching.asked, 'what the agent asks does not arrive')
  const answered = await sallyport('approve', question)
  const approved = await end(request)
  return [
    { what: 'the agent asks the host for a command that a rule allows', outcome: inWords(allowed), ok: allowed.status === 'done' },
    { what: 'for one that a rule denies', outcome: inWords(denied), ok: denied.error?.code === 'command_not_allowed' },
    {
      what: 'for one that somebody is asked about, and approves',
      outcome: inWords(approved),
      ok: answered.code === 0 && approved.status === 'done',
    },
  ]
}

const PATIENCE_MS = 60_000

/** @throws SetupError when it takes longer than a minute */
async function inTime<T>(work: Promise<T>, otherwise: string): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new SetupError(otherwise, ['run "npm start" again'])), PATIENCE_MS)
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

type Said = { readonly id: string; readonly status: string; readonly stdout?: string; readonly error?: { readonly code: string } }

function inWords({ status, stdout, error }: Said): string {
  return error === undefined ? `${status}: ${(stdout ?? '').trim()}` : `${status}: ${error.code}`
}

/** Somebody who watches: with nobody there what asks is refused at once. `asked` is the id of the first question. */
function watch(env: NodeJS.ProcessEnv): AsyncDisposable & { readonly ready: Promise<unknown>; readonly asked: Promise<string> } {
  const options = { env, stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'] }
  const child = spawn(process.execPath, [path.join(ROOT, 'src/main.ts'), 'pending', '--watch'], options)
  const ended = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })
  const asked = firstAsked(lines)
  // Heard by who waits for it; when nobody does any more, it is no fault.
  asked.catch(() => undefined)
  return {
    asked,
    ready: Promise.race([once(child.stderr, 'data'), ended]),
    async [Symbol.asyncDispose]() {
      child.kill()
      await ended
    },
  }
}

async function firstAsked(lines: AsyncIterable<string>): Promise<string> {
  for await (const line of lines) {
    const id = /^(q-[0-9a-f]+) /.exec(line)?.[1]
    if (id !== undefined) return id
  }
  throw new SetupError('nothing was asked', [])
}

async function startDaemon(env: NodeJS.ProcessEnv): Promise<AsyncDisposable> {
  const child = spawn(process.execPath, [path.join(ROOT, 'src/main.ts'), 'daemon', '--no-web'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'exit')
  const said: string[] = []
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk.toString()))
  const ready = (async () => {
    for await (const line of createInterface({ input: child.stdout })) if (line.includes('"ready"')) return true
    return false
  })()
  if (!(await ready)) throw new SetupError('the daemon did not start', said.join('').trim().split('\n').slice(-6))
  return {
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

async function inventory(): Promise<string[]> {
  const lists = await Promise.all([
    capture('docker', ['ps', '--all', '--format', 'container {{.Names}}']),
    capture('docker', ['network', 'ls', '--format', 'network {{.Name}}']),
    capture('docker', ['volume', 'ls', '--format', 'volume {{.Name}}']),
  ])
  return lists.flatMap(({ stdout }) => stdout.split('\n').filter(Boolean))
}
