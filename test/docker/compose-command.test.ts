import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, readdirSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { imageOf } from '../../scripts/images.ts'
import { ROOT, capture } from '../../scripts/steps.ts'
import { readEnvFile, writeEnvFile } from '../../src/controller/sessions/env-file.ts'
import { composePlace, POLICY, type ComposePlace as Place } from '../support/compose.ts'

test('without a .env compose says which command writes it', async () => {
  const { code, stderr } = await capture('docker', ['compose', '--env-file', '/dev/null', 'config'])
  assert.notEqual(code, 0)
  assert.match(stderr, /sallyport compose/)
})

for (const variable of [
  'SALLYPORT_SUBNET',
  'SALLYPORT_SIDECAR_IP',
  'SALLYPORT_IP_RANGE',
  'SALLYPORT_POLICY',
  'SALLYPORT_POLICY_DIR',
  'SALLYPORT_SECRETS_DIR',
  'SALLYPORT_WORKSPACE',
  'SALLYPORT_STATE_DIR',
]) {
  test(`a .env without ${variable} is refused with the command that writes it`, async () => {
    await using here = await composePlace()
    await here.run('--workspace', here.workspace, '--policy', here.policy)
    writeFileSync(here.envFile, readFileSync(here.envFile, 'utf8').replace(new RegExp(`^${variable}=.*\n`, 'm'), ''))
    const { code, stderr } = await here.config()
    assert.notEqual(code, 0)
    assert.match(stderr, /sallyport compose/)
  })
}

for (const name of [
  "it's here",
  'two  spaces',
  'a#b',
  'a $HOME b',
  '"quoted"',
  'back\\slash',
  'ünïcode',
  'a$b\'c"d',
  '#',
  'a: {b}',
  'ends\\',
]) {
  test(`a workspace called ${name} is mounted as it is called`, async () => {
    await using here = await composePlace(name)
    await here.run('--workspace', here.workspace, '--policy', here.policy)
    const { stdout, stderr } = await here.config()
    assert.notEqual(stdout, '', stderr)
    const { services } = JSON.parse(stdout) as { services: { agent: { volumes: { target: string; source: string }[] } } }
    // compose prints a dollar sign doubled, as it would have to be written.
    assert.equal(services.agent.volumes.find(({ target }) => target === '/workspace')?.source.replaceAll('$$', '$'), here.workspace)
  })
}

test('a workspace that became a repository while its project runs is refused before anything of it is mounted or written', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const project = here.env().get('COMPOSE_PROJECT_NAME') ?? ''
  const label = `com.docker.compose.project=${project}`
  const { stdout: id } = await capture('docker', [
    'run',
    '--detach',
    '--rm',
    '--network=none',
    '--label',
    label,
    imageOf('agent'),
    'sleep',
    '300',
  ])
  try {
    mkdirSync(join(here.workspace, '.git'))
    await assert.rejects(here.run('--workspace', here.workspace, '--policy', here.policy), {
      code: 'workspace_refused',
      message: /work\/\.git can be replaced/,
    })
    assert.deepEqual(readdirSync(join(here.workspace, '.git')), [])
  } finally {
    await capture('docker', ['rm', '--force', id.trim()])
  }
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  assert.ok(existsSync(join(here.workspace, '.git', 'commondir')))
})

test('run again it keeps project, subnet and foreign lines', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const first = here.env()
  writeFileSync(here.envFile, `# mine\nOTHER=1\n${readFileSync(here.envFile, 'utf8')}`)
  await here.run('--workspace', here.workspace)
  assert.match(readFileSync(here.envFile, 'utf8'), /^# mine\nOTHER=1\n/)
  assert.deepEqual(here.env(), new Map([['OTHER', '1'], ...first]))
})

test('two workspaces get two projects and two subnets', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const other = join(here.folder, 'other')
  mkdirSync(other)
  await here.run('--workspace', other, '--policy', here.policy, '--output', join(here.folder, 'other.env'))
  const second = readEnvFile(join(here.folder, 'other.env'))
  for (const name of ['COMPOSE_PROJECT_NAME', 'SALLYPORT_SUBNET', 'SALLYPORT_SECRETS_DIR', 'SALLYPORT_WORKSPACE']) {
    assert.notEqual(here.env().get(name), second.get(name), name)
  }
})

test('a file that belongs to another workspace is refused with what to do, and stays as it is', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--demo')
  const before = readFileSync(here.envFile, 'utf8')
  const other = join(here.folder, 'other')
  mkdirSync(other)
  await assert.rejects(here.run('--workspace', other, '--policy', here.policy), {
    code: 'config_invalid',
    message: new RegExp(here.workspace),
    hint: 'name another file with --output, or delete it',
  })
  assert.equal(readFileSync(here.envFile, 'utf8'), before)
})

