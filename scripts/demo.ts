import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import { capture, SetupError, type Outcome } from './steps.ts'
import type { ComposeProject } from './project.ts'

const API = 'api.demo.internal'
const OTHER = 'elsewhere.demo.internal'
const AUDIT = '/var/lib/sallyport/audit/audit.jsonl'

/** One thing that the agent tried, and whether it went as it must. */
export type Row = { readonly what: string; readonly outcome: string; readonly ok: boolean }

/** Runs the demo from inside the agent, for real. */
export async function playDemo(project: ComposeProject): Promise<Row[]> {
  const agent = (...argv: string[]): Promise<Outcome> => project.compose(['exec', '-T', 'agent', ...argv], { timeoutMs: 60_000 })
  const token = readFileSync(path.join(project.env.get('SALLYPORT_SECRETS_DIR') ?? '', 'DEMO_TOKEN'), 'utf8').trim()
  return [
    ...(await allowed(agent)),
    ...(await placeholders(agent)),
    await echoed(agent, token),
    ...(await refused(agent)),
    ...(await direct(agent, project)),
    await withoutToken(agent, token),
  ]
}

type Agent = (...argv: string[]) => Promise<Outcome>

async function allowed(agent: Agent): Promise<Row[]> {
  const url = `https://${API}/v1/me`
  const node = `fetch('${url}').then(async (r) => console.log(r.status, await r.text()))`
  const python = `import urllib.request as u; r = u.urlopen('${url}'); print(r.status, r.read().decode())`
  const clone = `rm -rf /tmp/hello && git clone -q https://${API}/git/hello.git /tmp/hello && cat /tmp/hello/README.md`
  return [
    authenticated(`curl ${url}`, await agent('curl', '-sS', '-w', '%{http_code} ', url)),
    authenticated(`node fetch ${url}`, await agent('node', '-e', node)),
    authenticated(`python urllib ${url}`, await agent('python3', '-c', python)),
    authenticated(`curl http://${API}/v1/me (plain)`, await agent('curl', '-sS', '-w', '%{http_code} ', `http://${API}/v1/me`)),
    authenticated(
      `curl -H "Authorization: Bearer wrong" ${url}`,
      await agent('curl', '-sS', '-w', '%{http_code} ', '-H', 'Authorization: Bearer wrong', url),
    ),
    authenticated(`curl --http2 ${url}`, await agent('curl', '-sS', '--http2', '-w', '%{http_code} HTTP/%{http_version} ', url)),
    authenticated(
      `curl --socks5-hostname sallyport ${url}`,
      await agent('curl', '-sS', '-w', '%{http_code} ', '--socks5-hostname', 'sallyport:1080', url),
    ),
    authenticated(`curl --noproxy '*' ${url}`, await agent('curl', '-sS', '-w', '%{http_code} ', '--noproxy', '*', url)),
    await agent('sh', '-c', clone).then(({ code, stdout, stderr }) => ({
      what: `git clone https://${API}/git/hello.git`,
      ok: code === 0 && stdout.includes('Cloned with a credential'),
      outcome: code === 0 ? `cloned: ${stdout.split('\n')[0] ?? ''}` : lastLine(stderr),
    })),
  ]
}

function authenticated(what: string, { stdout, stderr }: Outcome): Row {
  const ok = /\b200\b/.test(stdout) && stdout.includes('"authenticated":true')
  return { what, ok, outcome: ok ? '200, authenticated' : oneLine(stdout || stderr) }
}

/** What the agent holds in the place of a key is worth something in one place only. */
async function placeholders(agent: Agent): Promise<Row[]> {
  const curl = (url: string): Promise<Outcome> => agent('sh', '-c', `curl -sS -w '%{http_code} ' -H "X-Api-Key: $DEMO_KEY" ${url}`)
  const what = (url: string): string => `curl -H "X-Api-Key: $DEMO_KEY" ${url}`
  const [right, wrong] = [`https://${API}/v2/me`, `https://${API}/v1/me`]
  const { stdout, ...rest } = await curl(wrong)
  return [
    authenticated(what(right), await curl(right)),
    problem(what(wrong), { ...rest, stdout: stdout.replace(/403 $/, '') }, 'placeholder_misplaced'),
  ]
}

