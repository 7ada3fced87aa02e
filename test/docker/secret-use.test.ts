/** A secret that an agent uses and cannot read: real daemon, gate, agent and sibling, with a person who answers. */
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import type { SessionView } from '../../src/wire/operator.ts'
import type { Question } from '../../src/wire/question.ts'
import { capture } from '../../scripts/steps.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'
import { eventually } from '../support/eventually.ts'
import { MAIN } from '../support/main-file.ts'

const NAME = 'POSTGRES_PROD_PASSWORD'
const VALUE = `pg-${randomBytes(18).toString('base64')}/x=`
const SPELLINGS = [
  VALUE,
  Buffer.from(VALUE).toString('base64').replace(/=+$/, '').slice(0, -1),
  Buffer.from(`u:${VALUE}`).toString('base64').replace(/=+$/, '').slice(3, -1),
  Buffer.from(VALUE).toString('hex'),
  encodeURIComponent(VALUE),
]
const PASSWORD = `operator-${randomBytes(8).toString('hex')}`

let place: DaemonPlace
let daemon: DaemonProcess
let workspace: string
let main: SessionView
let other: SessionView
let watching: ChildProcess | undefined

before(async () => {
  place = openDaemonPlace()
  place.write(join(place.home, 'policies', 'global.yaml'), 'version: 1\npresence: {safe: T0, caution: T0, dangerous: T0}\n')
  workspace = await place.workspace('work', { 'run.sh': '#!/bin/sh\necho as it was shown\n' })
  // The agent of a session of root's is uid 10001.
  await capture('chown', ['-R', '10001:10001', workspace])
  const elsewhere = await place.workspace('elsewhere')
  chownSync(elsewhere, 10_001, 10_001)
  daemon = await place.startDaemon()
  await place.must(['secret', 'set', NAME], VALUE)
  main = await up('main', workspace)
  other = await up('other', elsewhere)
  watching = spawn(process.execPath, [MAIN, 'pending', '--watch', '--json'], {
    env: place.env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  await once(watching.stderr ?? assert.fail(), 'data')
})

after(async () => {
  watching?.kill()
  await place.run(['down', '--all'])
  await daemon[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

async function up(name: string, folder: string): Promise<SessionView> {
  return JSON.parse(await place.must(['up', '--detach', '--json', '--no-selftest', '--name', name, '--workspace', folder])) as SessionView
}

/** In the agent's container, as the agent. */
async function agent(script: string, input = '', session = main): Promise<string> {
  const child = spawn('docker', ['exec', '-i', session.agent.container ?? '', 'sh', '-c', script], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(input)
  let text = ''
  for await (const piece of child.stdout) text += String(piece)
  return text
}

async function ask(verb: string, path: string, body?: object, session = main): Promise<RequestView> {
  const data = body === undefined ? '' : `-H 'content-type: application/json' --data-binary @-`
  const script = `curl -sS -m 60 -X ${verb} -H "authorization: Bearer $SALLYPORT_LEASE" ${data} "$SALLYPORT_URL${path}"`
  return JSON.parse(await agent(script, body === undefined ? '' : JSON.stringify(body), session)) as RequestView
}

async function asked(): Promise<Question> {
  return eventually(async () => {
    const [question, ...more] = JSON.parse(await place.must(['pending', '--json'])) as Question[]
    assert.ok(question !== undefined && more.length === 0, 'not one question')
    return question
  })
}

async function allowed(view: RequestView, session = main): Promise<RequestView> {
  assert.equal(view.status, 'pending', JSON.stringify(view))
  const { id, digest } = await asked()
  await place.must(['approve', id, '--digest', digest])
  return ended(view, session)
}

const ended = ({ id }: RequestView, session = main): Promise<RequestView> => ask('GET', `/v1/requests/${id}?wait=40`, undefined, session)

async function handle(scope = 'session', session = main): Promise<string> {
  const view = await ask('POST', '/v1/secrets/request', { name: NAME, scope, reason: 'to look at a table' }, session)
  const { handle: given = '', ...rest } = await allowed(view, session)
  assert.match(given, /^sph_[a-z0-9]{32}$/, JSON.stringify(rest))
  return given
}

const use = (wish: object, session = main): Promise<RequestView> => ask('POST', '/v1/secrets/use', { reason: 'to see', ...wish }, session)

function isIn(text: string): string | undefined {
  return SPELLINGS.find((spelling) => text.includes(spelling))
}

/** Files below a folder that have the value in them, as it is or encoded. */
async function holding(folder: string): Promise<string[]> {
  const { stdout } = await capture('grep', ['-rlaF', '--devices=skip', ...SPELLINGS.flatMap((spelling) => ['-e', spelling]), folder])
  return stdout.split('\n').filter(Boolean)
}

async function siblings(): Promise<string[]> {
  const filter = ['--filter', 'label=sallyport.role=sibling', '--filter', `label=sallyport.session=${main.id}`]
  const found = [
    await capture('docker', ['ps', '-aq', '--no-trunc', ...filter]),
    await capture('docker', ['network', 'ls', '-q', '--no-trunc', ...filter]),
  ]
  return found.flatMap(({ stdout }) => stdout.split('\n').filter(Boolean))
}

test('I67 a command has the value and the agent sees it in no output, stream or file that the command leaves; what is clean is there', async () => {
  const granted = await handle()
  const script = [
    'echo "$X"; echo "$X" | base64; printf "u:%s" "$X" | base64; env; printf %s "$X" | od -An -tx1 | tr -d " \\n"; echo; echo "$URL"; cat',
    'echo "$X" > /output/raw; printf %s "$X" | gzip > /output/packed.gz; mkdir /output/dump; echo "select 1" > /output/dump/a.sql',
    'test "$(printf %s "$X" | wc -c)" = "$N" && echo it has all of it; ls /workspace; cat /proc/1/cmdline | tr "\\0" " "',
  ].join('\n')
  const done = await allowed(
    await use({
      argv: ['sh', '-c', script],
      env: { X: `\${${granted}}`, URL: `postgres://u:\${${granted}}@db/x`, N: String(VALUE.length) },
      stdin: `from stdin \${${granted}}\n`,
    }),
  )
  assert.deepEqual([done.status, done.exit_code], ['done', 0], JSON.stringify(done))
  assert.match(done.stdout ?? '', /it has all of it/)
  assert.match(done.stdout ?? '', /^\*{41}$/m)
  assert.equal(isIn(JSON.stringify(done)), undefined)
  assert.deepEqual(
    done.files?.map(({ name, withheld }) => [name, withheld]),
    [
      ['dump/a.sql', undefined],
      ['packed.gz', true],
      ['raw', true],
    ],
  )
  assert.equal(await agent(`cat /sallyport/output/${done.id}/dump/a.sql`), 'select 1\n')
  assert.equal(await agent(`cd /sallyport/output && find . -type f; touch x 2>/dev/null && echo HARM`), `./${done.id}/dump/a.sql\n`)
  const live = await agent(`curl -sSN -m 20 -H "authorization: Bearer $SALLYPORT_LEASE" "$SALLYPORT_URL/v1/requests/${done.id}/output"`)
  assert.match(live, /it has all of it/)
  assert.equal(isIn(live), undefined)
  assert.deepEqual(await siblings(), [])
})

test('while it runs the value is in no configuration, file of the engine, process or network that anybody else sees, and a cancel ends it without a trace', async () => {
  const granted = await handle('single-command')
  const view = await use({
    argv: ['sh', '-c', 'echo up; while :; do sleep 1; done'],
    env: { X: `\${${granted}}` },
    stdin: `\${${granted}}`,
    workspace: 'ro',
  })
  const { id, digest } = await asked()
  await place.must(['approve', id, '--digest', digest])
  await eventually(async () => {
    assert.equal((await siblings()).length, 2)
    assert.equal((await ask('GET', `/v1/requests/${view.id}?wait=0`)).status, 'running')
  })
  const containers = (await capture('docker', ['ps', '-aq'])).stdout.split('\n').filter(Boolean)
  assert.equal(isIn((await capture('docker', ['inspect', ...containers])).stdout), undefined)
  const root = (await capture('docker', ['info', '--format', '{{.DockerRootDir}}'])).stdout.trim()
  for (const folder of ['containers', 'network', 'volumes']) assert.deepEqual(await holding(join(root, folder)), [])
  const [sibling = ''] = await siblings()
  const layer = (await capture('docker', ['inspect', '--format', '{{.GraphDriver.Data.UpperDir}}', sibling])).stdout.trim()
  if (existsSync(layer)) assert.deepEqual(await holding(layer), [])
  assert.equal(isIn((await capture('ps', ['-eo', 'args'])).stdout), undefined)
  const seen = await agent(
    'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n"; ls -la /workspace /sallyport /dev/shm /tmp',
  )
  assert.equal(isIn(seen), undefined)
  assert.doesNotMatch(seen, /while :; do sleep 1/)
  assert.equal((await ask('DELETE', `/v1/requests/${view.id}`)).status, 'cancelled')
  assert.deepEqual(await siblings(), [])
  const again = await ended(await use({ argv: ['true'], env: { X: `\${${granted}}` } }))
  assert.equal(again.error?.code, 'handle_invalid')
})

test('a script that the agent removes and writes anew after it was shown is not what runs', async () => {
  const granted = await handle()
  const view = await use({ argv: ['sh', 'run.sh'], env: { X: `\${${granted}}` }, workspace: 'ro' })
  const { id, digest, subject } = await asked()
  assert.ok(subject.kind === 'secret_use' && subject.files[0]?.path === '/workspace/run.sh')
  await agent('cd /workspace && rm run.sh && printf "#!/bin/sh\\necho HARM; echo \\$X > /output/stolen\\n" > run.sh && cat run.sh')
  await place.must(['approve', id, '--digest', digest])
  const done = await ended(view)
  assert.deepEqual([done.stdout, done.exit_code, done.files], ['as it was shown\n', 0, undefined])
})

test('another session’s handle is none, and with a revoked lease nothing is used any more', async () => {
  const [own, foreign] = [await handle(), await handle('session', other)]
  const refused = await ended(await use({ argv: ['true'], env: { X: `\${${foreign}}` } }))
  assert.equal(refused.error?.code, 'handle_invalid')
  assert.equal((await allowed(await use({ argv: ['true'], env: { X: `\${${own}}` } }))).status, 'done')
  await place.must(['lease', 'revoke', other.id])
  const { stdout } = await capture('docker', [
    'exec',
    other.agent.container ?? '',
    'sh',
    '-c',
    'curl -sS -m 10 -o /dev/null -w "%{http_code}" -H "authorization: Bearer $SALLYPORT_LEASE" -H "content-type: application/json" -d "{}" "$SALLYPORT_URL/v1/secrets/use"',
  ])
  assert.match(stdout, /^(?:401|403|000)$/)
})

test('persisted changes the operator’s policy by what was shown, and the next request asks nobody', async () => {
  await place.must(['approver', 'password', '--stdin'], `${PASSWORD}\n`)
  const view = await ask('POST', '/v1/secrets/request', { name: NAME, scope: 'persisted', reason: 'each night' })
  const { subject } = await asked()
  assert.ok(subject.kind === 'secret')
  assert.match(subject.change?.diff ?? '', /^\+ {4}source: vault:POSTGRES_PROD_PASSWORD$/m)
  const changed = await allowed(view)
  assert.match(changed.handle ?? '', /^sph_/, JSON.stringify(changed))
  const { handle: given = '' } = await ended(await ask('POST', '/v1/secrets/request', { name: NAME, scope: 'single-command', reason: '' }))
  assert.equal((await allowed(await use({ argv: ['true'], env: { X: `\${${given}}` } }))).status, 'done')
})

test('the value is nowhere that anything was written: home, workspace, audit, log; and the audit says by name who used it', async () => {
  for (const folder of [place.home, workspace]) assert.deepEqual(await holding(folder), [])
  assert.equal(isIn(place.printed()), undefined)
  const lines = readFileSync(join(place.home, 'audit', 'controller.jsonl'), 'utf8')
  for (const event of ['secret_requested', 'secret_granted', 'use_decided', 'use_finished'])
    assert.match(lines, new RegExp(`"event":"${event}"`))
  assert.match(lines, /"event":"use_decided".*"secrets":"POSTGRES_PROD_PASSWORD"/)
  assert.doesNotMatch(lines, /sph_[a-z0-9]{32}/)
  assert.deepEqual(readdirSync(join(place.home, 'sessions', main.id, 'uses')), [])
  await place.must(['audit', 'verify'])
})
