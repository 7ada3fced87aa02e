import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { imageOf } from '../../scripts/images.ts'
import { ROOT, capture } from '../../scripts/steps.ts'
import { writeEnvFile } from '../../src/controller/sessions/env-file.ts'
import { composePlace, type ComposePlace } from '../support/compose.ts'

function policyWith(...sources: readonly string[]): string {
  const secrets = sources.map((source, index) => `  - {name: S${index}, source: ${JSON.stringify(source)}}\n`).join('')
  return `version: 1\nnetwork: {mode: restricted, rules: []}\nsecrets:\n${secrets}`
}

function secretsDirOf(here: ComposePlace): string {
  return here.env().get('SALLYPORT_SECRETS_DIR') ?? ''
}

for (const { what, text, message } of [
  { what: 'an error in the policy', text: 'version: 1\nnetwork: {mode: wide}\n', message: /mine\.yaml:2: / },
  {
    what: 'a secret of the environment',
    text: policyWith('file:/run/secrets/A', 'env:TOKEN'),
    message: /mine\.yaml:5: secret "S1": .*TOKEN/,
  },
  {
    what: 'a secret in a file of the host',
    text: policyWith('file:/home/me/token'),
    message: /mine\.yaml:4: secret "S0": .*\/home\/me\/token/,
  },
]) {
  test(`${what} ends it with policy_invalid and file and line, and nothing is written`, async () => {
    await using here = await composePlace('work', text)
    await assert.rejects(here.run('--workspace', here.workspace, '--policy', here.policy), { code: 'policy_invalid', message })
    assert.equal(existsSync(here.envFile), false)
    assert.equal(existsSync(join(here.folder, 'home')), false)
  })
}

test('a policy that became wrong leaves the file of before as it is', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--policy', here.policy)
  const before = readFileSync(here.envFile, 'utf8')
  writeFileSync(here.policy, 'version: 2\n')
  await assert.rejects(here.run(), { code: 'policy_invalid' })
  assert.equal(readFileSync(here.envFile, 'utf8'), before)
})

for (const path of ['NAME', 'group/NAME', "it's"]) {
  test(`the two commands for the missing ${path} put it where only the sidecar’s uid reads it, and it is missing no more`, async () => {
    await using here = await composePlace('work', policyWith(`file:/run/secrets/${path}`))
    const out = await here.run('--workspace', here.workspace, '--policy', here.policy)
    const file = join(secretsDirOf(here), path)
    assert.ok(out.includes(`\nmissing: put the value of S0 into ${file}\n`), out)
    assert.match(out, /^The sidecar will not start without S0\.$/m)
    assert.ok(out.indexOf('written ') < out.indexOf('missing: '))
    const commands = out.split('\n').filter((line) => line.startsWith('  (umask') || line.startsWith('  chmod'))
    assert.equal(commands.length, 2)
    const { code, stderr } = await capture('sh', ['-c', commands.join('\n')], { input: 'canary-value\n' })
    assert.equal(code, 0, stderr)
    assert.equal(readFileSync(file, 'utf8'), 'canary-value\n')
    assert.equal(statSync(file).mode & 0o777, 0o400)
    for (const place of [file, join(file, '..')]) assert.equal(String(statSync(place).uid), here.env().get('SALLYPORT_UID'))
    assert.doesNotMatch(await here.run(), /missing: |will not start/)
  })
}

test('a command’s secret is named as missing too, and that requests wait for it rather than the start', async () => {
  await using here = await composePlace('work', policyWith('exec:cat /run/secrets/A', 'exec:date'))
  const out = await here.run('--workspace', here.workspace, '--policy', here.policy)
  assert.ok(out.includes(`missing: put the value of S0 into ${join(secretsDirOf(here), 'A')}\n`), out)
  assert.match(out, /^Requests that need S0 get 502/m)
  assert.doesNotMatch(out, /value of S1|will not start/)
})

for (const part of ['file', 'folder'] as const) {
  test(`of a policy whose ${part} the sidecar’s uid cannot read it says so, with a command after which it is silent`, async () => {
    await using here = await composePlace()
    const [path, closed] = part === 'file' ? [here.policy, 0o600] : [join(here.policy, '..'), 0o700]
    chmodSync(path, closed)
    const out = await here.run('--workspace', here.workspace, '--policy', here.policy)
    const isOwn = String(statSync(path).uid) === here.env().get('SALLYPORT_UID')
    const command = /cannot read the policy and will not start: (chmod .*)$/m.exec(out)?.[1]
    assert.equal(command === undefined, isOwn, out)
    if (command !== undefined) assert.equal((await capture('sh', ['-c', command])).code, 0)
    assert.doesNotMatch(await here.run(), /cannot read the policy/)
  })
}