/** The API says the token back, in its head and in four spellings in a compressed body. */
async function echoed(agent: Agent, token: string): Promise<Row> {
  const url = `https://${API}/v1/echo`
  const { stdout, stderr } = await agent('curl', '-sS', '-i', '--compressed', url)
  const bytes = Buffer.from(token)
  const spellings = [token, bytes.toString('base64'), bytes.toString('hex'), String.raw`\u00${bytes.toString('hex').slice(0, 2)}\u00`]
  const found = spellings.filter((text) => stdout.includes(text))
  const ok = found.length === 0 && stdout.includes('"plain":"****') && /x-your-token: \*{8}/i.test(stdout)
  return {
    what: `curl --compressed ${url}`,
    ok,
    outcome: ok
      ? 'the token comes back in five places, and is written over in all'
      : found.length > 0
        ? 'THE TOKEN CAME BACK'
        : oneLine(stderr || stdout),
  }
}

async function refused(agent: Agent): Promise<Row[]> {
  const tunnel = await agent('curl', '-sS', '-o', '/dev/null', '-D', '-', `https://${OTHER}/v1/me`)
  const plain = await agent('curl', '-sS', `http://${OTHER}/v1/me`)
  const method = await agent('curl', '-sS', '-X', 'DELETE', `https://${API}/v1/me`)
  return [
    {
      what: `curl https://${OTHER}/v1/me`,
      ok: tunnel.code !== 0 && / 403 /.test(tunnel.stdout) && /^proxy-status: sallyport/im.test(tunnel.stdout),
      outcome: `${/ (\d{3}) /.exec(tunnel.stdout)?.[1] ?? '?'} ${/^proxy-status: .*details="([^"]*)"/im.exec(tunnel.stdout)?.[1] ?? oneLine(tunnel.stderr)}`,
    },
    problem(`curl http://${OTHER}/v1/me`, plain, 'host_not_allowed'),
    problem(`curl -X DELETE https://${API}/v1/me`, method, 'denied_by_rule'),
  ]
}

function problem(what: string, { stdout, stderr }: Outcome, code: string): Row {
  try {
    const said = JSON.parse(stdout) as { status: number; code: string; detail: string }
    return { what, ok: said.status === 403 && said.code === code, outcome: `${said.status} ${said.code}: ${said.detail}` }
  } catch {
    return { what, ok: false, outcome: oneLine(stdout || stderr) }
  }
}

/** Past the proxy there is nothing: not to the same API's address, not to this machine, not by name. All targets are our own. */
async function direct(agent: Agent, project: ComposeProject): Promise<Row[]> {
  await using host = await listenOnHost()
  const connect = async (what: string, address: string, port: number): Promise<Row> => {
    const tried = await agent('python3', '-c', `import socket; socket.create_connection(('${address}', ${port}), 6); print('connected')`)
    const ok = tried.code !== 0 && !tried.stdout.includes('connected')
    return {
      what,
      ok,
      outcome: ok
        ? `nowhere: ${lastLine(tried.stderr)
            .replace(/^\w+: (\[Errno \d+\] )?/, '')
            .toLowerCase()}`
        : 'CONNECTED',
    }
  }
  const [upstream, sidecar] = [await addressOn(project, 'upstream', 'uplink'), await addressOn(project, 'sidecar', 'uplink')]
  const rows = await Promise.all([
    connect(`socket to the API itself, ${upstream}:443`, upstream, 443),
    connect(`socket to the sidecar's other side, ${sidecar}:3128`, sidecar, 3128),
    ...(await hostAddresses(project)).map((address) => connect(`socket to this machine, ${address}:${host.port}`, address, host.port)),
    agent('getent', 'hosts', OTHER).then(({ code, stdout }) => ({
      what: `look up ${OTHER}`,
      ok: code !== 0 && stdout.trim() === '',
      outcome: code === 0 ? `RESOLVED ${oneLine(stdout)}` : 'no such name in the jail',
    })),
  ])
  if (host.connections() > 0) rows.push({ what: 'connections that reached this machine', ok: false, outcome: String(host.connections()) })
  return rows
}

