import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { test, type TestContext } from 'node:test'
import { canType, operator, type Seen } from '../support/secret-command.ts'

const CANARY = 'canary-9c41-typed'
const PASSPHRASE = 'canary-9c41-passphrase'
const isHere = await canType()

function atTerminal(title: string, body: () => Promise<void>): void {
  test(title, (t: TestContext) => (isHere ? body() : t.skip('no Python with pseudo terminals is here')))
}

/** Nothing that was typed is on the screen or in the arguments, and echo is on again. */
function assertHidden(seen: Seen): void {
  assert.doesNotMatch(seen.screen + seen.argvSeen, /canary/)
  assert.equal(seen.echo, true, 'echo is on again')
}

atTerminal('I1 a value that is typed at the prompt is stored, and is on no screen, in no argument and in no file', async () => {
  await using home = await operator()
  const seen = await home.type(['set', 'TOKEN'], [['(hidden): ', `${CANARY}\r`]])
  assertHidden(seen)
  assert.equal(seen.exit, 0, seen.screen)
  assert.match(seen.screen, /Value of TOKEN \(hidden\): [^]*TOKEN: version 1 is stored/)
  assert.deepEqual(await home.filesWith('canary'), [])
  assert.match((await home.run(['ls'])).stdout, /^TOKEN +1 /m)
})

atTerminal('several lines that are pasted are one value, and the shell gets none of them', async () => {
  await using home = await operator()
  const seen = await home.type(['set', 'TOKEN'], [['(hidden): ', `\x1b[200~${CANARY}\rsecond ${CANARY}\x1b[201~\r`]])
  assertHidden(seen)
  assert.equal(seen.exit, 0, seen.screen)
  const [on, off] = [seen.screen.indexOf('\x1b[?2004h'), seen.screen.indexOf('\x1b[?2004l')]
  assert.ok(on !== -1 && off > on, 'marking is asked for, and no longer')
})

atTerminal('lines that are pasted into a terminal that does not mark them are refused, and nothing is stored', async () => {
  await using home = await operator()
  const seen = await home.type(['set', 'TOKEN'], [['(hidden): ', `${CANARY}\rrm -rf ${CANARY}\r`]])
  assertHidden(seen)
  assert.equal(seen.exit, 1)
  assert.match(seen.screen, /input_ended: more than one line/)
  assert.match((await home.run(['ls'])).stdout, /no secrets yet/)
})

for (const { why, answer, signal } of [
  { why: 'Ctrl-C', answer: `${CANARY}\x03`, signal: constants.signals.SIGINT },
  { why: 'Ctrl-\\', answer: `${CANARY}\x1c`, signal: constants.signals.SIGQUIT },
  ...(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const).map((name) => ({
    why: name,
    answer: { signal: constants.signals[name] },
    signal: constants.signals[name],
  })),
]) {
  atTerminal(`${why} at the prompt ends the command as that signal does, with echo on again and no vault made`, async () => {
    await using home = await operator()
    const seen = await home.type(['set', 'TOKEN'], [['(hidden): ', answer]])
    assertHidden(seen)
    assert.deepEqual([seen.exit, seen.signal], [null, signal])
    assert.deepEqual(await home.filesWith(''), [])
  })
}

for (const { why, answer } of [
  { why: 'Ctrl-D', answer: '\x04' },
  { why: 'an arrow key', answer: `${CANARY}\x1b[A\r` },
]) {
  atTerminal(`${why} at the prompt breaks it off with a code, with echo on again`, async () => {
    await using home = await operator()
    const seen = await home.type(['set', 'TOKEN'], [['(hidden): ', answer]])
    assertHidden(seen)
    assert.equal(seen.exit, 1)
    assert.match(seen.screen, /input_ended: /)
  })
}

atTerminal('a passphrase is asked for twice when it is chosen and once later, also while the value comes from a pipe', async () => {
  await using home = await operator()
  const made = await home.type(
    ['set', 'TOKEN', '--unlock', 'passphrase'],
    [
      ['New passphrase of the vault (hidden): ', `${PASSPHRASE}\r`],
      ['The same again (hidden): ', `${PASSPHRASE}\r`],
    ],
    CANARY,
  )
  assertHidden(made)
  assert.equal(made.exit, 0, made.screen)
  const wrong = await home.type(['ls'], [['Passphrase of the vault (hidden): ', 'canary, another\r']])
  assertHidden(wrong)
  assert.match(wrong.screen, /vault_key_wrong/)
  const listed = await home.type(['ls'], [['Passphrase of the vault (hidden): ', `${PASSPHRASE}\r`]])
  assertHidden(listed)
  assert.match(listed.screen, /TOKEN +1/)
  assert.deepEqual(await home.filesWith('canary'), [])
})

atTerminal('two passphrases that are not the same make no vault', async () => {
  await using home = await operator()
  const seen = await home.type(
    ['set', 'TOKEN', '--unlock', 'passphrase'],
    [
      ['New passphrase of the vault (hidden): ', `${PASSPHRASE}\r`],
      ['The same again (hidden): ', `${PASSPHRASE}x\r`],
    ],
    CANARY,
  )
  assertHidden(seen)
  assert.match(seen.screen, /input_ended: the two passphrases/)
  assert.deepEqual(await home.filesWith(''), [])
})
