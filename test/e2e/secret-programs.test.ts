import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { inspect } from 'node:util'
import { openSecrets } from '../../src/credential/credential.ts'
import { openProviders, type Providers } from '../../src/controller/providers/providers.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { parseSource } from '../../src/policy/policy.ts'
import type { SecretSource } from '../../src/wire/secret-source.ts'
import { capture } from '../../scripts/steps.ts'
import { writePrograms } from '../support/programs.ts'
import { openKeyring, openPasswordStore, type SecretStore } from '../support/secret-stores.ts'

const CANARY = 'canary-5e0b7d44-"quoted" $HOME `x` \\ %s'
const NEVER = new AbortController().signal

function sourceOf(text: string): SecretSource {
  const source = parseSource(text)
  assert.ok(typeof source !== 'string', JSON.stringify(source))
  return source
}

async function failure(promise: Promise<unknown>): Promise<SallyportError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof SallyportError, inspect(error))
  assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /canary/)
  return error
}

/** What holds for every program that a value can be stored with. */
function storesValues(store: () => SecretStore, text: string, other: string): void {
  const use = async (story: (providers: Providers) => Promise<void>): Promise<void> => {
    await using providers = openProviders({ env: store().env })
    await story(providers)
  }

  test('I31 a value is stored, read, replaced and deleted as it is, and is in no argument and no environment meanwhile', () =>
    use(async (providers) => {
      for (const value of [CANARY, `${CANARY}-the-second`]) {
        await providers.set(sourceOf(text), new Secret('TOKEN', value), NEVER)
        assert.equal((await providers.get('TOKEN', sourceOf(text), NEVER)).reveal(), value)
      }
      await failure(providers.get('TOKEN', sourceOf(other), NEVER))
      await providers.delete(sourceOf(text), NEVER)
      await failure(providers.get('TOKEN', sourceOf(text), NEVER))
      const seen = readFileSync(store().programs.at('seen'), 'latin1')
      assert.ok(seen.length > 1_000, 'the processes were looked at')
      assert.equal(seen.includes('canary-5e0b7d44'), false)
    }))

  test('a gate without a controller reads it too', () =>
    use(async (providers) => {
      await providers.set(sourceOf(text), new Secret('TOKEN', CANARY), NEVER)
      const secrets = openSecrets([{ name: 'TOKEN', source: sourceOf(text) }], store().env, { now: () => 0 })
      assert.equal((await secrets.get('TOKEN')).reveal(), CANARY)
    }))

  test('a value that could not be read again is not stored', () =>
    use(async (providers) => {
      for (const value of ['', 'short', 'two\nlines', 'n\u00f6n-ascii']) {
        const error = await failure(providers.set(sourceOf(other), new Secret('TOKEN', value), NEVER))
        assert.equal(error.code, 'secret_invalid')
      }
      await failure(providers.get('TOKEN', sourceOf(other), NEVER))
    }))
}

describe('pass with gpg', () => {
  let store: SecretStore
  before(async () => {
    store = await openPasswordStore()
  })
  after(() => store[Symbol.asyncDispose]())

  storesValues(() => store, 'pass:work/git hub', 'pass:work/none')

  test('entries are listed by name, also below a folder, and folders are no entries', async () => {
    await using providers = openProviders({ env: store.env })
    for (const path of ['a', 'team/b', 'team/deep/c']) await providers.set(sourceOf(`pass:${path}`), new Secret('T', 'some-value'), NEVER)
    assert.deepEqual(
      (await providers.list('pass', undefined, NEVER)).filter((name) => !name.includes('work')),
      ['pass:a', 'pass:team/b', 'pass:team/deep/c'],
    )
    assert.deepEqual(await providers.list('pass', 'team/deep', NEVER), ['pass:team/deep/c'])
    assert.equal((await failure(providers.list('pass', 'nowhere', NEVER))).code, 'secret_unavailable')
    const error = await failure(providers.get('TOKEN', sourceOf('pass:team'), NEVER))
    assert.match(error.message, /no entry team, or a folder/)
    assert.equal((await failure(providers.delete(sourceOf('pass:team'), NEVER))).code, 'secret_missing')
    assert.equal((await providers.get('T', sourceOf('pass:team/b'), NEVER)).reveal(), 'some-value')
  })

  test('of an entry with notes the first line is the value', async () => {
    await using providers = openProviders({ env: store.env })
    await capture('pass', ['insert', '--multiline', '--force', 'noted'], { env: store.env, input: 'the-password\nuser: me\n' })
    assert.equal((await providers.get('T', sourceOf('pass:noted'), NEVER)).reveal(), 'the-password')
  })

  test('the program sees the variables of its store, and no others of ours', async () => {
    using programs = writePrograms({ pass: 'env >"$DIR/env"; echo the-value' })
    const env = {
      ...programs.env,
      PASSWORD_STORE_DIR: '/store',
      GNUPGHOME: '/gnupg',
      API_TOKEN: 'canary-x',
      LD_PRELOAD: '/x.so',
      PASSWORD_STORE_ENABLE_EXTENSIONS: 'true',
    }
    await using providers = openProviders({ env })
    await providers.get('T', sourceOf('pass:a'), NEVER)
    const seen = programs.read('env')
    assert.match(seen, /^PASSWORD_STORE_DIR=\/store$/m)
    assert.doesNotMatch(seen, /canary|LD_PRELOAD|EXTENSIONS/)
  })
})

