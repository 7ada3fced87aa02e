/** Compose projects and a daemon, both real: a project works without one, and is a session of one that runs when its sidecar starts. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { openProject, type ComposeProject } from '../../scripts/project.ts'
import { capture } from '../../scripts/steps.ts'
import type { SessionView } from '../../src/wire/operator.ts'
import { openContainerUpstream, seenOf, type ContainerUpstream } from '../support/container-upstream.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'
import { eventually } from '../support/eventually.ts'

const API = 'api.demo.internal'
const PRIVATE = 'addresses: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]'
const policyWith = (source: string): string => `version: 1
network:
  mode: restricted
  rules:
    - {id: api, host: ${API}, methods: [GET], action: allow, tls: intercept, ${PRIVATE}}
credentials:
  - {id: api, secret: API_KEY, inject: {domains: [${API}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_KEY, source: "${source}", resources: [inject]}
filesystem: {hide: [".env", "private/**"]}
`
const newKey = (): string => `key-${randomBytes(20).toString('hex')}`

let place: DaemonPlace
let upstream: ContainerUpstream
const projects: Project[] = []

type Project = {
  readonly workspace: string
  readonly name: string
  readonly compose: ComposeProject['compose']
  readonly secretsDir: string
  /** Runs `sallyport compose` for it again. Gives what it printed. */
  again(env?: Record<string, string>): Promise<string>
  up(): Promise<void>
  down(): Promise<void>
  agent(...argv: readonly string[]): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }>
}

before(async () => {
  place = openDaemonPlace()
  upstream = await openContainerUpstream([API])
  place.env['SALLYPORT_EXTRA_CA'] = upstream.authorityFile
})

