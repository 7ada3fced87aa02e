/** An agent asks the host, a person answers, and that and nothing else runs: real daemon, real commands, real agent. */
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Question } from '../../src/wire/question.ts'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import type { SessionView } from '../../src/wire/operator.ts'
import { capture } from '../../scripts/steps.ts'
import { openContainerUpstream, type ContainerUpstream } from '../support/container-upstream.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'
import { eventually } from '../support/eventually.ts'
import { MAIN } from '../support/main-file.ts'

const API = 'api.demo.internal'
const ASKED = 'asked.demo.internal'
const LATER = 'later.demo.internal'
const KEY = `key-${randomBytes(20).toString('hex')}`
const PASSWORD = `operator-${randomBytes(8).toString('hex')}`
const PRIVATE = 'addresses: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]'
const POLICY = `version: 1
network:
  rules:
    - {id: api, host: ${API}, action: allow, ${PRIVATE}}
    - {id: asked, host: ${ASKED}, action: ask, ${PRIVATE}}
credentials:
  - {id: api, secret: API_KEY, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_KEY, source: "vault:API_KEY", resources: [inject]}
host_commands:
  mode: allowlist
  allow: ["uname -s", "seq <int>", "cat leaked"]
  deny: ["rm **"]
`

let place: DaemonPlace
let upstream: ContainerUpstream
let daemon: DaemonProcess
let workspace: string
let main: SessionView
let other: SessionView
let watching: ChildProcess | undefined

before(async () => {
  place = openDaemonPlace()
  upstream = await openContainerUpstream([API, ASKED, LATER])
  place.env['SALLYPORT_EXTRA_CA'] = upstream.authorityFile
  place.write(join(place.home, 'policies', 'global.yaml'), POLICY)
  workspace = await place.workspace('work', { leaked: `before ${KEY} after\n` })
  // The agent of a session of root's is uid 10001.
  chownSync(workspace, 10_001, 10_001)
  daemon = await place.startDaemon()
  await place.must(['secret', 'set', 'API_KEY'], KEY)
  main = await up('main', workspace)
  other = await up('other', await place.workspace('elsewhere'))
  await upstream.join(`sallyport-${main.id}-uplink`)
})

