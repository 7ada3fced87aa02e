import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { Typed } from '../../src/cli/typed.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { system } from '../../src/kernel/system.ts'
import { openSecrets, sealSecrets } from '../../src/vault/sealed.ts'
import { contextOf, seal, SealBroken, unseal } from '../../src/vault/seal.ts'
import { secret, valuesOf, vaultHome, type VaultHome } from '../support/vault.ts'

const anyText = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 2_000 })
const anyKey = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_.-]{0,30}$/)
const VALUES = { FIRST: 'value of a', B: 'value of b', THIRD: 'value of c' }

async function filled(home: VaultHome): Promise<void> {
  await using vault = await home.create()
  for (const [key, value] of Object.entries(VALUES)) vault.set(key, secret(value), { tags: ['t1', 't2'] })
  // With a former version to put back.
  vault.set('B', secret(VALUES.B))
}

test('any value comes back as it was stored, also after a new key and after the vault was closed', async () => {
  await using home = await vaultHome()
  await (await home.create())[Symbol.asyncDispose]()
  await fc.assert(
    fc.asyncProperty(fc.dictionary(anyKey, anyText, { minKeys: 1, maxKeys: 5, noNullPrototype: true }), async (values) => {
      {
        await using vault = await home.open()
        for (const { key } of vault.list()) vault.remove(key)
        for (const [key, value] of Object.entries(values)) vault.set(key, secret(value))
        await vault.rotateKey()
      }
      await using vault = await home.open()
      assert.deepEqual(new Map(Object.entries(valuesOf(vault))), new Map(Object.entries(values)))
    }),
    { numRuns: 30 },
  )
})

test('any secrets come out of a sealed file as they went in', async () => {
  const row = fc.record({ key: anyKey, name: anyText, value: anyText, scope: anyText, tags: fc.array(anyText, { maxLength: 3 }) })
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 3, maxLength: 30 }), async (rows) => {
      const secrets = rows.map((each) => ({ ...each, version: 1, createdAt: 1, updatedAt: 2 }))
      const passphrase = new Secret('p', 'some passphrase')
      assert.deepEqual(await openSecrets(await sealSecrets(secrets, passphrase, system), passphrase), secrets)
    }),
    { numRuns: 2 },
  )
})

test('I32 what is sealed opens with its key and context alone: any other bit of either, or of the seal, is found', () => {
  const key = fc.uint8Array({ minLength: 32, maxLength: 32 })
  fc.assert(
    fc.property(
      key,
      anyText,
      fc.uint8Array({ maxLength: 200 }),
      fc.nat(),
      fc.integer({ min: 0, max: 7 }),
      (bytes, context, plain, at, bit) => {
        const dataKey = Buffer.from(bytes)
        const sealed = seal(dataKey, context, Buffer.from(plain), system)
        assert.deepEqual(unseal(dataKey, context, sealed), Buffer.from(plain))
        const flipped = (buffer: Buffer): Buffer => {
          const copy = Buffer.from(buffer)
          const index = at % copy.length
          copy[index] = (copy[index] ?? 0) ^ (1 << bit)
          return copy
        }
        assert.throws(() => unseal(dataKey, context, flipped(sealed)), SealBroken)
        assert.throws(() => unseal(flipped(dataKey), context, sealed), SealBroken)
        assert.throws(() => unseal(dataKey, `${context}x`, sealed), SealBroken)
        assert.throws(() => unseal(dataKey, context, sealed.subarray(0, at % sealed.length)), SealBroken)
      },
    ),
  )
})

test('contexts of different parts are different texts, wherever the parts are divided', () => {
  const parts = fc.array(fc.oneof(fc.string(), fc.integer()), { maxLength: 5 })
  fc.assert(
    fc.property(parts, parts, (one, two) => {
      const same = one.length === two.length && one.every((part, at) => part === two[at])
      assert.equal(contextOf('value', ...one) === contextOf('value', ...two), same)
    }),
  )
})

