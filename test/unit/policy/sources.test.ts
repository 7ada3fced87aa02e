import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeSource, parseSource } from '../../../src/policy/sources.ts'

for (const { text, source } of [
  { text: 'env:GITHUB_TOKEN', source: { kind: 'env', variable: 'GITHUB_TOKEN' } },
  { text: 'file:/run/secrets/T', source: { kind: 'file', path: '/run/secrets/T' } },
  { text: 'exec:gh auth token', source: { kind: 'exec', argv: ['gh', 'auth', 'token'] } },
  { text: "exec:op read 'op://a b/c'  x", source: { kind: 'exec', argv: ['op', 'read', 'op://a b/c', 'x'] } },
  { text: `exec:x "a b"'c|d' ''`, source: { kind: 'exec', argv: ['x', 'a bc|d', ''] } },
  { text: 'vault:GITHUB_TOKEN', source: { kind: 'vault', key: 'GITHUB_TOKEN' } },
  { text: 'vault:ci.token-2', source: { kind: 'vault', key: 'ci.token-2' } },
  { text: 'op:Private/Git Hub/token', source: { kind: 'op', path: 'Private/Git Hub/token' } },
  { text: 'op:Private/GitHub/api/token', source: { kind: 'op', path: 'Private/GitHub/api/token' } },
  { text: 'keychain:github.com', source: { kind: 'keychain', service: 'github.com' } },
  { text: 'keychain:My App/me@example.com', source: { kind: 'keychain', service: 'My App', account: 'me@example.com' } },
  {
    text: 'libsecret:service=github,user=octo cat',
    source: {
      kind: 'libsecret',
      attributes: [
        ['service', 'github'],
        ['user', 'octo cat'],
      ],
    },
  },
  { text: 'pass:work/git hub', source: { kind: 'pass', path: 'work/git hub' } },
  { text: 'vault-http:secret/ci/github#token', source: { kind: 'vault-http', mount: 'secret', path: 'ci/github', field: 'token' } },
  {
    text: 'mcp-config:claude/Git%20Hub/env/GITHUB_TOKEN',
    source: { kind: 'mcp-config', harness: 'claude', server: 'Git Hub', of: 'env', field: 'GITHUB_TOKEN' },
  },
  { text: 'vault-http:kv/a?version=3#b', source: { kind: 'vault-http', mount: 'kv', path: 'a', field: 'b', version: 3 } },
]) {
  test(`source ${text} is read`, () => assert.deepEqual(parseSource(text), source))
}

