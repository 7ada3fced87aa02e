import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { chmod, chown, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createAuthority, openAuthority } from '../../../src/pki/pki.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { exec, hostname, testSystem, without } from '../../support/pki.ts'

const system = testSystem()
const API = hostname('api.example.com')

async function listing(dir: string): Promise<Record<string, string>> {
  const names = await readdir(dir)
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await readFile(join(dir, name), 'utf8')])))
}

test('I11 the first start makes ca.key with mode 0600 and ca.crt, in a folder with mode 0700, and the next one loads them', async () => {
  await using folder = await temporaryFolder()
  const dir = join(folder.path, 'ca')
  const made = await openAuthority(dir, 's', system)
  assert.equal((await stat(dir)).mode & 0o777, 0o700)
  assert.equal((await stat(join(dir, 'ca.key'))).mode & 0o777, 0o600)
  assert.equal((await stat(join(dir, 'ca.crt'))).mode & 0o777, 0o644)
  const files = await listing(dir)
  assert.deepEqual(Object.keys(files).toSorted(), ['ca.crt', 'ca.key'])
  assert.equal(files['ca.crt'], made.certificatePem)
  assert.ok(!files['ca.crt']?.includes('PRIVATE'))
  assert.equal((await openAuthority(dir, 'another', system)).fingerprint, made.fingerprint)
  assert.deepEqual(await listing(dir), files)
})

test('I11 an authority in memory writes no file', async () => {
  await using folder = await temporaryFolder()
  const before = process.cwd()
  process.chdir(folder.path)
  createAuthority('s', system).leafFor(API)
  process.chdir(before)
  assert.deepEqual(await readdir(folder.path), [])
})

test('twenty that start at once get one authority, and leave nothing but its two files', async () => {
  await using folder = await temporaryFolder()
  const authorities = await Promise.all(Array.from({ length: 20 }, () => openAuthority(folder.path, 's', system)))
  assert.equal(new Set(authorities.map(({ fingerprint }) => fingerprint)).size, 1)
  assert.deepEqual((await readdir(folder.path)).toSorted(), ['ca.crt', 'ca.key'])
})

test('processes that start at once get one authority', async () => {
  await using folder = await temporaryFolder()
  const [pki, kernel] = ['pki/pki.ts', 'kernel/system.ts'].map((file) => new URL(`../../../src/${file}`, import.meta.url).href)
  const program = `import { openAuthority } from '${pki}'; import { system } from '${kernel}'
    console.log((await openAuthority(process.argv[1], 's', system)).fingerprint)`
  const runs = Array.from({ length: 6 }, () => exec(process.execPath, ['--input-type=module', '-e', program, folder.path]))
  assert.equal(new Set((await Promise.all(runs)).map(({ stdout }) => stdout)).size, 1)
})

test('after a crash before ca.crt was written the next start writes it, of the same authority', async () => {
  await using folder = await temporaryFolder()
  const made = await openAuthority(folder.path, 's', system)
  await rm(join(folder.path, 'ca.crt'))
  assert.equal((await openAuthority(folder.path, 's', system)).fingerprint, made.fingerprint)
  assert.equal(await readFile(join(folder.path, 'ca.crt'), 'utf8'), made.certificatePem)
})

test('after a crash in the middle of the first write the next start begins anew and sweeps up', async () => {
  await using folder = await temporaryFolder()
  await writeFile(join(folder.path, 'ca.key.0123456789abcdef.tmp'), '-----BEGIN PRIV', { mode: 0o600 })
  await writeFile(join(folder.path, 'ca.key.backup.tmp'), 'of the operator')
  await openAuthority(folder.path, 's', system)
  assert.deepEqual((await readdir(folder.path)).toSorted(), ['ca.crt', 'ca.key', 'ca.key.backup.tmp'])
})

const foreignKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
const rsaKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
const leaf = createAuthority('s', system).leafFor(API)