test('I32 any one bit changed in any column of a row is found when the row is read, and no other row is touched by it', async () => {
  await using home = await vaultHome()
  await filled(home)
  const before = await readFile(home.file)
  const columns = ['id', 'name', 'key', 'value', 'scope', 'tags', 'created_at', 'updated_at', 'version'] as const
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...columns), fc.nat(), fc.integer({ min: 0, max: 7 }), async (column, at, bit) => {
      await writeFile(home.file, before)
      home.raw((db) => {
        const found = db.prepare(`SELECT ${column} AS it FROM secrets WHERE key = 'B'`).get()?.['it']
        db.prepare(`UPDATE secrets SET ${column} = ? WHERE key = 'B'`).run(altered(found, at, bit))
      })
      await using vault = await home.open()
      assert.equal(vault.get('FIRST').reveal(), VALUES.FIRST)
      assert.equal(vault.get('THIRD').reveal(), VALUES.THIRD)
      assert.throws(() => vault.get('B'), { code: 'vault_corrupt' })
      // A change in the ciphertext shows when it is read.
      if (column !== 'value') {
        assert.deepEqual(
          vault.problems().map(({ key }) => key),
          ['B'],
        )
      }
    }),
    { numRuns: 150 },
  )
})

/** Text stays text: the flip is in a low bit of a character. */
function altered(found: unknown, at: number, bit: number): Uint8Array | string | number {
  if (typeof found === 'number') return found + 1 + bit
  if (typeof found === 'string') {
    const index = at % found.length
    return `${found.slice(0, index)}${String.fromCharCode(found.charCodeAt(index) ^ (1 << (bit % 4)))}${found.slice(index + 1)}`
  }
  const bytes = Buffer.from(found as Uint8Array)
  bytes[at % bytes.length] = (bytes[at % bytes.length] ?? 0) ^ (1 << bit)
  return bytes
}

test('I32 with any bytes of the file changed, no value ever comes out wrong: it is the old one, or an error with a code', async () => {
  await using home = await vaultHome()
  await filled(home)
  const before = await readFile(home.file)
  const change = fc.tuple(fc.nat(before.length - 1), fc.uint8Array({ minLength: 1, maxLength: 64 }))
  await fc.assert(
    fc.asyncProperty(change, async ([at, bytes]) => {
      const damaged = Buffer.from(before)
      damaged.set(bytes.subarray(0, before.length - at), at)
      await writeFile(home.file, damaged)
      for (const beside of ['-wal', '-shm']) await rm(`${home.file}${beside}`, { force: true })
      try {
        await using vault = await home.open()
        for (const [key, value] of Object.entries(VALUES)) {
          try {
            assert.equal(vault.get(key).reveal(), value)
          } catch (error) {
            assertCoded(error)
          }
        }
        assert.deepEqual(
          vault.list().filter(({ key }) => !(key in VALUES)),
          [],
        )
      } catch (error) {
        assertCoded(error)
      }
    }),
    // The name of a column, as the schema in the file has it.
    { numRuns: 300, examples: [[[before.indexOf('created_at'), Uint8Array.from([65])]]] },
  )
})

function assertCoded(error: unknown): void {
  if (!(error instanceof SallyportError)) throw error
  assert.match(error.code, /^vault_(corrupt|key_wrong|newer|locked)$/)
}

test('what is typed is the same however the terminal cuts it into pieces', () => {
  const piece = fc.oneof(
    fc.string({ unit: 'grapheme-ascii', maxLength: 8 }).map((text) => text.replaceAll('\x1b', '')),
    fc.constantFrom('ä', '€', '\x7f', '\x15', '\x1b[200~', '\x1b[201~', '\x1b[200~one\rtwo\r\nthree\x1b[201~'),
  )
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 20 }),
      (pieces, cuts) => {
        const bytes = Buffer.from(pieces.join(''))
        assert.deepEqual(typedIn(bytes, cuts), typedIn(bytes, [bytes.length + 1]))
      },
    ),
  )
})

function typedIn(bytes: Buffer, cuts: readonly number[]): { kind: string; held: string } {
  const typed = new Typed()
  let state: ReturnType<Typed['take']> = { kind: 'more' }
  for (let at = 0, turn = 0; at < bytes.length && state.kind === 'more'; turn++) {
    const length = cuts[turn % cuts.length] ?? 1
    state = typed.take(Buffer.from(bytes.subarray(at, at + length)))
    at += length
  }
  return { kind: state.kind, held: typed.bytes().toString() }
}
