/** The worked example of README.md: a production database, whose password the agent uses and never has. */
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import type { SessionView } from '../../src/wire/operator.ts'
import type { Question } from '../../src/wire/question.ts'
import { engineName } from '../../src/controller/sessions/session-names.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'
import { eventually } from '../support/eventually.ts'
import { MAIN } from '../support/main-file.ts'
import { ensurePostgresImage, openContainerPostgres, type ContainerPostgres } from '../support/postgres.ts'

const HOST = 'db.example.com'
const NAME = 'POSTGRES_PROD_PASSWORD'
const POLICY = `version: 1
network:
  rules:
    - {id: prod-db, host: ${HOST}, ports: [5432], protocol: tcp, action: allow, addresses: ["10.0.0.0/8", "172.16.0.0/12"]}
presence: {safe: T0, caution: T0, dangerous: T0}
`
/** Node is in every image of ours; curl is not. */
const CALL = `const [verb, path, body] = process.argv.slice(1)
const headers = { authorization: 'Bearer ' + process.env.SALLYPORT_LEASE, ...(body && { 'content-type': 'application/json' }) }
fetch(process.env.SALLYPORT_URL + path, { method: verb, headers, ...(body && { body }) }).then(async (answer) => console.log(await answer.text()))`

let place: DaemonPlace
let daemon: DaemonProcess
let database: ContainerPostgres
let session: SessionView
let watching: ChildProcess | undefined

before(async () => {
  place = openDaemonPlace()
  place.write(join(place.home, 'policies', 'global.yaml'), POLICY)
  const image = await ensurePostgresImage()
  ;[database, daemon] = await Promise.all([openContainerPostgres(), place.startDaemon()])
  await place.must(['secret', 'set', NAME], database.password)
  const workspace = await place.workspace('work')
  const argv = ['up', '--detach', '--json', '--no-selftest', '--image', image, '--workspace', workspace]
  session = JSON.parse(await place.must(argv)) as SessionView
  await database.join(engineName(session.id, 'uplink'), HOST)
  watching = spawn(process.execPath, [MAIN, 'pending', '--watch', '--json'], { env: place.env, stdio: ['ignore', 'ignore', 'pipe'] })
  await once(watching.stderr ?? assert.fail(), 'data')
})

after(async () => {
  watching?.kill()
  await database.leave(engineName(session.id, 'uplink'))
  await place.run(['down', '--all'])
  await daemon[Symbol.asyncDispose]()
  await database[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

/** In the agent's container, as the agent. Its output and its complaints. */
async function agent(...argv: readonly string[]): Promise<string> {
  const child = spawn('docker', ['exec', session.agent.container ?? '', ...argv], { stdio: ['ignore', 'pipe', 'pipe'] })
  const texts = [child.stdout, child.stderr].map(async (stream) => {
    let text = ''
    for await (const piece of stream) text += String(piece)
    return text
  })
  return (await Promise.all(texts)).join('')
}

async function ask(verb: string, path: string, body?: object): Promise<RequestView> {
  return JSON.parse(await agent('node', '-e', CALL, verb, path, ...(body ? [JSON.stringify(body)] : []))) as RequestView
}

/** Asks, has the operator allow what is shown, and waits for the end. */
async function allowed(path: string, body: object): Promise<{ readonly view: RequestView; readonly question: Question }> {
  const begun = await ask('POST', path, body)
  assert.equal(begun.status, 'pending', JSON.stringify(begun))
  const question = await eventually(async () => {
    const [one] = JSON.parse(await place.must(['pending', '--json'])) as Question[]
    assert.ok(one !== undefined)
    return one
  })
  await place.must(['approve', question.id, '--digest', question.digest])
  return { question, view: await ask('GET', `/v1/requests/${begun.id}?wait=40`) }
}

const psql = (sql: string): readonly string[] => [
  'psql',
  '--host',
  HOST,
  '--username',
  'app',
  '--no-password',
  '--command',
  sql,
  'postgres',
]

test('a program that knows no proxy reaches the database, which wants the password that the agent does not have', async () => {
  assert.match(await agent(...psql('select 1')), /fe_sendauth: no password supplied/)
  assert.match(await database.log(), /connection received/)
})

test('with leave for one command the database is written to and dumped, and the dump is the agent’s to read', async () => {
  const { view: granted } = await allowed('/v1/secrets/request', { name: NAME, scope: 'session', reason: 'to dump the table' })
  const env = { PGPASSWORD: `\${${granted.handle ?? ''}}` }
  const made = await allowed('/v1/secrets/use', { argv: psql("create table t as select 'kept' as word"), env, reason: 'a table' })
  assert.deepEqual([made.view.status, made.view.exit_code, made.view.stdout], ['done', 0, 'SELECT 1\n'], JSON.stringify(made.view))
  assert.ok(made.question.subject.kind === 'secret_use')
  assert.match(JSON.stringify(made.question.subject), /"PGPASSWORD"/)
  const argv = ['pg_dump', '--host', HOST, '--username', 'app', '--no-password', '--file', '/output/prod.sql', 'postgres']
  const { view } = await allowed('/v1/secrets/use', { argv, env, reason: 'the dump' })
  assert.deepEqual([view.status, view.exit_code, view.files?.map(({ name }) => name)], ['done', 0, ['prod.sql']], JSON.stringify(view))
  assert.match(await agent('cat', `/sallyport/output/${view.id}/prod.sql`), /CREATE TABLE public\.t/)
})

test('a database that says the password back says it to nobody: output and dumps have none of it', async () => {
  const { view: granted } = await allowed('/v1/secrets/request', { name: NAME, scope: 'single-command', reason: 'to try' })
  const argv = [
    'sh',
    '-c',
    `psql -h ${HOST} -U app -w -t -A -c "select '$PGPASSWORD'" -o /output/it postgres; psql -h ${HOST} -U app -w -c "select '$PGPASSWORD'" postgres`,
  ]
  const { view } = await allowed('/v1/secrets/use', { argv, env: { PGPASSWORD: `\${${granted.handle ?? ''}}` }, reason: 'to try' })
  assert.equal(view.status, 'done', JSON.stringify(view))
  assert.match(view.stdout ?? '', /\*{10}/)
  assert.deepEqual(
    view.files?.map(({ name, withheld }) => [name, withheld]),
    [['it', true]],
  )
  assert.ok(!JSON.stringify(view).includes(database.password))
  const seen = await agent(
    'sh',
    '-c',
    'env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find /sallyport /workspace /home /tmp -type f -exec cat {} + 2>/dev/null',
  )
  assert.ok(!seen.includes(database.password))
})