test('without --workspace the file’s stays, and so it does when it is named through a symlink', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const before = here.env()
  await here.run()
  symlinkSync(here.workspace, join(here.folder, 'link'))
  await here.run('--workspace', join(here.folder, 'link'))
  assert.deepEqual(here.env(), before)
})

test('under another SALLYPORT_HOME a file keeps its state and its secrets, both', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const before = here.env()
  here.environment['SALLYPORT_HOME'] = join(here.folder, 'other-home')
  await here.run('--workspace', here.workspace)
  assert.deepEqual(here.env(), before)
  assert.equal(existsSync(join(here.folder, 'other-home')), false)
})

test('with a policy of its own the demo’s profile and authority are gone', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--demo')
  assert.equal(here.env().get('SALLYPORT_UPSTREAM_CA'), '/etc/sallyport/demo-ca/ca.crt')
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  for (const name of ['COMPOSE_PROFILES', 'SALLYPORT_UPSTREAM_CA', 'SALLYPORT_DEMO_TOKEN_SHA256'])
    assert.equal(here.env().get(name), '', name)
})

test('the demo’s token is random, kept, readable for one uid only, and not in the .env', async () => {
  await using here = await composePlace()
  const out = await here.run('--workspace', here.workspace, '--demo')
  const secrets = here.env().get('SALLYPORT_SECRETS_DIR') ?? ''
  const token = readFileSync(join(secrets, 'DEMO_TOKEN'), 'utf8')
  assert.ok(token.length >= 40)
  assert.equal(statSync(secrets).mode & 0o777, 0o700)
  assert.equal(statSync(join(secrets, 'DEMO_TOKEN')).mode & 0o777, 0o400)
  assert.equal(String(statSync(join(secrets, 'DEMO_TOKEN')).uid), here.env().get('SALLYPORT_UID'))
  assert.ok(!readFileSync(here.envFile, 'utf8').includes(token) && !out.includes(token))
  await here.run('--workspace', here.workspace, '--demo')
  assert.equal(readFileSync(join(secrets, 'DEMO_TOKEN'), 'utf8'), token)
})

test('no process of the containers is root, whoever the operator is', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  assert.match(here.env().get('SALLYPORT_UID') ?? '', /^[1-9]\d*$/)
})

test('the .env is for its owner only', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  assert.equal(statSync(here.envFile).mode & 0o777, 0o600)
})

test('without a policy and without --demo nothing is written', async () => {
  await using here = await composePlace()
  await assert.rejects(here.run('--workspace', here.workspace), { code: 'usage' })
  assert.throws(() => statSync(here.envFile), { code: 'ENOENT' })
})

for (const { what, prepare } of [
  {
    what: 'a policy in the workspace',
    prepare: (here: Place) => ['--workspace', here.workspace, '--policy', write(join(here.workspace, 'p.yaml'))],
  },
  {
    what: 'a policy that a symlink leads into the workspace for',
    prepare: (here: Place) => {
      symlinkSync(write(join(here.workspace, 'p.yaml')), join(here.folder, 'policy', 'link.yaml'))
      return ['--workspace', here.workspace, '--policy', join(here.folder, 'policy', 'link.yaml')]
    },
  },
  {
    what: 'a .env in the workspace',
    prepare: (here: Place) => ['--workspace', here.workspace, '--policy', here.policy, '--output', join(here.workspace, '.env')],
  },
  {
    what: 'a .env in the workspace that is named by a symlink',
    prepare: (here: Place) => {
      symlinkSync(here.workspace, join(here.folder, 'link'))
      return ['--workspace', join(here.folder, 'link'), '--policy', here.policy, '--output', join(here.workspace, '.env')]
    },
  },
  {
    what: 'a workspace that holds Sallyport’s state and secrets',
    prepare: (here: Place) => [
      '--workspace',
      here.folder,
      '--policy',
      here.policy,
      '--output',
      join(tmpdir(), `sallyport-${process.pid}.env`),
    ],
  },
  { what: 'a workspace that holds compose.yaml', prepare: (here: Place) => ['--workspace', ROOT, '--policy', here.policy] },
  { what: 'the whole file system as a workspace', prepare: (here: Place) => ['--workspace', '/', '--policy', here.policy] },
  { what: 'a workspace that holds the engine’s socket', prepare: (here: Place) => ['--workspace', '/var/run', '--policy', here.policy] },
]) {
  test(`${what} is refused, and nothing is written`, async () => {
    await using here = await composePlace()
    await assert.rejects(here.run(...prepare(here)), { code: 'config_invalid' })
    assert.throws(() => statSync(here.envFile), { code: 'ENOENT' })
    assert.throws(() => statSync(join(here.workspace, '.env')), { code: 'ENOENT' })
  })
}

