/** An MCP server with a secret in a container of its own: real daemon, vault, gate, agent and container. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { capture } from '../../scripts/steps.ts'
import type { SessionView } from '../../src/wire/operator.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'

const VALUE = `tool-${randomBytes(18).toString('base64')}/x=`
const SPELLINGS = [VALUE, Buffer.from(VALUE).toString('base64').replace(/=+$/, '').slice(0, -1), Buffer.from(VALUE).toString('hex')]
const PROGRAM = readFileSync(join(import.meta.dirname, '../support/raw-mcp-server.mjs'), 'utf8')

let place: DaemonPlace
let daemon: DaemonProcess
let workspace: string
let session: SessionView

const servers = (key: string): string =>
  JSON.stringify({
    mcpServers: {
      tools: {
        command: 'node',
        args: ['--input-type=module', '-e', PROGRAM],
        env: { TOOL_SECRET: `\${secret:${key}}` },
        tools: ['read', 'leak'],
      },
    },
  })

before(async () => {
  place = openDaemonPlace()
  workspace = await place.workspace('work')
  await capture('chown', ['-R', '10001:10001', workspace])
  daemon = await place.startDaemon()
  await place.must(['secret', 'set', 'TOOL_KEY'], VALUE)
})

after(async () => {
  await place.run(['down', '--all'])
  await daemon[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

test('a reference to a secret that there is not is an error of check and of up, before anything is made', async () => {
  place.write(join(place.home, 'mcp.json'), servers('TOOL_KEZ'))
  for (const argv of [
    ['mcp', 'check', '--workspace', workspace],
    ['up', '--detach', '--no-selftest', '--workspace', workspace],
  ]) {
    const { code, stdout, stderr } = await place.run(argv)
    assert.equal(code, 2, stderr)
    assert.match(`${stdout}${stderr}`, /MCP server "tools": .*TOOL_KEZ/)
  }
  assert.deepEqual(JSON.parse(await place.must(['ls', '--json'])), [])
  place.write(join(place.home, 'mcp.json'), servers('TOOL_KEY'))
  const [listed] = JSON.parse(await place.must(['mcp', 'ls', '--json', '--workspace', workspace])) as Record<string, unknown>[]
  assert.deepEqual([listed?.['name'], listed?.['how'], listed?.['secrets']], ['tools', 'tool', ['TOOL_KEY']])
  await place.must(['mcp', 'check', '--workspace', workspace])
})

/** In the agent's container, as the agent. */
async function agent(script: string): Promise<string> {
  const child = spawn('docker', ['exec', '-i', session.agent.container ?? '', 'bash', '-c', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  for await (const piece of child.stdout) text += String(piece)
  return text
}

const POST = `post() { curl -sS -m 40 -D /tmp/head -H "authorization: Bearer $SALLYPORT_LEASE" -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' \${2:+-H "mcp-session-id: $2"} "$SALLYPORT_URL/mcp/tools" -d "$1"; }
begin() { post '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' >&2; S=$(tr -d '\\r' < /tmp/head | sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: //p'); post '{"jsonrpc":"2.0","method":"notifications/initialized"}' "$S" >&2; }
call() { post '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"'$1'"}}' "$S"; echo; }
`

async function holding(folder: string): Promise<string[]> {
  const { stdout } = await capture('grep', ['-rlaF', '--devices=skip', ...SPELLINGS.flatMap((spelling) => ['-e', spelling]), folder])
  return stdout.split('\n').filter(Boolean)
}

async function siblings(): Promise<string[]> {
  const filter = ['--filter', 'label=sallyport.role=sibling', '--filter', `label=sallyport.session=${session.id}`]
  return (await capture('docker', ['ps', '-aq', '--no-trunc', ...filter])).stdout.split('\n').filter(Boolean)
}

const isIn = (text: string): string | undefined => SPELLINGS.find((spelling) => text.includes(spelling))

test('I69 two clients have a container each, whose secret is nowhere but in it; a tool that the agent does not have is not called', async () => {
  session = JSON.parse(
    await place.must(['up', '--detach', '--json', '--no-selftest', '--name', 'main', '--workspace', workspace]),
  ) as SessionView
  assert.deepEqual(await siblings(), [])
  const first = await agent(
    `${POST}begin 2>/dev/null; call read; call leak; call remove; post '{"jsonrpc":"2.0","id":3,"method":"tools/list"}' "$S"; begin 2>/dev/null; call read`,
  )
  const length = `read: ${VALUE.length} characters, lease none`
  assert.equal(first.split(length).length - 1, 2, first)
  assert.match(first, /not one that this session has/)
  assert.doesNotMatch(first, /remove: |"name":"remove"/)
  assert.equal(isIn(first), undefined)
  const running = await siblings()
  assert.equal(running.length, 2)
  const containers = (await capture('docker', ['ps', '-aq'])).stdout.split('\n').filter(Boolean)
  assert.equal(isIn((await capture('docker', ['inspect', ...containers])).stdout), undefined)
  const root = (await capture('docker', ['info', '--format', '{{.DockerRootDir}}'])).stdout.trim()
  for (const folder of ['containers', 'network', 'volumes']) assert.deepEqual(await holding(join(root, folder)), [])
  for (const container of running) {
    const layer = (await capture('docker', ['inspect', '--format', '{{.GraphDriver.Data.UpperDir}}', container])).stdout.trim()
    if (existsSync(layer)) assert.deepEqual(await holding(layer), [])
  }
  assert.equal(isIn((await capture('ps', ['-eo', 'args'])).stdout), undefined)
  assert.equal(
    isIn(await agent('cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n"; cat ~/.claude.json 2>/dev/null; env')),
    undefined,
  )
  // The vault has it under its key; nothing else of the home has, the audit and the gate's policy neither.
  assert.deepEqual(await holding(place.home), [])
})

test('a session that runs, or one that is made for it, tells the tools of a server with those that agents do not have, and nothing is left', async () => {
  const inMain = JSON.parse(await place.must(['mcp', 'test', 'tools', '--session', 'main', '--json'])) as {
    tools: unknown[]
    server: string
  }
  assert.deepEqual(inMain.tools, [
    { name: 'read', isAllowed: true },
    { name: 'leak', isAllowed: true },
    { name: 'remove', isAllowed: false },
  ])
  const own = await place.must(['mcp', 'test', 'tools', '--workspace', await place.workspace('elsewhere')])
  assert.match(own, /^tools: raw 1, 3 tools, 1 hidden from agents\n {2}\+ read\n {2}\+ leak\n {2}- remove\n$/)
  assert.equal((JSON.parse(await place.must(['ls', '--json'])) as unknown[]).length, 1)
  assert.equal((await siblings()).length, 2)
  const missing = await place.run(['mcp', 'test', 'tolls', '--session', 'main'])
  assert.deepEqual([missing.code, /did you mean "tools"/.test(missing.stderr)], [1, true], missing.stderr)
})

test('a program that the operator starts himself has its secret in its environment, and only what is its own', async () => {
  const show = ['--', process.execPath, '-e', 'process.stdout.write(String(process.env.X.length)); process.exitCode = 3']
  place.env['X'] = '${secret:TOOL_KEY}'
  const { code, stdout, stderr } = await place.run(['mcp', 'wrap', '--name', 'tools', '--workspace', workspace, ...show])
  assert.deepEqual([code, stdout], [3, String(VALUE.length)], stderr)
  const other = await place.run(['mcp', 'wrap', '--name', 'others', '--workspace', workspace, ...show])
  assert.match(other.stderr, /^secret_not_permitted: /)
  delete place.env['X']
})

test('with its session a server ends, and its value is in nothing that was printed', async () => {
  await place.must(['down', 'main'])
  assert.deepEqual(await siblings(), [])
  assert.equal(isIn(place.printed()), undefined)
  assert.deepEqual(await holding(join(place.home, 'audit')), [])
  const audit = await place.must(['audit', 'list', '--json', '--event', 'tool_ended'])
  assert.match(audit, /"server":\s*"tools"/)
})
