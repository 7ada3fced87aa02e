import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Row } from './demo.ts'
import { playRequests, type Sallyport } from './demo-requests.ts'
import { capture, ROOT, SetupError } from './steps.ts'

/** A session of the controller, from its start to its end, in a home and a workspace of its own that are gone afterwards. */
export async function playSession(): Promise<Row[]> {
  await using parts = new AsyncDisposableStack()
  const folder = parts.adopt(await mkdtemp(path.join(tmpdir(), 'sallyport-demo-')), (made) => rm(made, { recursive: true, force: true }))
  const env = { ...process.env, SALLYPORT_HOME: path.join(folder, 'home') }
  const workspace = path.join(folder, 'workspace')
  const sallyport: Sallyport = (args, input) =>
    capture(process.execPath, [path.join(ROOT, 'src/main.ts'), ...args], { env, ...(input !== undefined && { input }) })
  await mkdir(path.join(env.SALLYPORT_HOME, 'policies'), { recursive: true, mode: 0o700 })
  await writeFile(path.join(env.SALLYPORT_HOME, 'policies', 'global.yaml'), POLICY)
  const before = await inventory()
  await capture('git', ['init', '--quiet', workspace])
  parts.use(await startDaemon(env))

  const began = Date.now()
  const up = await sallyport(['up', '--workspace', workspace, '--detach'])
  const id = up.stdout.trim()
  if (up.code !== 0) throw new SetupError('the session did not come up', up.stderr.trim().split('\n').slice(-6))
  const seconds = ((Date.now() - began) / 1000).toFixed(1)
  parts.defer(async () => void (await sallyport(['down', id])))
  const rows: Row[] = [
    { what: 'sallyport up: a session, every way out tried before its agent starts', outcome: `running after ${seconds} s`, ok: true },
  ]

  const { stdout: shut, code } = await sallyport(['selftest', id])
  rows.push({ what: 'sallyport selftest: the same while it runs', outcome: shut.trim().split('\n').at(-1) ?? '', ok: code === 0 })
  const plant = await sallyport(['exec', id, '--', 'git', '-C', '/workspace', 'config', 'core.fsmonitor', '/workspace/x'])
  rows.push({
    what: 'the agent writes what the operator’s git would run',
    outcome: plant.code === 0 ? 'WRITTEN' : 'refused: read-only',
    ok: plant.code !== 0,
  })
  const asked = await sallyport(['exec', id, '--', 'curl', '-sS', '-o', '/dev/null', '-w', '%{http_code}', 'http://elsewhere.example/'])
  rows.push({ what: 'curl of a host that no rule allows', outcome: asked.stdout.trim(), ok: asked.stdout.trim() === '403' })

  rows.push(...(await playRequests(id, env, sallyport)))

  rows.push(...(await playPage(id, sallyport)))

  const down = await sallyport(['down', id])
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

/** The operator's page, as a browser gets it: by a link that is good once. */
async function playPage(id: string, sallyport: Sallyport): Promise<Row[]> {
  const link = new URL((await sallyport(['open', '--print'])).stdout.trim())
  const document = await fetch(link.origin)
  const policy = document.headers.get('content-security-policy') ?? ''
  const login = async (origin: string): Promise<Response> =>
    fetch(`${link.origin}/v1/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin },
      body: JSON.stringify({ ticket: link.hash.replace('#ticket=', '') }),
    })
  const foreign = await login('http://localhost:1')
  const { token } = (await (await login(link.origin)).json()) as { token: string }
  const sessions = await fetch(`${link.origin}/v1/sessions`, { headers: { authorization: `Bearer ${token}` } })
  const listed = ((await sessions.json()) as { id: string; state: string }[]).find((one) => one.id === id)
  return [
    {
      what: 'sallyport open: the operator’s page, which runs no script but its own, and lists the session',
      outcome: listed === undefined ? 'NOT LISTED' : `${document.status}, ${listed.state}`,
      ok: document.ok && policy.includes("script-src 'self'") && listed?.state === 'running',
    },
    { what: 'the same link from a page of another port', outcome: String(foreign.status), ok: foreign.status === 403 },
  ]
}

async function startDaemon(env: NodeJS.ProcessEnv): Promise<AsyncDisposable> {
  const child = spawn(process.execPath, [path.join(ROOT, 'src/main.ts'), 'daemon', '--web', 'localhost:0'], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
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