/** What compose.yaml mounts or builds with by a variable, in every place where the agent could write it. */
for (const variable of ['SALLYPORT_EXTRA_CA', 'SALLYPORT_SECRETS_DIR', 'SALLYPORT_POLICY_DIR', 'SALLYPORT_STATE_DIR']) {
  const isFile = variable === 'SALLYPORT_EXTRA_CA'
  for (const source of ['environment', 'file'] as const) {
    for (const how of ['', ' behind a symlink', ' behind a symlink to a symlink', ' by a relative path'] as const) {
      test(`${variable} of the ${source} that lies in the workspace${how} is refused, and nothing is written`, async () => {
        await using here = await composePlace()
        await here.run('--workspace', here.workspace, '--policy', here.policy)
        const inside = join(here.workspace, 'inside')
        if (isFile) writeFileSync(inside, '')
        else mkdirSync(inside)
        const [one, two] = [join(here.folder, 'one'), join(here.folder, 'two')]
        symlinkSync(inside, one)
        symlinkSync(one, two)
        const value = {
          '': inside,
          ' behind a symlink': one,
          ' behind a symlink to a symlink': two,
          // compose reads it from the folder of compose.yaml, this command's user from the current one; here they are one.
          ' by a relative path': relative(ROOT, inside),
        }[how]
        if (source === 'environment') here.environment[variable] = value
        else writeEnvFile(here.envFile, new Map([[variable, value]]))
        const before = readFileSync(here.envFile, 'utf8')
        await assert.rejects(here.run('--workspace', here.workspace), { code: 'config_invalid', message: /lies in the workspace/ })
        assert.equal(readFileSync(here.envFile, 'utf8'), before)
      })
    }
  }
}

test('a folder of secrets that a symlink leads to where nothing is yet, in the workspace, is refused and not made', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  symlinkSync(join(here.workspace, 'later'), join(here.folder, 'link'))
  writeEnvFile(here.envFile, new Map([['SALLYPORT_SECRETS_DIR', join(here.folder, 'link', 'secrets')]]))
  await assert.rejects(here.run('--workspace', here.workspace), { code: 'config_invalid', message: /lies in the workspace/ })
  assert.deepEqual(readdirSync(here.workspace), [])
})

test('a symlink that leads to itself is refused', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  symlinkSync(join(here.folder, 'loop'), join(here.folder, 'loop'))
  writeEnvFile(here.envFile, new Map([['SALLYPORT_SECRETS_DIR', join(here.folder, 'loop')]]))
  await assert.rejects(here.run('--workspace', here.workspace), { code: 'config_invalid' })
})

test('an authority in the workspace is refused in a file that is not of Sallyport yet, whose line would stay', async () => {
  await using here = await composePlace()
  const inside = write(join(here.workspace, 'ca.pem'))
  writeFileSync(here.envFile, `SALLYPORT_EXTRA_CA=${inside}\n`)
  await assert.rejects(here.run('--workspace', here.workspace, '--policy', here.policy), {
    code: 'config_invalid',
    message: /SALLYPORT_EXTRA_CA/,
  })
})

for (const source of ['environment', 'file'] as const) {
  test(`of the ${source}’s SALLYPORT_EXTRA_CA the real path is written: a symlink on its way may be the agent’s`, async () => {
    await using here = await composePlace()
    await here.run('--workspace', here.workspace, '--policy', here.policy)
    const [real, agents, link] = [join(here.folder, 'ca.pem'), join(here.workspace, 'link'), join(here.folder, 'link')]
    writeFileSync(real, '')
    symlinkSync(real, agents)
    symlinkSync(agents, link)
    if (source === 'environment') here.environment['SALLYPORT_EXTRA_CA'] = link
    else writeEnvFile(here.envFile, new Map([['SALLYPORT_EXTRA_CA', link]]))
    await here.run('--workspace', here.workspace)
    assert.equal(here.env().get('SALLYPORT_EXTRA_CA'), real)
  })
}

test('of a folder of secrets the real path is written', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const [real, agents] = [join(here.folder, 'mine'), join(here.workspace, 'link')]
  mkdirSync(real)
  symlinkSync(real, agents)
  symlinkSync(agents, join(here.folder, 'link'))
  writeEnvFile(here.envFile, new Map([['SALLYPORT_SECRETS_DIR', join(here.folder, 'link')]]))
  await here.run('--workspace', here.workspace)
  assert.equal(here.env().get('SALLYPORT_SECRETS_DIR'), real)
})

