import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { missingSecrets, readSessionPolicy } from '../../../src/controller/sessions/session-policy.ts'
import { temporaryFolder } from '../../support/audit.ts'

/** An installation with a shipped policy "shipped", an operator's own policy "mine", and a session's policy of this text. */
async function place(text: string) {
  const folder = await temporaryFolder()
  for (const name of ['policies', 'own', 'session']) mkdirSync(join(folder.path, name))
  const empty = 'version: 1\n'
  writeFileSync(join(folder.path, 'policies', 'shipped.yaml'), empty)
  writeFileSync(join(folder.path, 'own', 'mine.yaml'), empty)
  const file = join(folder.path, 'session', 'p.yaml')
  writeFileSync(file, text)
  const installation = { policyDirs: [join(folder.path, 'policies'), join(folder.path, 'own')], placeholderSeed: 'seed' }
  return {
    folder: folder.path,
    read: (...others: string[]) => readSessionPolicy([file, ...others], installation),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

function withSources(...sources: readonly string[]): string {
  return `version: 1\nsecrets:\n${sources.map((source, index) => `  - {name: S${index}, source: ${JSON.stringify(source)}}\n`).join('')}`
}

for (const { source, paths } of [
  { source: 'file:/run/secrets/A', paths: ['A'] },
  { source: 'file:/run/secrets/group/A', paths: ['group/A'] },
  { source: 'exec:cat /run/secrets/A', paths: ['A'] },
  { source: "exec:cat '/run/secrets/with space'", paths: ['with space'] },
  { source: 'exec:tool --key=/run/secrets/A --other /run/secrets/B', paths: ['A', 'B'] },
  { source: "exec:sh -c 'cat /run/secrets/A | base64 -d'", paths: ['A'] },
  { source: 'exec:cat /run/secrets/../../etc/hostname', paths: [] },
  { source: 'exec:ls /run/secrets/', paths: [] },
  { source: 'exec:date', paths: [] },
]) {
  test(`${source} needs ${paths.join(' and ') || 'no file'} of the folder of secrets`, async () => {
    await using here = await place(withSources(source))
    assert.deepEqual(
      here.read().secretFiles,
      paths.map((path) => ({ name: 'S0', path, atStart: source.startsWith('file:') })),
    )
  })
}

test('a file that a command and the start both read is named once, as one of the start', async () => {
  await using here = await place(withSources('exec:cat /run/secrets/A', 'file:/run/secrets/A', 'exec:cat /run/secrets/A'))
  assert.deepEqual(here.read().secretFiles, [{ name: 'S1', path: 'A', atStart: true }])
})

for (const source of [
  'env:TOKEN',
  'file:/home/me/token',
  'file:/run/secrets',
  'file:/run/secretsmine/A',
  'vault:TOKEN',
  'op:a/b/c',
  'keychain:a',
  'libsecret:a=b',
  'pass:a',
  'vault-http:secret/a#b',
]) {
  test(`${source} cannot work in the sidecar and is refused with its line and a hint`, async () => {
    await using here = await place(withSources('file:/run/secrets/A', source))
    assert.throws(() => here.read(), { code: 'policy_invalid', message: /^\S+p\.yaml:4: secret "S1"/, hint: /file:\/run\/secrets\/NAME/ })
  })
}

test('every source that cannot work is listed, not only the first', async () => {
  await using here = await place(withSources('env:A', 'file:/x', 'env:B'))
  assert.throws(() => here.read(), { message: /:3: [^]*:4: [^]*:5: / })
})

test('a policy that the installation ships may be extended', async () => {
  await using here = await place('version: 1\nextends: [shipped]\n')
  assert.deepEqual(here.read().secretFiles, [])
})

test('a policy of the operator’s own folder may be extended: the folder is mounted; one that a link there leads to may not', async () => {
  await using here = await place('version: 1\nextends: [mine]\n')
  assert.deepEqual(here.read().secretFiles, [])
  writeFileSync(join(here.folder, 'elsewhere.yaml'), 'version: 1\n')
  rmSync(join(here.folder, 'own', 'mine.yaml'))
  symlinkSync('../elsewhere.yaml', join(here.folder, 'own', 'mine.yaml'))
  assert.throws(() => here.read(), { code: 'policy_invalid', message: /mine\.yaml/, hint: /--policy/ })
})

test('a policy that lies elsewhere is taken when it is named', async () => {
  await using named = await place('version: 1\n')
  assert.deepEqual(named.read(join(named.folder, 'own', 'mine.yaml')).secretFiles, [])
})

for (const { what, make, isMissing } of [
  { what: 'a file', make: (file: string) => writeFileSync(file, 'x'), isMissing: false },
  { what: 'a symlink within the folder', make: (file: string) => symlinkSync('other', file), isMissing: false },
  { what: 'nothing', make: () => undefined, isMissing: true },
  { what: 'a folder', make: (file: string) => mkdirSync(file), isMissing: true },
  { what: 'a symlink to a file that is not mounted', make: (file: string) => symlinkSync('../session/p.yaml', file), isMissing: true },
  { what: 'a symlink to nothing', make: (file: string) => symlinkSync('none', file), isMissing: true },
]) {
  test(`${what} in the place of a secret is ${isMissing ? 'a missing one' : 'a secret that is there'}`, async () => {
    await using here = await place('version: 1\n')
    const secrets = join(here.folder, 'secrets')
    mkdirSync(secrets)
    writeFileSync(join(secrets, 'other'), 'x')
    make(join(secrets, 'A'))
    const file = { name: 'S0', path: 'A', atStart: true }
    assert.deepEqual(missingSecrets([file], secrets), isMissing ? [file] : [])
  })
}

test('where a daemon has the secrets of the host a project may name them', async () => {
  await using here = await place(withSources('vault:TOKEN'))
  assert.throws(() => here.read(), { code: 'policy_invalid' })
  const options = { policyDirs: [join(here.folder, 'policies')], placeholderSeed: 'seed', hasController: true }
  assert.deepEqual(readSessionPolicy([join(here.folder, 'session', 'p.yaml')], options).secretFiles, [])
})

for (const [name, value] of [
  ['user', 'root'],
  ['seccomp', '/etc/profile.json'],
]) {
  test(`session.${name}, which no compose project can have, is refused by its place instead of being left out`, async () => {
    await using here = await place(`version: 1\nsession:\n  ${name}: ${value}\n`)
    assert.throws(() => here.read(), { code: 'policy_invalid', message: new RegExp(`p\\.yaml:3: session\\.${name} is not for`) })
  })
}

test('the policy says what the agent has of the workspace', async () => {
  await using here = await place(
    'version: 1\nfilesystem: {workspace: ro, hide: [".env"], git_metadata: writable}\nsession: {memory: 512m}\n',
  )
  const { filesystem, session } = here.read()
  assert.deepEqual(filesystem, { workspace: 'ro', hide: ['.env'], git_metadata: 'writable' })
  assert.equal(session.memoryBytes, 512 * 1024 ** 2)
})
