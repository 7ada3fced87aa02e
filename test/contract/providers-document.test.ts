import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openProviders, readProviderSettings } from '../../src/controller/providers/providers.ts'
import { variablesOf } from '../../src/credential/credential.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { parseSource } from '../../src/policy/policy.ts'
import { SOURCE_KINDS, type SourceKind } from '../../src/wire/secret-source.ts'
import { policyOf, writeFiles } from '../support/policy.ts'
import { readProject } from '../support/tree.ts'

const DOCUMENT = readProject('docs/PROVIDERS.md')

test('docs/PROVIDERS.md has a row for each kind of source, and none for another', () => {
  const rows = [...DOCUMENT.matchAll(/^\| `([a-z-]+):/gm)].map(([, kind]) => kind)
  assert.deepEqual(rows, [...SOURCE_KINDS])
})

const EXAMPLES: { readonly [K in SourceKind]: string } = {
  vault: 'vault:K',
  env: 'env:K',
  file: 'file:/k',
  exec: 'exec:k',
  op: 'op:a/b/c',
  keychain: 'keychain:a',
  libsecret: 'libsecret:a=b',
  pass: 'pass:a',
  'vault-http': 'vault-http:a/b#c',
  'mcp-config': 'mcp-config:claude/a/env/B',
}

/** Whether a call is refused as something that the place cannot do. */
async function isRefused(call: Promise<unknown>): Promise<boolean> {
  return call.then(
    () => false,
    (error: { code?: string }) => error.code === 'provider_cannot',
  )
}

test('what the table says of storing, deleting and listing is what each place does', async () => {
  const hashicorp = { address: 'https://127.0.0.1:1', token: { kind: 'env', variable: 'NONE' }, isWrapped: false } as const
  const vault = { get: (key: string) => new Secret(key, 'some-value'), set: () => undefined, remove: () => undefined, list: () => [] }
  await using providers = openProviders({ env: {}, vault, hashicorp })
  const { signal } = new AbortController()
  for (const kind of SOURCE_KINDS) {
    const source = parseSource(EXAMPLES[kind])
    assert.ok(typeof source !== 'string')
    const does = [
      providers.set(source, new Secret('T', 'some-value'), signal),
      providers.delete(source, signal),
      providers.list(kind, 'a', signal),
    ]
    const said = new RegExp(`^\\| \`${kind}:.*\\| (\\S+) \\| (\\S+) \\| ([^|]+) \\|$`, 'm').exec(DOCUMENT)?.slice(1)
    const done = (await Promise.all(does.map(isRefused))).map((refused) => !refused)
    assert.deepEqual(
      said?.map((word) => word !== 'no'),
      done,
      kind,
    )
  }
})

test('every variable that a program sees is named, and no other', () => {
  for (const kind of ['exec', 'op', 'keychain', 'libsecret', 'pass'] as const) {
    const row = new RegExp(`^\\| \`${kind}\` \\| (.*) \\|$`, 'm').exec(DOCUMENT)?.[1] ?? ''
    assert.deepEqual(
      [...row.matchAll(/`([A-Z_]+)`/g)].map(([, name]) => name),
      [...variablesOf(kind)],
    )
  }
})

test('the settings and the policy that are shown are read, and the numbers are those of the code', () => {
  const [settings = '', secrets = ''] = [...DOCUMENT.matchAll(/^```yaml\n([^]*?)^```$/gm)].map(([, text]) => text)
  using files = writeFiles({ 'providers.yaml': settings })
  assert.equal(readProviderSettings(files.at('providers.yaml')).hashicorp?.namespace, 'team/ci')
  const policy = policyOf(
    `version: 1\n${secrets}routes: [{name: openai, upstream: "https://api.openai.com", credential: openai}]\ncredentials: [{id: openai, secret: OPENAI_API_KEY, inject: {domains: [api.openai.com], header: X-Key}}]\n`,
  )
  assert.equal(policy.secrets.length, 4)
  assert.equal(LIMITS.secretExecMs, 15_000)
  assert.equal(LIMITS.secretBytesMax, 64 * 1024)
  assert.equal(LIMITS.vaultRequestMs, 10_000)
})