test('an authority that does not exist is an error that names it', async () => {
  await using here = await composePlace()
  here.environment['SALLYPORT_EXTRA_CA'] = join(here.folder, 'none.pem')
  await assert.rejects(here.run('--workspace', here.workspace, '--policy', here.policy), { code: 'config_invalid', message: /none\.pem/ })
  assert.throws(() => statSync(here.envFile), { code: 'ENOENT' })
})

for (const { what, argv, code } of [
  {
    what: 'a workspace that does not exist',
    argv: (here: Place) => ['--workspace', join(here.folder, 'none'), '--policy', here.policy],
    code: 'config_invalid',
  },
  {
    what: 'a workspace that is a file',
    argv: (here: Place) => ['--workspace', here.policy, '--policy', here.policy],
    code: 'config_invalid',
  },
  {
    what: 'a policy that does not exist',
    argv: (here: Place) => ['--workspace', here.workspace, '--policy', join(here.folder, 'none.yaml')],
    code: 'policy_not_found',
  },
  {
    what: 'a --output in a folder that does not exist',
    argv: (here: Place) => ['--workspace', here.workspace, '--policy', here.policy, '--output', join(here.folder, 'none', 'env')],
    code: 'config_invalid',
  },
  {
    what: 'a --output that is a folder',
    argv: (here: Place) => ['--workspace', here.workspace, '--policy', here.policy, '--output', here.folder],
    code: 'config_invalid',
  },
  { what: 'an unknown flag', argv: () => ['--wrkspace', '/x'], code: 'usage' },
]) {
  test(`${what} is an error: ${code}`, async () => {
    await using here = await composePlace()
    await assert.rejects(here.run(...argv(here)), { code })
    assert.equal(existsSync(join(here.folder, 'home')), false, 'something was written')
  })
}

test('policies in two folders cannot be mounted and are refused', async () => {
  await using here = await composePlace()
  const other = write(join(here.folder, 'elsewhere.yaml'))
  await assert.rejects(here.run('--workspace', here.workspace, '--policy', here.policy, '--policy', other), { code: 'usage' })
})

test('an engine that does not answer is an error with a hint, and nothing is written', async () => {
  await using here = await composePlace()
  const path = process.env['PATH']
  process.env['PATH'] = here.folder
  try {
    await assert.rejects(here.run('--workspace', here.workspace, '--policy', here.policy), { code: 'engine_unavailable' })
  } finally {
    process.env['PATH'] = path
  }
  assert.throws(() => statSync(here.envFile), { code: 'ENOENT' })
  rmSync(here.workspace, { recursive: true })
})

function write(file: string): string {
  writeFileSync(file, POLICY)
  return file
}

test('a policy that wants the lease gives it to the agent’s programs with the proxy’s address; any other leaves it out', async () => {
  await using here = await composePlace('work', 'version: 1\nnetwork: {lease: required, rules: []}\n')
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const lease = here.env().get('SALLYPORT_LEASE') ?? ''
  assert.match(lease, /^[\w-]{32}$/)
  assert.equal(await proxyOfAgent(here), `http://agent:${lease}@sallyport:3128`)
  writeFileSync(here.policy, 'version: 1\nnetwork: {rules: []}\n')
  await here.run()
  assert.equal(await proxyOfAgent(here), 'http://sallyport:3128')
  assert.equal(here.env().get('SALLYPORT_LEASE'), lease)
})

test('a harness of the operator’s own folder is seen by the sidecar', async () => {
  await using here = await composePlace('work', 'version: 1\nnetwork: {mode: none, harness: mine}\n')
  const own = join(here.folder, 'home', 'policies')
  mkdirSync(join(own, 'harness'), { recursive: true })
  writeFileSync(
    join(own, 'harness', 'mine.yaml'),
    'version: 1\nnetwork:\n  rules:\n    - {id: mine, host: api.example.com, action: allow}\n',
  )
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const { services } = JSON.parse((await here.config()).stdout) as {
    services: { sidecar: { environment: Record<string, string>; volumes: { source: string; target: string }[] } }
  }
  const { environment, volumes } = services.sidecar
  assert.equal(volumes.find(({ target }) => target === `${environment['SALLYPORT_HOME']}/policies`)?.source, realpathSync(own))
})

async function proxyOfAgent(here: Place): Promise<string | undefined> {
  const { services } = JSON.parse((await here.config()).stdout) as { services: { agent: { environment: Record<string, string> } } }
  return services.agent.environment['https_proxy']
}