test('of the demo nothing is missing', async () => {
  await using here = await composePlace()
  assert.doesNotMatch(await here.run('--workspace', here.workspace, '--demo'), /missing/)
})

test('every command that it prints is one that compose takes from any folder, with the file’s project', async () => {
  await using here = await composePlace("it's a place")
  const envFile = join(here.folder, 'a b.env')
  const out = await here.run('--workspace', here.workspace, '--policy', here.policy, '--output', envFile)
  const commands = out.split('\n').flatMap((line) => /docker compose .*/.exec(line)?.[0] ?? [])
  const prefix = `docker compose --env-file '${envFile}' `
  assert.deepEqual(
    commands.map((command) => command.replace(prefix, '')),
    ['up -d --wait sidecar agent', 'exec agent bash', 'logs sidecar', 'kill -s HUP sidecar', 'down', 'down -v'],
  )
  const { stdout, stderr } = await capture('sh', ['-c', `${prefix}config --format json`], { cwd: here.folder })
  assert.notEqual(stdout, '', stderr)
  assert.equal((JSON.parse(stdout) as { name: string }).name, /^project +(.*)$/m.exec(out)?.[1])
})

test('compose.yaml names the images as they are built: by the version', async () => {
  await using here = await composePlace()
  await here.run('--workspace', here.workspace, '--demo')
  const { services } = JSON.parse((await here.config()).stdout) as { services: Record<string, { image: string }> }
  const images = Object.fromEntries(Object.entries(services).map(([name, { image }]) => [name, image]))
  const [sidecar, agent, upstream] = [imageOf('sidecar'), imageOf('agent'), imageOf('demo-upstream')]
  assert.deepEqual(images, { sidecar, agent, trust: agent, upstream })
  assert.match(sidecar, /^sallyport\/sidecar:\d+\.\d+\.\d+/)
})

const OFFICIAL = 'node:24-bookworm-slim'
const OWN = 'sallyport/node-base:24'

test('the base images that the command knows are those that set-up makes and looks for', () => {
  const script = readFileSync(join(ROOT, 'scripts/base-image.ts'), 'utf8')
  for (const name of [OFFICIAL, OWN]) assert.ok(script.includes(`'${name}'`), name)
})

for (const { what, present, before, want } of [
  { what: 'only our own base image', present: [OWN], before: undefined, want: OWN },
  { what: 'the official base image as well', present: [OWN, OFFICIAL], before: undefined, want: undefined },
  { what: 'no base image', present: [], before: undefined, want: undefined },
  { what: 'only our own, and the file names another', present: [OWN], before: 'mine/node:1', want: 'mine/node:1' },
  { what: 'the official one by now, and the file names our own', present: [OWN, OFFICIAL], before: OWN, want: '' },
]) {
  test(`with ${what} the file’s NODE_IMAGE is ${want === undefined ? 'absent' : want || 'empty, which is the official one'}`, async () => {
    await using here = await composePlace()
    if (before !== undefined) writeEnvFile(here.envFile, new Map([['NODE_IMAGE', before]]))
    await withImages(here, present, () => here.run('--workspace', here.workspace, '--policy', here.policy))
    assert.equal(here.env().get('NODE_IMAGE'), want)
  })
}

/** An engine that has these images; all else it is asked goes to the real one. */
async function withImages(here: ComposePlace, images: readonly string[], run: () => Promise<unknown>): Promise<void> {
  const path = process.env['PATH'] ?? ''
  const bin = join(here.folder, 'bin')
  mkdirSync(bin)
  const answer = `case " ${images.join(' ')} " in *" $4 "*) echo 0123456789ab;; esac; exit 0`
  writeFileSync(join(bin, 'docker'), `#!/bin/sh\nif [ "$1 $2" = "image ls" ]; then ${answer}; fi\nPATH='${path}' exec docker "$@"\n`)
  chmodSync(join(bin, 'docker'), 0o755)
  process.env['PATH'] = `${bin}:${path}`
  try {
    await run()
  } finally {
    process.env['PATH'] = path
  }
}
