import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeCommand } from '../../../src/command/command.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { projectFiles, readProject } from '../../support/tree.ts'
import { AROUND } from '../../support/host-commands.ts'

for (const [line, level, reason] of [
  ['git status', 'safe', /only shows/],
  ['ls -la src', 'safe', /only shows/],
  ['git status && ls', 'safe', /only shows/],
  ['frobnicate', 'caution', /not a program that is known/],
  ['git status; frobnicate', 'caution', /not a program/],
  ['npm test', 'caution', /code of the workspace/],
  ['mkdir x', 'caution', /more than show/],
  ['sort -o f a', 'caution', /writes a file/],
  ['rm -rf x', 'dangerous', /whole folders/],
  ['ls | xargs rm -rf', 'dangerous', /whole folders/],
  ['curl x | sh', 'dangerous', /pipe into sh/],
  ['curl x | sudo bash', 'dangerous', /pipe into sudo/],
  ['curl x | python3', 'dangerous', /pipe into python3/],
  ['cat x | tee y | sh -', 'dangerous', /pipe into sh/],
  ['sh <(curl x)', 'dangerous', /what another command prints/],
  ['bash -c "$(curl x)"', 'dangerous', /what another command prints/],
  ['eval "$(curl x)"', 'dangerous', /what another command prints/],
  ['sh <<E\nid\nE', 'dangerous', /written in the line/],
  ['$X y', 'dangerous', /out of an expansion/],
  ['LD_PRELOAD=x git status', 'dangerous', /sets LD_PRELOAD/],
  ['export PAGER=x; git log', 'dangerous', /sets PAGER/],
  ['ls() { id; }; ls', 'dangerous', /defines a function/],
  ['if x; then', 'dangerous', /cannot be read/],
  ['cat < /dev/tcp/x/80', 'dangerous', /dev\/tcp/],
  ['echo x > ~/.bashrc', 'dangerous', /decides what programs do/],
  ['sudo ls', 'dangerous', /rights of another/],
  ['python3 -c x', 'dangerous', /written in the line/],
  ['git push --force', 'dangerous', /throws work away/],
] as const)
  test(`${JSON.stringify(line)} is ${level}`, async () => {
    const { risk } = await describeCommand({ command: line }, AROUND)
    assert.equal(risk.level, level, JSON.stringify(risk))
    assert.ok(
      risk.reasons.some((text) => reason.test(text)),
      JSON.stringify(risk),
    )
  })

test('every command of a line is one of its parts, whatever it stands in', async () => {
  const line = 'a | b && (c; d) & { e; }; if f; then g; else h; fi; for i in $(j); do k; done; case x in y) l;; esac; m <(n) "$(o `p`)"'
  const { parts, isShell } = await describeCommand({ command: line }, AROUND)
  assert.equal(isShell, true)
  assert.deepEqual([...new Set(parts.map(({ argv }) => argv[0]))].toSorted(), 'abcdefghjklmnop'.split(''))
})

test('what a wrapper starts is a part, as deep as is looked, and deeper is dangerous', async () => {
  const { parts } = await describeCommand({ argv: ['env', 'A=b', 'timeout', '-s', 'KILL', '5', 'nice', 'sh', '-c', 'true; id'] }, AROUND)
  assert.ok(parts.some(({ argv }) => argv[0] === 'id'))
  const deep = await describeCommand({ argv: [...Array.from({ length: 40 }, () => 'nice'), 'id'] }, AROUND)
  assert.equal(deep.risk.level, 'dangerous')
  assert.ok(deep.parts.length <= LIMITS.commandPartsMax)
})

for (const [what, wish] of [
  ['nothing', { command: '  ' }],
  ['no argument', { argv: [] }],
  ['an empty name', { argv: ['', 'x'] }],
  ['a NUL', { argv: ['x', 'a\0'] }],
  ['too long a line', { command: 'x'.repeat(LIMITS.commandCharsMax + 1) }],
  ['too many arguments', { argv: Array.from({ length: LIMITS.commandWordsMax + 1 }, () => 'x') }],
  ['too long an argument', { argv: ['x', 'y'.repeat(LIMITS.commandWordCharsMax + 1)] }],
] as const)
  test(`a command with ${what} is refused by its code`, async () => {
    await assert.rejects(describeCommand(wish, AROUND), { code: 'command_invalid' })
  })

test('the parser of the shell is in no part of the gate', () => {
  const users = projectFiles().filter(
    (file) =>
      /^src\/.*\.ts$/.test(file) &&
      /from '(?:\.\.\/)*(?:src\/)?command\/command\.ts'|import\('unbash'\)|from 'unbash'/.test(readProject(file)),
  )
  assert.equal(
    users.some((file) => /^src\/(?:sidecar|policy|wire|kernel)\//.test(file)),
    false,
    users.join(' '),
  )
  assert.match(readProject('src/command/shell.ts'), /await import\('unbash'\)/)
})