async function listenOnHost(): Promise<AsyncDisposable & { port: number; connections(): number }> {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    connections: () => connections,
    [Symbol.asyncDispose]: async () => void (await new Promise((resolve) => server.close(resolve))),
  }
}

async function addressOn(project: ComposeProject, service: string, network: string): Promise<string> {
  const id = (await project.compose(['ps', '-q', service])).stdout.trim()
  const name = `${project.env.get('COMPOSE_PROJECT_NAME') ?? ''}_${network}`
  const { stdout } = await capture('docker', ['inspect', '--format', `{{(index .NetworkSettings.Networks "${name}").IPAddress}}`, id])
  if (stdout.trim() === '') throw new SetupError(`${service} has no address on ${name}`, ['docker compose ps -a'])
  return stdout.trim()
}

/** The gateway addresses of both networks: where the host would be, were it there. */
async function hostAddresses(project: ComposeProject): Promise<string[]> {
  const name = project.env.get('COMPOSE_PROJECT_NAME') ?? ''
  const format = '{{range .IPAM.Config}}{{.Subnet}} {{.Gateway}} {{end}}'
  const lines = await Promise.all(
    ['jail', 'uplink'].map(
      async (network) => (await capture('docker', ['network', 'inspect', '--format', format, `${name}_${network}`])).stdout,
    ),
  )
  const named = lines.flatMap((line) =>
    line
      .trim()
      .split(' ')
      .filter((part) => part !== '' && !part.includes('/')),
  )
  const first = (project.env.get('SALLYPORT_SUBNET') ?? '').replace(/\.0\/24$/, '.1')
  return [...new Set([...named, first])].filter((address) => /^\d+\.\d+\.\d+\.\d+$/.test(address))
}

/** Everything that the agent could read a token from is brought out here and searched: the token itself never goes in. */
async function withoutToken(agent: Agent, token: string): Promise<Row> {
  const script =
    'env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; find /run /sallyport /workspace /home /tmp -type f -exec cat {} + 2>/dev/null'
  const seen = await agent('sh', '-c', script)
  const found = seen.stdout.includes(token) || seen.stdout.includes(Buffer.from(`x-access-token:${token}`).toString('base64'))
  return {
    what: 'the token in environment, processes and files of the agent',
    ok: seen.stdout !== '' && !found,
    outcome: found ? 'FOUND' : `not there (${Math.round(seen.stdout.length / 1024)} KB searched)`,
  }
}

/** The audit's last events, a line each. */
export async function auditLines(project: ComposeProject, count: number): Promise<string[]> {
  const { stdout } = await project.compose(['exec', '-T', 'sidecar', 'tail', '-n', String(count * 3), AUDIT])
  const events: Event[] = stdout
    .trim()
    .split('\n')
    .map(parse)
    .filter((event) => event !== undefined)
  const finished = new Map(events.filter((event) => event['event'] === 'finished').map((event) => [event['request'], event]))
  return events
    .filter((event) => event['event'] === 'decided')
    .slice(-count)
    .map((event) => {
      const end = finished.get(event['request'])
      const target = `${event['method'] ?? 'CONNECT'} ${event['scheme'] === undefined ? '' : `${event['scheme']}://`}${event['host'] ?? '?'}${event['path'] ?? ''}`
      const why = [event['rule'], event['code'], event['credential']].filter(Boolean).join(', ')
      return `${String(event['time']).slice(11, 23)}  ${String(event['decision']).padEnd(6)} ${String(end?.['status'] ?? '').padEnd(4)} ${target}  (${why})`
    })
}

/** What `sallyport audit verify` says of the file, or undefined when the chain does not hold. */
export async function verifiedAudit(project: ComposeProject): Promise<string | undefined> {
  const { code, stdout } = await project.compose(['exec', '-T', 'sidecar', 'sallyport', 'audit', 'verify', AUDIT])
  return code === 0 ? stdout.split('\n')[0] : undefined
}

type Event = Readonly<Record<string, string | number | undefined>>

function parse(line: string): Event | undefined {
  try {
    return JSON.parse(line) as Event
  } catch {
    return undefined
  }
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 120) ?? ''
}

function oneLine(text: string): string {
  return text.trim().replace(/\s+/g, ' ').slice(0, 120)
}
