import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readProviderSettings } from '../../../src/controller/providers/providers.ts'
import { writeFiles } from '../../support/policy.ts'

const WHOLE = `version: 1
vault-http:
  address: https://vault.example.com:8200
  token: file:/run/vault-token
  wrapped: true
  namespace: team/ci
  ca: /etc/ssl/vault.pem
`

test('settings are read; without a file there are none', () => {
  using files = writeFiles({ 'providers.yaml': WHOLE, 'empty.yaml': 'version: 1\n' })
  assert.deepEqual(readProviderSettings(files.at('providers.yaml')), {
    hashicorp: {
      address: 'https://vault.example.com:8200',
      token: { kind: 'file', path: '/run/vault-token' },
      isWrapped: true,
      namespace: 'team/ci',
      caFile: '/etc/ssl/vault.pem',
    },
  })
  assert.deepEqual(readProviderSettings(files.at('empty.yaml')), {})
  assert.deepEqual(readProviderSettings(files.at('none.yaml')), {})
})

for (const { from, to, line, why } of [
  {
    from: 'https://vault.example.com:8200',
    to: 'http://vault.example.com:8200',
    line: 3,
    why: /must begin with https:\/\/: the token would go in clear to vault\.example\.com:8200/,
  },
  { from: 'https://vault.example.com:8200', to: 'http://127.evil.example.com', line: 3, why: /in clear/ },
  { from: 'https://vault.example.com:8200', to: 'https://me:p4ss@vault.example.com', line: 3, why: /without a user/ },
  { from: 'https://vault.example.com:8200', to: 'https://vault.example.com/v1', line: 3, why: /write "https:\/\/vault\.example\.com"/ },
  { from: 'https://vault.example.com:8200', to: 'file:///etc/passwd', line: 3, why: /not canonical|https/ },
  { from: 'https://vault.example.com:8200', to: 'nonsense', line: 3, why: /must be a URL/ },
  { from: 'file:/run/vault-token', to: 'hvs.CAESIJ', line: 4, why: /must begin with vault:/ },
  { from: 'file:/run/vault-token', to: '"vault-http:secret/a#b"', line: 4, why: /cannot be in that Vault/ },
  { from: 'wrapped: true', to: 'wrapped: yes', line: 5, why: /wrapped/ },
  { from: 'namespace: team/ci', to: 'namespace: "a b"', line: 6, why: /namespace/ },
  { from: '/etc/ssl/vault.pem', to: 'vault.pem', line: 7, why: /absolute path/ },
  { from: 'wrapped: true', to: 'insecure: true', line: 3, why: /insecure/ },
  { from: 'version: 1', to: 'version: 2', line: 1, why: /version/ },
  { from: 'version: 1', to: 'version: 1\nversion: 1', line: 2, why: /DUPLICATE_KEY/ },
]) {
  test(`settings with ${JSON.stringify(to)} are refused with file and line`, () => {
    using files = writeFiles({ 'providers.yaml': WHOLE.replace(from, to) })
    assert.throws(
      () => readProviderSettings(files.at('providers.yaml')),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'config_invalid')
        assert.match(error.message, why)
        assert.ok(error.message.includes(`providers.yaml:${line}: `), error.message)
        assert.doesNotMatch(error.message, /p4ss|CAESIJ/)
        return true
      },
    )
  })
}

for (const address of ['http://127.0.0.1:8200', 'http://localhost:8200', 'http://[::1]:8200']) {
  test(`${address} is this machine, and may go without TLS`, () => {
    using files = writeFiles({ 'providers.yaml': WHOLE.replace('https://vault.example.com:8200', address) })
    assert.equal(readProviderSettings(files.at('providers.yaml')).hashicorp?.address, address)
  })
}