describe('secret-tool with GNOME Keyring on a session bus', () => {
  let store: SecretStore
  before(async () => {
    store = await openKeyring()
  })
  after(() => store[Symbol.asyncDispose]())

  storesValues(() => store, 'libsecret:service=github,user=octo cat', 'libsecret:service=github,user=none')

  test('without a session bus the value is unavailable', async () => {
    const { DBUS_SESSION_BUS_ADDRESS: _, XDG_RUNTIME_DIR: __, ...env } = store.env
    await using providers = openProviders({ env })
    assert.equal((await failure(providers.get('T', sourceOf('libsecret:service=github'), NEVER))).code, 'secret_unavailable')
  })

  test('listing is refused: the program would print the values', async () => {
    await using providers = openProviders({ env: store.env })
    assert.equal((await failure(providers.list('libsecret', undefined, NEVER))).code, 'provider_cannot')
  })
})

describe('1Password (a fake "op")', () => {
  const OP = `[ "$1" = read ] || exit 9
[ "$OP_SERVICE_ACCOUNT_TOKEN" = ops_account ] || { echo '[ERROR] canary: not signed in' >&2; exit 1; }
[ "$2" = 'op://Private/Git Hub/token' ] || { echo '[ERROR] canary: not found' >&2; exit 1; }
echo '${CANARY.replaceAll("'", "'\\''")}'`

  test('a reference is read with "op read", which sees the token of its service account', async () => {
    using programs = writePrograms({ op: OP }, { OP_SERVICE_ACCOUNT_TOKEN: 'ops_account' })
    await using providers = openProviders({ env: programs.env })
    assert.equal((await providers.get('T', sourceOf('op:Private/Git Hub/token'), NEVER)).reveal(), CANARY)
    assert.match((await failure(providers.get('T', sourceOf('op:Private/Other/token'), NEVER))).message, /exit 1/)
    const secrets = openSecrets([{ name: 'T', source: sourceOf('op:Private/Git Hub/token') }], programs.env, { now: () => 0 })
    assert.equal((await secrets.get('T')).reveal(), CANARY)
  })

  test('storing, deleting and listing are refused with what to do: new values would be arguments', async () => {
    using programs = writePrograms({ op: 'touch "$DIR/ran"' })
    await using providers = openProviders({ env: programs.env })
    const source = sourceOf('op:a/b/c')
    for (const refused of [
      providers.set(source, new Secret('T', CANARY), NEVER),
      providers.delete(source, NEVER),
      providers.list('op', undefined, NEVER),
    ]) {
      const error = await failure(refused)
      assert.equal(error.code, 'provider_cannot')
      assert.match(error.hint ?? '', /1Password/)
    }
    assert.equal(existsSync(programs.at('ran')), false)
  })
})

describe('macOS Keychain (a fake "security")', () => {
  /** Keeps one item; in its interactive mode it reads lines of 4096 bytes and ends with 0 whatever they did, as the real one. */
  const SECURITY = `printf '%s\\n' "$*" >>"$DIR/arguments"
case "$1" in
  -i) IFS= read -r line; printf '%s' "$line" >"$DIR/line"
      case "$line" in
        'add-generic-password -U -s "My App" -a "me@example.com" -X '*) printf '%s' "\${line##* }" >"$DIR/hex" ;;
      esac; exit 0 ;;
  find-generic-password) [ "$*" = 'find-generic-password -s My App -a me@example.com -w' ] && [ -f "$DIR/hex" ] || exit 44
      perl -e 'print pack("H*", <>), "\\n"' "$DIR/hex" ;;
  delete-generic-password) [ "$*" = 'delete-generic-password -s My App -a me@example.com' ] && [ -f "$DIR/hex" ] && rm "$DIR/hex" || exit 44 ;;
  *) exit 2 ;;
esac`
  const SOURCE = sourceOf('keychain:My App/me@example.com')

  test('a value is stored by the input of "security -i" in hexadecimal, read back and deleted, and is in no argument', async () => {
    using programs = writePrograms({ security: SECURITY })
    await using providers = openProviders({ env: programs.env })
    await providers.set(SOURCE, new Secret('T', CANARY), NEVER)
    assert.equal((await providers.get('T', SOURCE, NEVER)).reveal(), CANARY)
    await providers.delete(SOURCE, NEVER)
    assert.match((await failure(providers.get('T', SOURCE, NEVER))).message, /exit 44/)
    assert.doesNotMatch(programs.read('arguments'), new RegExp(`canary|${Buffer.from('canary').toString('hex')}`))
  })

  test('storing that failed silently is found out by reading back, also where an older value is there', async () => {
    using programs = writePrograms({ security: '[ "$1" = -i ] || echo the-older-value' })
    await using providers = openProviders({ env: programs.env })
    assert.match((await failure(providers.set(SOURCE, new Secret('T', CANARY), NEVER))).message, /another when it is read back/)
  })

  test('a value that is too long for one line of "security -i" is refused before it is run', async () => {
    using programs = writePrograms({ security: SECURITY })
    await using providers = openProviders({ env: programs.env })
    assert.match((await failure(providers.set(SOURCE, new Secret('T', 'canary'.repeat(400)), NEVER))).message, /too long/)
    assert.equal(existsSync(programs.at('arguments')), false)
  })
})