for (const { name, change, reason } of [
  {
    name: 'a key that others may read',
    change: (dir: string) => chmod(join(dir, 'ca.key'), 0o640),
    reason: /ca\.key: its mode 640 lets others in/,
  },
  {
    name: 'a certificate that others may write',
    change: (dir: string) => chmod(join(dir, 'ca.crt'), 0o666),
    reason: /ca\.crt: its mode 666/,
  },
  { name: 'a folder that others may write', change: (dir: string) => chmod(dir, 0o777), reason: /others may write into the folder/ },
  { name: 'a missing key', change: (dir: string) => rm(join(dir, 'ca.key')), reason: /ca\.key: it is missing/ },
  {
    name: 'a key of another',
    change: (dir: string) => writeFile(join(dir, 'ca.key'), foreignKey),
    reason: /ca\.crt: it does not belong to ca\.key/,
  },
  { name: 'an RSA key', change: (dir: string) => writeFile(join(dir, 'ca.key'), rsaKey), reason: /not EC P-256/ },
  {
    name: 'a cut key',
    change: (dir: string) => writeFile(join(dir, 'ca.key'), foreignKey.slice(0, 90)),
    reason: /ca\.key: it is not a PEM private key/,
  },
  { name: 'an empty key', change: (dir: string) => writeFile(join(dir, 'ca.key'), ''), reason: /ca\.key: it is not a PEM private key/ },
  {
    name: 'a damaged certificate',
    change: (dir: string) => writeFile(join(dir, 'ca.crt'), 'x'),
    reason: /ca\.crt: it is not a PEM certificate/,
  },
  {
    name: 'an endless key',
    change: (dir: string) => writeFile(join(dir, 'ca.key'), Buffer.alloc(LIMITS.caFileBytesMax + 1)),
    reason: /larger than/,
  },
  {
    name: 'a key without certificate where ca.crt is missing',
    change: async (dir: string) => {
      await writeFile(join(dir, 'ca.key'), foreignKey)
      await rm(join(dir, 'ca.crt'))
    },
    reason: /ca\.crt: it is missing/,
  },
  {
    name: 'a leaf in the place of the authority',
    change: async (dir: string) => {
      await writeFile(join(dir, 'ca.key'), leaf.keyPem)
      await writeFile(join(dir, 'ca.crt'), leaf.certPem)
    },
    reason: /ca\.crt: it is not the certificate of an authority/,
  },
  {
    name: 'a key behind a symbolic link',
    change: async (dir: string) => {
      await rename(join(dir, 'ca.key'), join(dir, 'elsewhere'))
      await symlink('elsewhere', join(dir, 'ca.key'))
    },
    reason: /ca\.key: it is a symbolic link/,
  },
  {
    name: 'a folder in the place of the key',
    change: async (dir: string) => {
      await rm(join(dir, 'ca.key'))
      await mkdir(join(dir, 'ca.key'))
    },
    reason: /ca\.key: it is not a regular file/,
  },
]) {
  test(`I11 ${name} is ca_invalid, and nothing is made or changed`, async () => {
    await using folder = await temporaryFolder()
    const dir = join(folder.path, 'ca')
    await openAuthority(dir, 's', system)
    await change(dir)
    const before = await listing(dir).catch(() => readdir(dir))
    const error: unknown = await openAuthority(dir, 's', system).catch((reason_: unknown) => reason_)
    assert.ok(error instanceof Error && 'code' in error && error.code === 'ca_invalid', String(error))
    assert.match(error.message, reason)
    assert.deepEqual(await listing(dir).catch(() => readdir(dir)), before)
  })
}

for (const { name, at, reason } of [
  { name: 'expired', at: LIMITS.caLifeMs, reason: /expired at/ },
  { name: 'from the future', at: -2 * LIMITS.clockSkewMs, reason: /not valid before/ },
]) {
  test(`a certificate ${name} is ca_invalid, not a reason for a new one`, async () => {
    await using folder = await temporaryFolder()
    const start = Date.now()
    await openAuthority(folder.path, 's', testSystem(start))
    const before = await listing(folder.path)
    await assert.rejects(openAuthority(folder.path, 's', testSystem(start + at)), { code: 'ca_invalid', message: reason })
    assert.deepEqual(await listing(folder.path), before)
  })
}

test('I11 a key that belongs to another user is ca_invalid', async (t) => {
  if (process.geteuid?.() !== 0) return t.skip('only root can give a file away')
  await using folder = await temporaryFolder()
  await openAuthority(folder.path, 's', system)
  await chown(join(folder.path, 'ca.key'), 12_345, 12_345)
  await assert.rejects(openAuthority(folder.path, 's', system), { code: 'ca_invalid', message: /ca\.key: it belongs to user 12345/ })
})

test('a folder whose parent does not exist is ca_invalid', async () => {
  await using folder = await temporaryFolder()
  await assert.rejects(openAuthority(join(folder.path, 'a', 'b'), 's', system), { code: 'ca_invalid', message: /ENOENT/ })
})

/** Makes an authority with the command line of OpenSSL. */
async function opensslAuthority(dir: string, ...options: string[]): Promise<void> {
  const [key, certificate] = [join(dir, 'ca.key'), join(dir, 'ca.crt')]
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  await exec('openssl', [
    'req',
    '-x509',
    ...curve,
    '-keyout',
    key,
    '-out',
    certificate,
    '-days',
    '10',
    '-subj',
    '/C=DE/O=Häuser/CN=mine',
    '-utf8',
    ...options,
  ])
  await chmod(key, 0o600)
}

test(
  'an authority that the operator made with OpenSSL signs leaves that OpenSSL verifies',
  { skip: without('openssl', 'version') },
  async () => {
    await using folder = await temporaryFolder()
    await opensslAuthority(folder.path, '-addext', 'keyUsage=critical,keyCertSign')
    const authority = await openAuthority(folder.path, 's', testSystem())
    assert.equal(authority.certificatePem, await readFile(join(folder.path, 'ca.crt'), 'utf8'))
    await writeFile(join(folder.path, 'leaf.crt'), authority.leafFor(API).certPem)
    const { stdout } = await exec('openssl', [
      'verify',
      '-x509_strict',
      '-CAfile',
      join(folder.path, 'ca.crt'),
      join(folder.path, 'leaf.crt'),
    ])
    assert.match(stdout, /: OK$/m)
  },
)

for (const { name, options, reason } of [
  { name: 'that does not say what its key is for', options: [], reason: /key usage/ },
  {
    name: 'that may not sign certificates',
    options: ['-addext', 'keyUsage=critical,digitalSignature'],
    reason: /not the certificate of an authority/,
  },
  {
    name: 'without a subject key identifier',
    options: ['-addext', 'keyUsage=critical,keyCertSign', '-addext', 'subjectKeyIdentifier=none'],
    reason: /subject key identifier/,
  },
]) {
  test(`an authority of the operator ${name} is ca_invalid`, { skip: without('openssl', 'version') }, async () => {
    await using folder = await temporaryFolder()
    await opensslAuthority(folder.path, ...options)
    await assert.rejects(openAuthority(folder.path, 's', testSystem()), { code: 'ca_invalid', message: reason })
  })
}
