import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseSource } from '../../../src/policy/sources.ts'

for (const { text, source } of [
  { text: 'env:GITHUB_TOKEN', source: { kind: 'env', variable: 'GITHUB_TOKEN' } },
  { text: 'file:/run/secrets/T', source: { kind: 'file', path: '/run/secrets/T' } },
  { text: 'exec:gh auth token', source: { kind: 'exec', argv: ['gh', 'auth', 'token'] } },
  { text: "exec:op read 'op://a b/c'  x", source: { kind: 'exec', argv: ['op', 'read', 'op://a b/c', 'x'] } },
  { text: `exec:x "a b"'c|d' ''`, source: { kind: 'exec', argv: ['x', 'a bc|d', ''] } },
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
  { text: 'vault:X', why: /"vault:" is known but not enforced/ },
  { text: 'op:X', why: /not enforced/ },
  { text: 'keychain:X', why: /not enforced/ },
  { text: 'vault-http:X', why: /not enforced/ },
]) {
  test(`source ${JSON.stringify(text)} is refused`, () => assert.match(JSON.stringify(parseSource(text)).replaceAll('\\"', '"'), why))
}

test('a value pasted in place of a source is refused without being printed', () => {
  const pasted = 'ghp_16C7e42F292c6912E7710c838347Ae178B4a'
  assert.equal(JSON.stringify(parseSource(pasted)).includes('ghp_'), false)
  assert.equal(JSON.stringify(parseSource(`token:${pasted}`)).includes('ghp_'), false)
})