after(async () => {
  watching?.kill()
  await place.run(['down', '--all'])
  await daemon[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

async function up(name: string, folder: string): Promise<SessionView> {
  return JSON.parse(await place.must(['up', '--detach', '--json', '--no-selftest', '--name', name, '--workspace', folder])) as SessionView
}

type Said = { readonly status: number; readonly body: RequestView & { readonly code?: string; readonly detail?: string } }

/** The agent's own curl in its own container, with its own lease: what it can do it does without the daemon's help. */
async function ask(method: string, path: string, body?: unknown, session = main, lease = '$SALLYPORT_LEASE'): Promise<Said> {
  const data = body === undefined ? '' : `-H 'content-type: application/json' --data-binary @-`
  const script = `curl -sS -m 60 -X ${method} -w '\\n%{http_code}' -H "authorization: Bearer ${lease}" ${data} "$SALLYPORT_URL${path}"`
  const child = spawn('docker', ['exec', '-i', session.agent.container ?? '', 'sh', '-c', script], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(body === undefined ? '' : JSON.stringify(body))
  let text = ''
  for await (const piece of child.stdout) text += String(piece)
  const [status = '', ...lines] = text.trimEnd().split('\n').toReversed()
  return { status: Number(status), body: JSON.parse(lines.toReversed().join('\n')) as Said['body'] }
}

const run = async (wish: Record<string, unknown>, session = main): Promise<RequestView> => {
  const { status, body } = await ask('POST', '/v1/host/run', { reason: 'to see', ...wish }, session)
  assert.equal(status, 202, JSON.stringify(body))
  return body
}

const ended = async ({ id }: RequestView, session = main): Promise<RequestView> =>
  (await ask('GET', `/v1/requests/${id}?wait=40`, undefined, session)).body

async function pending(): Promise<Question[]> {
  return JSON.parse(await place.must(['pending', '--json'])) as Question[]
}

/** The status that the agent's own curl gets. */
async function fetched(host: string, path = '/me'): Promise<string> {
  const argv = [
    'exec',
    main.agent.container ?? '',
    'curl',
    '-sS',
    '-m',
    '20',
    '-o',
    '/dev/null',
    '-w',
    '%{http_code}',
    `https://${host}${path}`,
  ]
  return (await capture('docker', argv)).stdout
}

/** The one question that waits. */
async function asked(): Promise<Question> {
  return eventually(async () => {
    const [question, ...more] = await pending()
    assert.ok(question !== undefined && more.length === 0, 'not one question')
    return question
  })
}

async function audited(event: string): Promise<Record<string, unknown>[]> {
  const lines = readFileSync(join(place.home, 'audit', 'controller.jsonl'), 'utf8')
    .trim()
    .split('\n')
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>).filter((line) => line['event'] === event)
}

test('a command that a rule allows runs on the host, and says what it printed and how it ended', async () => {
  const request = await run({ argv: ['uname', '-s'] })
  const { status, exit_code, stdout } = await ended(request)
  assert.deepEqual([status, exit_code, stdout], ['done', 0, (await capture('uname', ['-s'])).stdout])
})

test('I53 with nobody there to ask, what asks is refused at once, and nothing runs', async () => {
  const { status, error } = await ended(await run({ argv: ['touch', 'unasked'] }))
  assert.deepEqual([status, error?.code], ['denied', 'approver_absent'])
  assert.equal(existsSync(join(workspace, 'unasked')), false)
})

test('I41 what somebody approves runs once, in the workspace’s folder of the host, as it was shown', async () => {
  watching = spawn(process.execPath, [MAIN, 'pending', '--watch', '--json'], {
    env: place.env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  // Until it says that it watches, what asks is refused.
  const [said] = (await once(watching.stderr ?? assert.fail(), 'data')) as [Buffer]
  assert.match(said.toString(), /^watching/)
  const request = await run({ argv: ['touch', 'asked'], cwd: '/workspace' })
  const question = await asked()
  assert.ok(question.subject.kind === 'command')
  assert.deepEqual(question.subject.argv, ['touch', 'asked'])
  assert.equal(question.subject.cwd.path, workspace)
  assert.equal(existsSync(join(workspace, 'asked')), false)
  await place.must(['approve', question.id, '--digest', question.digest])
  assert.deepEqual([(await ended(request)).status, existsSync(join(workspace, 'asked'))], ['done', true])
  const again = await place.run(['approve', question.id, '--digest', question.digest])
  assert.equal(again.code, 1)
  assert.match(again.stderr, /question_settled/)
})

test('a no reaches the agent with the operator’s words, and nothing runs', async () => {
  const request = await run({ argv: ['touch', 'denied'] })
  const { id } = await asked()
  await place.must(['deny', id, '--message', 'not today'])
  const { status, error } = await ended(request)
  assert.deepEqual([status, error?.code], ['denied', 'approval_denied'])
  assert.match(error?.message ?? '', /not today/)
  assert.equal(existsSync(join(workspace, 'denied')), false)
})

test('a rule that denies asks nobody', async () => {
  const { status, error } = await ended(await run({ argv: ['rm', 'README.md'] }))
  assert.deepEqual([status, error?.code], ['denied', 'command_not_allowed'])
  assert.deepEqual([await pending(), existsSync(join(workspace, 'README.md'))], [[], true])
})

test('I43 a command that would answer in the operator’s place is refused whatever anybody says', async () => {
  for (const argv of [
    ['sallyport', 'approve', 'x'],
    ['curl', '--unix-socket', join(place.home, 'daemon.sock'), 'http://localhost/v1/questions'],
    ['cp', '/etc/hostname', join(place.home, 'policies', 'global.yaml')],
  ]) {
    const { status, error } = await ended(await run({ argv }))
    assert.deepEqual([status, error?.code], ['denied', 'command_not_allowed'], argv.join(' '))
  }
  assert.equal(readFileSync(join(place.home, 'policies', 'global.yaml'), 'utf8'), POLICY)
})

test('I49 a line for a shell wants the operator’s password: a key is not enough, a wrong one neither', async () => {
  await place.must(['approver', 'password', '--stdin'], `${PASSWORD}\n`)
  const wish = { command: 'echo one && echo two > shell-ran' }
  const guessed = await run(wish)
  const first = await asked()
  assert.equal(first.tier, 'T1')
  for (const argv of [
    ['approve', first.id],
    ['approve', first.id, '--password-stdin'],
  ])
    assert.notEqual((await place.run(argv, 'wrong password\n')).code, 0)
  await place.must(['deny', first.id])
  assert.deepEqual([(await ended(guessed)).status, existsSync(join(workspace, 'shell-ran'))], ['denied', false])
  const request = await run(wish)
  const { id } = await asked()
  // After a wrong guess the next is looked at later.
  await eventually(async () => {
    const { code, stderr } = await place.run(['approve', id, '--password-stdin'], `${PASSWORD}\n`)
    assert.equal(code, 0, stderr)
  })
  const { status, stdout } = await ended(request)
  assert.deepEqual([status, stdout, existsSync(join(workspace, 'shell-ran'))], ['done', 'one\n', true])
  assert.doesNotMatch(place.printed(), new RegExp(PASSWORD))
})

test('output is streamed as it comes, and a value that the session has is not in it', async () => {
  const request = await run({ argv: ['cat', 'leaked'] })
  const { stdout } = await ended(request)
  assert.match(stdout ?? '', /^before .* after\n$/)
  assert.ok(!stdout?.includes(KEY))
  const script = `curl -sSN -m 20 -H "authorization: Bearer $SALLYPORT_LEASE" "$SALLYPORT_URL/v1/requests/${request.id}/output"`
  const stream = await capture('docker', ['exec', main.agent.container ?? '', 'sh', '-c', script])
  assert.match(stream.stdout, /^event: output\ndata: \{"stream":"stdout","text":"before /)
  assert.match(stream.stdout, /event: end\ndata: .*"status":"done"/)
  assert.ok(!stream.stdout.includes(KEY))
})

test('I53 another session of the same daemon sees, reads and ends nothing of it', async () => {
  const { id } = await run({ argv: ['uname', '-s'] })
  for (const [method, path] of [
    ['GET', `/v1/requests/${id}`],
    ['GET', `/v1/requests/${id}/output`],
    ['DELETE', `/v1/requests/${id}`],
  ] as const) {
    const { status, body } = await ask(method, path, undefined, other)
    assert.deepEqual([status, body.code], [404, 'request_not_found'], path)
  }
})

test('I53 another session’s lease, an altered one and none are refused at the gateway', async () => {
  const { stdout } = await capture('docker', ['exec', other.agent.container ?? '', 'sh', '-c', 'printf %s "$SALLYPORT_LEASE"'])
  for (const lease of [stdout, `${stdout.slice(0, -4)}AAAA`, '']) {
    const { status, body } = await ask('POST', '/v1/host/run', { argv: ['touch', 'stolen'] }, main, lease)
    assert.deepEqual([status, body.code], [401, 'unauthenticated'])
  }
  assert.equal(existsSync(join(workspace, 'stolen')), false)
})

test('a question that the agent withdraws is answered by nobody any more', async () => {
  const request = await run({ argv: ['touch', 'withdrawn'] })
  const { id, digest } = await asked()
  const { status } = (await ask('DELETE', `/v1/requests/${request.id}`)).body
  assert.equal(status, 'cancelled')
  assert.notEqual((await place.run(['approve', id, '--digest', digest])).code, 0)
  assert.deepEqual([await pending(), existsSync(join(workspace, 'withdrawn'))], [[], false])
})

test('a command that runs is killed with all that it started when it is withdrawn', async () => {
  const mark = `9${randomBytes(3).readUIntBE(0, 3)}`
  const request = await run({ argv: ['sleep', mark] })
  const { id } = await asked()
  await place.must(['approve', id])
  const isRunning = async (): Promise<boolean> => (await capture('pgrep', ['-f', `^sleep ${mark}`])).stdout.trim() !== ''
  await eventually(async () => assert.ok(await isRunning()))
  const { status } = (await ask('DELETE', `/v1/requests/${request.id}`)).body
  assert.equal(status, 'cancelled')
  await eventually(async () => assert.ok(!(await isRunning())))
})

test('what the agent left for git keeps host commands out of the workspace until somebody has looked', async () => {
  const agent = (script: string) => capture('docker', ['exec', main.agent.container ?? '', 'sh', '-c', script])
  const planted = await agent('mkdir /workspace/nested && cd /workspace/nested && git init -q && git config core.fsmonitor /workspace/evil')
  assert.equal(planted.code, 0, planted.stderr)
  const { status, error } = await ended(await run({ argv: ['uname', '-s'] }))
  assert.deepEqual([status, error?.code], ['failed', 'workspace_suspect'])
  await agent('rm -rf /workspace/nested')
  assert.equal((await ended(await run({ argv: ['uname', '-s'] }))).status, 'done')
})

test('what would become of a command or a request is told without asking anybody', async () => {
  const capability = (await ask('POST', '/v1/host/run_capability', { argv: ['rm', 'x'] })).body as unknown as Record<string, string>
  assert.equal(capability['action'], 'deny')
  assert.match(capability['rule'] ?? '', /rm \*\*/)
  const explained = (await ask('GET', `/v1/policy/explain?url=https://${ASKED}/x`)).body as unknown as Record<string, string>
  assert.deepEqual([explained['action'], explained['rule']], ['ask', 'asked'])
  assert.deepEqual(await pending(), [])
})

test('I21 a request whose rule asks passes once somebody has said yes to exactly it', async () => {
  const held = fetched(ASKED)
  const question = await asked()
  assert.ok(question.subject.kind === 'domain')
  assert.deepEqual([question.subject.host, question.subject.path, question.subject.method], [ASKED, '/me', 'GET'])
  await place.must(['approve', question.id])
  const first = await held
  if (first !== '200') assert.equal(await fetched(ASKED), '200')
  const another = fetched(ASKED, '/other')
  await place.must(['deny', (await asked()).id])
  assert.equal(await another, '403')
})

test('I54 a policy that an agent proposes changes nothing until it is approved with the password, and can be taken back', async () => {
  const content = `version: 1\nnetwork:\n  rules:\n    - {id: later, host: ${LATER}, action: allow, ${PRIVATE}}\n`
  assert.notEqual(await fetched(LATER), '200')
  const broken = await ask('POST', '/v1/propose/policy', { content: 'version: 2\n', reason: 'please' })
  assert.equal((await ended(broken.body)).error?.code, 'proposal_invalid')
  const { body } = await ask('POST', '/v1/propose/policy', { content, reason: 'the tests need it' })
  const question = await asked()
  assert.ok(question.subject.kind === 'proposal')
  assert.match(question.subject.diff, /^\+    - \{id: later/m)
  assert.equal(question.tier, 'T1')
  await eventually(async () => {
    const { code, stderr } = await place.run(['approve', question.id, '--password-stdin'], `${PASSWORD}\n`)
    assert.equal(code, 0, stderr)
  })
  assert.equal((await ended(body)).status, 'done')
  assert.equal(await fetched(LATER), '200')
  assert.match(await place.must(['proposals', 'ls']), new RegExp(`^${question.id}  policy `))
  assert.notEqual((await place.run(['proposals', 'revert', question.id, '--password-stdin'], 'wrong password\n')).code, 0)
  assert.equal(await fetched(LATER), '200')
  await eventually(async () => {
    const { code, stderr } = await place.run(['proposals', 'revert', question.id, '--password-stdin'], `${PASSWORD}\n`)
    assert.equal(code, 0, stderr)
  })
  assert.notEqual(await fetched(LATER), '200')
})

test('I15 every question and every command is in the controller’s chain with digest, answer and end, and the chain holds', async () => {
  const settled = await audited('question_settled')
  assert.ok(settled.length >= 6)
  for (const { state, digest } of settled)
    assert.match(`${String(state)} ${String(digest)}`, /^(approved|denied|expired|cancelled) [0-9a-f]{64}$/)
  const decided = await audited('command_decided')
  const finished = await audited('command_finished')
  for (const { request } of finished) assert.ok(decided.some((one) => one['request'] === request))
  assert.ok(decided.some(({ decision, code }) => decision === 'deny' && code === 'command_not_allowed'))
  await place.must(['audit', 'verify', join(place.home, 'audit', 'controller.jsonl')])
  assert.ok(!readFileSync(join(place.home, 'audit', 'controller.jsonl'), 'utf8').includes(KEY))
})
