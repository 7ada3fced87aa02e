import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { test } from 'node:test'
import { SallyportError } from '../../src/kernel/errors.ts'
import { openLeases } from '../../src/lease/lease.ts'
import { CLAIMS, countingSystem, leaseSetting, outcome } from '../support/leases.ts'

type Key = { version: number; current: { kty: string; crv: string; x: string; d: string }; former: unknown[] }

/** Replaced by `change`, which gives the new text: then the file must be refused by name and stay as it is. */
const DAMAGES: Readonly<Record<string, (text: string, key: Key) => string | Buffer>> = {
  empty: () => '',
  'cut off': (text) => text.slice(0, 60),
  'zeros, as after a crash': (text) => Buffer.alloc(text.length),
  'not JSON': () => 'hello',
  'not UTF-8': () => Buffer.from([0xff, 0xfe, 0xfd]),
  'too large': (text) => `${text}${' '.repeat(20_000)}`,
  'another version': (text) => text.replace('"version": 1', '"version": 2'),
  'an unknown field': (text) => text.replace('"version": 1', '"version": 1, "note": "x"'),
  'no private half': (_, key) => JSON.stringify({ ...key, current: { ...key.current, d: undefined } }),
  'halves of two keys': (_, key) => JSON.stringify({ ...key, current: { ...key.current, x: `${'A'.repeat(42)}A` } }),
  'a private half of another length': (_, key) => JSON.stringify({ ...key, current: { ...key.current, d: key.current.d.slice(1) } }),
  'another curve': (text) => text.replace('Ed25519', 'X25519'),
  'the current key among the former': (_, key) => {
    const { d: _private, ...shown } = key.current
    return JSON.stringify({ ...key, former: [shown] })
  },
  'a private half among the former': (_, key) => JSON.stringify({ ...key, former: [key.current] }),
}

for (const [name, damage] of Object.entries(DAMAGES)) {
  test(`a key file that is damaged (${name}) is refused, says nothing of the key, and is never replaced`, async () => {
    using setting = await leaseSetting()
    const text = readFileSync(setting.keyFile, 'utf8')
    const key = JSON.parse(text) as Key
    writeFileSync(setting.keyFile, damage(text, key))
    const before = readFileSync(setting.keyFile)
    for (const step of [() => setting.again(), () => setting.leases.rotateKey(), () => setting.leases.rotateKey({ now: true })])
      await assert.rejects(step, (error: unknown) => {
        assert.ok(error instanceof SallyportError)
        assert.equal(error.code, 'lease_key_invalid')
        assert.ok(error.message.startsWith(`${setting.keyFile}: `))
        const said = `${error.message} ${error.hint ?? ''} ${String(error.cause)} ${error.stack ?? ''}`
        for (const part of [key.current.d, key.current.x, key.current.d.slice(0, 12)]) assert.equal(said.includes(part), false)
        return true
      })
    assert.deepEqual(readFileSync(setting.keyFile), before)
  })
}

/** What stands in its place is not ours to follow or to take. */
const IN_ITS_PLACE: Readonly<Record<string, (keyFile: string) => void>> = {
  'a symbolic link to the key': (keyFile) => {
    renameSync(keyFile, `${keyFile}.real`)
    symlinkSync(`${keyFile}.real`, keyFile)
  },
  'a symbolic link to nothing': (keyFile) => {
    renameSync(keyFile, `${keyFile}.real`)
    symlinkSync(`${keyFile}.gone`, keyFile)
  },
  'a folder': (keyFile) => {
    renameSync(keyFile, `${keyFile}.real`)
    mkdirSync(keyFile, { mode: 0o700 })
  },
  'a FIFO': (keyFile) => {
    renameSync(keyFile, `${keyFile}.real`)
    execFileSync('mkfifo', ['-m', '600', keyFile])
  },
  'a file that its group can read': (keyFile) => chmodSync(keyFile, 0o640),
  'a file that all can read': (keyFile) => chmodSync(keyFile, 0o604),
  'a file that all can write': (keyFile) => chmodSync(keyFile, 0o602),
}

for (const [name, put] of Object.entries(IN_ITS_PLACE)) {
  test(`${name} is no key file: refused at once, and nothing is made or changed`, { timeout: 10_000 }, async () => {
    using setting = await leaseSetting()
    put(setting.keyFile)
    const before = readdirSync(setting.dir)
    await assert.rejects(setting.again(), { code: 'lease_key_invalid' })
    assert.deepEqual(readdirSync(setting.dir), before)
    assert.equal(existsSync(`${setting.keyFile}.gone`), false)
  })
}

test('a key file of another user is refused', { skip: process.geteuid?.() !== 0 && 'only root can give files away' }, async () => {
  using setting = await leaseSetting()
  execFileSync('chown', ['12345', setting.keyFile])
  await assert.rejects(setting.again(), { code: 'lease_key_invalid', message: `${setting.keyFile}: it belongs to user 12345` })
})

test('the key is made with mode 0600 under any umask, in a folder of mode 0700', async () => {
  using setting = await leaseSetting()
  const before = process.umask(0)
  try {
    await openLeases(`${setting.dir}/deep/er/lease.key`, () => true, countingSystem('umask'))
  } finally {
    process.umask(before)
  }
  assert.equal(statSync(`${setting.dir}/deep/er/lease.key`).mode & 0o777, 0o600)
  assert.equal(statSync(`${setting.dir}/deep`).mode & 0o777, 0o700)
  assert.deepEqual(readdirSync(`${setting.dir}/deep/er`), ['lease.key'])
})

test('a rotation that cannot be written changes nothing: the key before goes on', async () => {
  using setting = await leaseSetting()
  const { token } = await setting.leases.issue(CLAIMS)
  const before = readFileSync(setting.keyFile)
  const failing = await openLeases(setting.keyFile, () => true, {
    ...countingSystem(),
    // Its temporary file would have this name: there is a folder already.
    random: (bytes) => Buffer.alloc(bytes),
  })
  mkdirSync(`${setting.dir}/.lease.key.0000000000000000.tmp`)
  await assert.rejects(failing.rotateKey(), { code: 'lease_key_invalid' })
  assert.deepEqual(readFileSync(setting.keyFile), before)
  assert.equal(outcome(failing, token), 'ok')
})

test('a rotation replaces the file whole: a link to the old one keeps the old one', async () => {
  using setting = await leaseSetting()
  linkSync(setting.keyFile, `${setting.keyFile}.old`)
  const before = readFileSync(setting.keyFile, 'utf8')
  await setting.leases.rotateKey()
  assert.equal(readFileSync(`${setting.keyFile}.old`, 'utf8'), before)
  assert.notEqual(readFileSync(setting.keyFile, 'utf8'), before)
  assert.deepEqual(readdirSync(setting.dir).toSorted(), ['lease.key', 'lease.key.old'])
})

test('a disk that is full makes no half key', { skip: !existsSync('/dev/full') && 'there is no /dev/full here' }, async () => {
  using setting = await leaseSetting()
  symlinkSync('/dev/full', `${setting.dir}/.full.key.0000000000000000.tmp`)
  await assert.rejects(
    openLeases(`${setting.dir}/full.key`, () => true, { now: () => 0, random: (bytes) => Buffer.alloc(bytes) }),
    {
      code: 'lease_key_invalid',
    },
  )
  assert.equal(existsSync(`${setting.dir}/full.key`), false)
})