after(async () => {
  for (const { compose, name } of projects) {
    await upstream.leave(`${name}_uplink`).catch(() => undefined)
    await compose(['down', '--volumes', '--timeout', '0'])
  }
  await upstream[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

async function made(work: string, source: string): Promise<Project> {
  const workspace = await place.workspace(work, { '.env': 'SECRET=of-the-operator\n', 'private/a': 'hidden-too\n' })
  // As a workspace is on a machine whose operator is not root.
  if (process.getuid?.() === 0) await capture('chown', ['-R', '10001:10001', workspace])
  const [folder, envFile] = [join(workspace, '..', `${work}-policy`), join(workspace, '..', `${work}.env`)]
  place.write(join(folder, 'policy.yaml'), policyWith(source))
  const argv = ['compose', '--workspace', workspace, '--policy', join(folder, 'policy.yaml'), '--output', envFile]
  await place.must(argv)
  const opened = openProject(envFile)
  const { env } = opened
  const compose: ComposeProject['compose'] = (args, options) => opened.compose(args, options)
  const name = env.get('COMPOSE_PROJECT_NAME') ?? ''
  const project: Project = {
    workspace,
    name,
    compose,
    secretsDir: env.get('SALLYPORT_SECRETS_DIR') ?? '',
    async again(more = {}) {
      const own = { ...place.env }
      Object.assign(place.env, more)
      try {
        return await place.must(['compose', '--output', envFile])
      } finally {
        Object.assign(place.env, own)
      }
    },
    async up() {
      const { code, stderr } = await compose(['up', '--detach', '--wait', '--no-build', 'sidecar', 'agent'])
      assert.equal(code, 0, `${stderr}\n${(await compose(['logs', 'sidecar'])).stdout}`)
      await upstream.join(`${name}_uplink`)
    },
    async down() {
      await upstream.leave(`${name}_uplink`)
      assert.equal((await compose(['down', '--timeout', '0'])).code, 0)
    },
    agent: (...program) => compose(['exec', '-T', 'agent', ...program]),
  }
  projects.push(project)
  return project
}

async function putSecret({ secretsDir }: Project, key: string): Promise<void> {
  const file = join(secretsDir, 'API_KEY')
  writeFileSync(file, key)
  chmodSync(file, 0o400)
  if (process.getuid?.() === 0) chownSync(file, 10_001, 10_001)
}

async function arrives(project: Project, key: string): Promise<void> {
  const { stdout, stderr } = await project.agent('curl', '-sS', '-m', '10', `https://${API}/me`)
  assert.equal(stdout, JSON.stringify({ seen: seenOf(`Bearer ${key}`) }), stderr)
}

async function status(project: Project): Promise<string> {
  return (await project.agent('curl', '-sS', '-m', '10', '-o', '/dev/null', '-w', '%{http_connect}', `https://${API}/me`)).stdout
}

async function listed(): Promise<SessionView[]> {
  return JSON.parse(await place.must(['ls', '--json'])) as SessionView[]
}

async function sessionOf({ name }: Project): Promise<SessionView> {
  return await eventually(async () => {
    const found = (await listed()).find(({ project, state }) => project === name && state === 'running')
    assert.ok(found, `${name} is no session`)
    return found
  })
}

async function isNoSession({ name }: Project): Promise<void> {
  await eventually(async () =>
    assert.deepEqual(
      (await listed()).filter(({ project }) => project === name),
      [],
    ),
  )
}

function audited(session: string): string[] {
  return readFileSync(join(place.home, 'audit', 'controller.jsonl'), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { event: string; of?: string; state?: string })
    .flatMap(({ event, of, state }) => (event === 'session' && of === session ? (state ?? '') : []))
}

test('I55 a project without a daemon works by itself; one that is started later has it from the sidecar’s next start on, until it goes down', async (t) => {
  const key = newKey()
  const one = await made('one', 'file:/run/secrets/API_KEY')
  await putSecret(one, key)
  await one.up()

  await t.test('its agent gets the answer that needs the secret of the file', async () => {
    await arrives(one, key)
  })

  await t.test('files and folders that the policy hides are empty to the agent, and cannot be changed', async () => {
    for (const argv of [
      ['cat', '.env'],
      ['ls', '-A', 'private'],
    ])
      assert.equal((await one.agent(...argv)).stdout, '', argv.join(' '))
    for (const script of ['echo x > .env', 'rm .env', 'mv private p', 'touch private/b'])
      assert.notEqual((await one.agent('sh', '-c', script)).code, 0, script)
    assert.equal(readFileSync(join(one.workspace, '.env'), 'utf8'), 'SECRET=of-the-operator\n')
  })

  await t.test('what decides what git executes cannot be changed by the agent, and git works', async () => {
    for (const script of [
      'git config core.fsmonitor /workspace/x',
      'echo x > .git/hooks/pre-commit',
      'mv .git g',
      'echo ../x > .git/commondir',
    ])
      assert.notEqual((await one.agent('sh', '-c', script)).code, 0, script)
    const { code, stderr } = await one.agent(
      'git',
      '-c',
      'user.name=a',
      '-c',
      'user.email=a@localhost',
      'commit',
      '-q',
      '--allow-empty',
      '-m',
      'agent',
    )
    assert.equal(code, 0, stderr)
  })

  await t.test('attached to a daemon by its next start, the agent that runs trusts its new authority', async () => {
    await using daemon = await place.startDaemon()
    assert.deepEqual([daemon.lines.length, await listed()], [1, []])
    assert.equal((await one.compose(['restart', '--timeout', '0', 'sidecar'])).code, 0)
    const { id, workspace, harness } = await sessionOf(one)
    assert.equal(workspace, one.workspace)
    assert.equal(harness, null)
    assert.match(await place.must(['ls']), new RegExp(`^${id}  ${one.name} .*compose .*${one.workspace}$`, 'm'))
    await eventually(async () => await arrives(one, key))
    assert.match((await place.run(['exec', id, '--', 'true'])).stderr, /^usage: .* is a compose project\nhint: .*docker compose -p /m)

    await one.agent('git', 'init', '-q', '/workspace/planted')
    await one.down()
    await isNoSession(one)
    assert.deepEqual(audited(id), ['starting', 'running', 'ended'])
    assert.match(
      readFileSync(join(place.home, 'audit', 'controller.jsonl'), 'utf8'),
      new RegExp(`"state":"ended","of":"${id}"[^\\n]*planted`),
    )
    const chain = join(place.home, 'audit', 'sessions', `${id}.jsonl`)
    assert.equal((await place.run(['audit', 'verify', chain])).code, 0)
    assert.match(readFileSync(chain, 'utf8'), new RegExp(API))
  })

  await t.test('ended in order, a daemon leaves no lease to a project that is not up', async () => {
    const folder = openProject(join(one.workspace, '..', 'one.env')).env.get('SALLYPORT_CONTROL_DIR') ?? ''
    const daemon = await place.startDaemon()
    assert.deepEqual(readdirSync(folder).toSorted(), ['control.sock', 'lease', 'session'])
    assert.equal(await daemon.stop('SIGTERM'), 0)
    assert.deepEqual(readdirSync(folder), [])
  })
})

test('I55 a project of a daemon gets secrets of the vault, outlives the daemon, and loses all at lease revoke, alone', async (t) => {
  let daemon: DaemonProcess = await place.startDaemon()
  t.after(() => daemon[Symbol.asyncDispose]())
  const keys = [newKey(), newKey()]
  await place.must(['secret', 'set', 'API_KEY', '--unlock', 'key-file'], `${keys[0]}\n`)
  const two = await made('two', 'vault:API_KEY')
  const three = await made('three', 'vault:API_KEY')
  await two.up()
  await three.up()
  const [first, other] = [await sessionOf(two), await sessionOf(three)]

  await t.test('two of them are two sessions, with an authority and a record of their own', async () => {
    assert.notEqual(first.id, other.id)
    await Promise.all([arrives(two, keys[0] ?? ''), arrives(three, keys[0] ?? '')])
    const authorities = await Promise.all([two, three].map(async (project) => (await project.agent('cat', '/sallyport/ca.crt')).stdout))
    assert.notEqual(authorities[0], authorities[1])
  })

  await t.test('no file, variable or log of its containers has the secret, nor has the authority’s key', async () => {
    const { stdout: id } = await two.compose(['ps', '--quiet', 'sidecar'])
    const { stdout } = await capture('docker', ['inspect', id.trim()])
    assert.ok(!stdout.includes(keys[0] ?? '-'))
    const find =
      'cat /run/sallyport/lease > /dev/null; ls -A /var/lib/sallyport/ca-key; grep -rs "$0" /var/lib/sallyport /run /tmp /etc /proc/1/environ | head -c 9; true'
    const found = await two.compose(['exec', '-T', 'sidecar', 'sh', '-c', find, keys[0] ?? ''])
    assert.equal(found.stdout, '')
    assert.ok(!place.printed().includes(keys[0] ?? '-'))
  })

  await t.test('a new value in the vault is pushed by secret apply', async () => {
    await place.must(['secret', 'set', 'API_KEY'], keys[1])
    await place.must(['secret', 'apply'])
    await arrives(two, keys[1] ?? '')
  })

  await t.test('a daemon that is killed leaves them working for the grace, and the next one takes them over', async () => {
    await daemon.stop('SIGKILL')
    await arrives(two, keys[1] ?? '')
    daemon = await place.startDaemon()
    assert.equal((await sessionOf(two)).id, first.id)
    await eventually(async () => assert.equal((await sessionOf(two)).sidecar.healthy, true))
    assert.deepEqual(audited(first.id), ['starting', 'running', 'adopted'])
    await arrives(two, keys[1] ?? '')
  })

  await t.test('a sidecar that starts while the daemon is dead opens no way out, and serves when the daemon is back', async () => {
    await daemon.stop('SIGKILL')
    await three.compose(['restart', '--timeout', '0', 'sidecar'])
    assert.notEqual(await status(three), '200')
    daemon = await place.startDaemon()
    await eventually(async () => assert.equal((await sessionOf(three)).sidecar.healthy, true))
    await eventually(async () => await arrives(three, keys[1] ?? ''))
  })

  await t.test('lease revoke ends what one of them can do, also after a restart, and nothing of the other', async () => {
    await place.must(['lease', 'revoke', first.id])
    assert.equal(await status(two), '403')
    await arrives(three, keys[1] ?? '')
    await two.compose(['restart', '--timeout', '0', 'sidecar'])
    assert.notEqual(await status(two), '200')
  })

  await t.test('made anew by docker compose, a revoked project is a new session', async () => {
    await two.down()
    await isNoSession(two)
    await two.up()
    assert.notEqual((await sessionOf(two)).id, first.id)
    await arrives(two, keys[1] ?? '')
  })

  await t.test('sallyport down removes containers and networks of that project alone', async () => {
    await upstream.leave(`${three.name}_uplink`)
    await place.must(['down', three.name])
    const label = ['--filter', `label=com.docker.compose.project=${three.name}`, '--quiet']
    assert.equal((await capture('docker', ['ps', '--all', ...label])).stdout, '')
    assert.equal((await capture('docker', ['network', 'ls', ...label])).stdout, '')
    await arrives(two, keys[1] ?? '')
    await isNoSession(three)
    assert.deepEqual(audited(other.id).at(-1), 'ended')
  })
})

test('I55 a project whose daemon was killed is not freer than with it; sallyport compose sets it free', async (t) => {
  const key = newKey()
  const four = await (async () => {
    await using daemon = await place.startDaemon()
    const it = await made('four', 'file:/run/secrets/API_KEY')
    await daemon.stop('SIGKILL')
    return it
  })()
  await putSecret(four, key)

  await t.test('its sidecar opens no way in, and says what is missing', async () => {
    assert.equal((await four.compose(['up', '--detach', '--no-build', 'sidecar'])).code, 0)
    await eventually(async () => assert.match((await four.compose(['logs', '--no-log-prefix', 'sidecar'])).stdout, /control_unreachable/))
    const { stdout } = await four.compose(['exec', '-T', 'sidecar', 'cat', '/proc/net/tcp'])
    // The engine's own resolver listens in every container.
    assert.deepEqual(
      stdout.split('\n').filter((line) => line.includes(' 0A ') && !line.includes(' 0B00007F:')),
      [],
    )
    await four.compose(['down', '--timeout', '0'])
  })

  await t.test('run again without a daemon it makes a project that works by itself', async () => {
    assert.match(await four.again(), /^controller none: no daemon runs/m)
    await four.up()
    await arrives(four, key)
    await four.down()
  })

  await t.test('a daemon of another home has no part in it', async () => {
    const other = openDaemonPlace()
    try {
      await using daemon = await other.startDaemon()
      const out = await four.again({ SALLYPORT_HOME: other.home })
      assert.match(out, /^controller none: the project is of /m)
      assert.deepEqual(readdirSync(join(other.home, 'c')), [])
      assert.deepEqual(JSON.parse(await other.must(['ls', '--json'])), [])
      await daemon.stop('SIGTERM')
    } finally {
      await other[Symbol.asyncDispose]()
    }
  })

  await t.test('a .env whose home is gone starts nothing', async () => {
    const env = openProject(join(four.workspace, '..', 'four.env')).env
    const folder = env.get('SALLYPORT_CONTROL_DIR') ?? ''
    assert.ok(existsSync(folder))
    await capture('rm', ['-r', folder])
    const { code, stderr } = await four.compose(['up', '--detach', '--no-build', 'sidecar', 'agent'])
    assert.notEqual(code, 0)
    assert.match(stderr, /bind source path does not exist/)
    assert.equal((await four.compose(['ps', '--quiet'])).stdout, '')
  })
})