for (const { text, why } of [
  { text: 'env:', why: /must name an environment variable/ },
  { text: 'env:A B', why: /must name an environment variable/ },
  { text: 'file:relative', why: /absolute path/ },
  { text: 'file:/a/../etc/shadow', why: /write "file:\/etc\/shadow"/ },
  { text: 'file:/a/', why: /write "file:\/a"/ },
  { text: 'exec:', why: /names no command/ },
  { text: 'exec:a | b', why: /"\|" outside quotes.*no shell/ },
  { text: 'exec:a & b', why: /"&"/ },
  { text: 'exec:a; b', why: /";"/ },
  { text: 'exec:a <b', why: /"<"/ },
  { text: 'exec:a > b', why: /">"/ },
  { text: 'exec:echo $X', why: /"\$"/ },
  { text: 'exec:echo `x`', why: /"`"/ },
  { text: 'exec:echo "$X"', why: /inside "…".*use '…'/ },
  { text: 'exec:~/bin/token', why: /"~"/ },
  { text: "exec:a 'b", why: /' is not closed/ },
  { text: "exec:'' a", why: /names no command/ },
  { text: 'exec:a\nb', why: /line break/ },
  { text: 'exec:./print', why: /"\.\/print" is relative: write its whole path/ },
  { text: 'exec:bin/print', why: /is relative/ },
  { text: 'vault:', why: /must name a key of the vault/ },
  { text: 'vault:-rf', why: /must name a key/ },
  { text: 'vault:a b', why: /must name a key/ },
  { text: 'vault:a/b', why: /must name a key/ },
  { text: `vault:${'a'.repeat(129)}`, why: /128 at most/ },
  { text: 'op:Private/GitHub', why: /must be VAULT\/ITEM\/FIELD/ },
  { text: 'op:a/b/c/d/e', why: /must be VAULT/ },
  { text: 'op:a//c', why: /must be VAULT/ },
  { text: 'op:a/b/c?attribute=otp', why: /must be VAULT/ },
  { text: 'op:a/b/ c', why: /must be VAULT/ },
  { text: 'op://Private/GitHub/token', why: /not canonical; write "op:Private\/GitHub\/token"/ },
  { text: 'keychain:', why: /must be SERVICE/ },
  { text: 'keychain:-w', why: /must be SERVICE/ },
  { text: 'keychain:a/', why: /must be SERVICE/ },
  { text: 'keychain:a"b', why: /must be SERVICE/ },
  { text: 'keychain:a\\b', why: /must be SERVICE/ },
  { text: 'libsecret:', why: /must be ATTRIBUTE=VALUE/ },
  { text: 'libsecret:a', why: /must be ATTRIBUTE=VALUE/ },
  { text: 'libsecret:a=', why: /must be ATTRIBUTE=VALUE/ },
  { text: 'libsecret:a=--all', why: /must be ATTRIBUTE=VALUE/ },
  { text: 'libsecret:-a=b', why: /must be ATTRIBUTE=VALUE/ },
  { text: 'libsecret:a=b,a=c', why: /has the attribute "a" twice/ },
  { text: 'libsecret:a=b,', why: /must be ATTRIBUTE=VALUE/ },
  { text: 'pass:', why: /must be a name of the store/ },
  { text: 'pass:../../etc/passwd', why: /must be a name/ },
  { text: 'pass:a/./b', why: /must be a name/ },
  { text: 'pass:/a', why: /must be a name/ },
  { text: 'pass:a/', why: /must be a name/ },
  { text: 'pass:-c', why: /must be a name/ },
  { text: 'pass:a\nb', why: /line break/ },
  { text: 'vault-http:X', why: /must be MOUNT\/PATH#FIELD/ },
  { text: 'vault-http:secret#f', why: /must be MOUNT\/PATH#FIELD/ },
  { text: 'vault-http:secret/a', why: /must be MOUNT\/PATH#FIELD/ },
  { text: 'vault-http:secret/../sys/unseal#f', why: /must be MOUNT\/PATH#FIELD/ },
  { text: 'vault-http:secret/a#', why: /must be MOUNT\/PATH#FIELD/ },
  { text: 'vault-http:secret/a#b#c', why: /must be MOUNT\/PATH#FIELD/ },
  { text: 'vault-http:secret/a?version=0#b', why: /only version=NUMBER/ },
  { text: 'vault-http:secret/a?list=true#b', why: /only version=NUMBER/ },
  { text: 'valut:X', why: /must begin with .*; did you mean "vault:"\?/ },
]) {
  test(`source ${JSON.stringify(text)} is refused`, () => assert.match(JSON.stringify(parseSource(text)).replaceAll('\\"', '"'), why))
}

test('a value pasted in place of a source is refused without being printed', () => {
  const pasted = 'ghp_16C7e42F292c6912E7710c838347Ae178B4a'
  assert.equal(JSON.stringify(parseSource(pasted)).includes('ghp_'), false)
  assert.equal(JSON.stringify(parseSource(`token:${pasted}`)).includes('ghp_'), false)
})

for (const text of [
  'vault:A',
  'env:A',
  'file:/a',
  'op:a/b/c',
  'keychain:a/b',
  'libsecret:a=b,c=d',
  'pass:a/b',
  'vault-http:a/b?version=2#c',
]) {
  test(`source ${text} is shown as it is written`, () => {
    const source = parseSource(text)
    assert.ok(typeof source !== 'string')
    assert.equal(describeSource(source), text)
  })
}

test('of a command only the program is shown: its arguments may be private', () => {
  const source = parseSource('exec:/opt/print --key=private')
  assert.ok(typeof source !== 'string')
  assert.equal(describeSource(source), 'exec:/opt/print …')
})
