// Escape sequences are what this is about.
/* oxlint-disable no-control-regex */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createTerminalFilter } from '../../src/controller/terminal/filter.ts'
import { createRedaction, openOutput } from '../../src/controller/terminal/redacted.ts'
import { REMOVED } from '../../src/controller/terminal/sequences.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { eventually } from '../support/eventually.ts'
import { filtered } from '../support/filtered.ts'
import { firstForbidden, firstForbiddenInLines } from '../support/terminal-grammar.ts'
import { startTmux, type Tmux } from '../support/tmux.ts'

const THROUGH = join(import.meta.dirname, '../support/through-filter.ts')
const HOLD = ['sh', '-c', 'cat "$0"; sleep 1000']

for (const { name, example, why } of REMOVED) {
  const bytes = Buffer.from(example, name === 'C1 in eight bits' ? 'latin1' : 'utf8')
  test(`I26 ${name} goes to no terminal, whole or byte by byte: ${why}`, () => {
    for (const profile of ['screen', 'lines'] as const) {
      for (const sizes of [[], [1]]) {
        const out = filtered(Buffer.concat([Buffer.from('before'), bytes, Buffer.from('after')]), { sizes, profile }).toString()
        assert.doesNotMatch(out, /[\u001b\u0080-\u009f\u0005]/u)
        assert.ok(out.startsWith('before') && out.endsWith('after'), out)
      }
    }
  })
}

/** What would make a terminal type, or stay otherwise than it was, in the output of logs and of programs without a terminal. */
const ONLY_ON_A_SCREEN = [
  { bytes: '\x1b[6n', why: 'its answer would be typed into the shell' },
  { bytes: '\x1b[?1003h\x1b[?1006h', why: 'moves of the mouse would be typed into the shell' },
  { bytes: '\x1b[?1004h', why: 'so would the focus' },
  { bytes: '\x1b[?2004h\x1b[>1u\x1b[>4;2m\x1b=', why: 'keys would be other ones' },
  { bytes: '\x1b[?1049h', why: 'the screen would be gone' },
  { bytes: '\x1b[5A\x1b[2;3H\x1b[2J\x1b[3L\x1bM', why: 'what was printed before would be written over' },
  { bytes: '\x1b(0\x0e', why: 'letters would be lines' },
  { bytes: '\x1b[c', why: 'nobody asked' },
]
for (const { bytes, why } of ONLY_ON_A_SCREEN) {
  test(`logs leave out ${JSON.stringify(bytes)}: ${why}`, () => {
    const filter = createTerminalFilter('lines')
    assert.equal(filtered(`a\x1b[31m${bytes}b`, { filter }).toString(), 'a\x1b[31mb')
    assert.deepEqual(filter.answers(), [])
  })
}

test('a string without an end swallows what a terminal would, up to its bound, and keeps nothing of it', () => {
  const filter = createTerminalFilter('screen')
  filter.push(Buffer.from('\x1b]52;c;'))
  const block = Buffer.alloc(64 * 1024, 'A')
  let out = 0
  for (let given = 0; given < LIMITS.terminalStringBytesMax + block.length; given += block.length)
    out += filter.push(block).reduce((sum, part) => sum + part.bytes.length, 0)
  assert.ok(out > 0 && out <= 2 * block.length)
  assert.equal(filtered('\x1b]0;never ended \x1b[31mtext').toString(), '\x1b[31mtext')
})

test('a sequence without an end is not kept, however long it is', () => {
  assert.equal(filtered(`\x1b[${'1;'.repeat(1_000_000)}mtext`).toString(), 'text')
  assert.equal(filtered(`\x1b${' '.repeat(1_000_000)}0text`).toString(), 'text')
})

test('REP is not a way to print without end: it is written out, once, up to a bound', () => {
  assert.equal(filtered('ab\x1b[3b|').toString(), 'abbbb|')
  assert.equal(filtered('日\x1b[2b').toString(), '日日日')
  assert.equal(filtered('a\x1b[99999b\x1b[99999b').length, 1 + LIMITS.terminalRepeatsMax)
  assert.equal(filtered('a\n\x1b[3b').toString(), 'a\n')
})

test('modes in one sequence are judged each by itself', () => {
  assert.equal(filtered('\x1b[?1049;2031;25;3l').toString(), '\x1b[?25l', 'it left no screen that it had not entered')
  assert.equal(filtered('\x1b[?2004;2048;1006h').toString(), '\x1b[?2004h\x1b[?1006h')
})

test('a terminal is asked for its cursor only so often as it answers', () => {
  const filter = createTerminalFilter('screen')
  const count = (bytes: Buffer): number => bytes.toString().split('\x1b[6n').length - 1
  assert.equal(count(filtered('\x1b[6n'.repeat(1_000), { filter })), LIMITS.terminalQuestionsMax)
  filter.answered(2)
  assert.equal(count(filtered('\x1b[6n'.repeat(1_000), { filter })), 2)
})

test('the device attributes are answered in the terminal’s place, always the same, and only so many at a time', () => {
  const filter = createTerminalFilter('screen')
  assert.equal(filtered('\x1b[c\x1b[0c\x1b[1c\x1b[>c', { filter }).length, 0)
  assert.deepEqual(filter.answers(), ['\x1b[?62;22c', '\x1b[?62;22c'])
  filtered('\x1b[c'.repeat(1_000), { filter })
  assert.equal(filter.answers().length, LIMITS.terminalAnswersMax)
  assert.deepEqual(filter.answers(), [])
})

/** The state that each leaves, and what undoes it. */
const LEFT_BEHIND = [
  { left: '\x1b[?1049h', undone: '\x1b[?1049l' },
  { left: '\x1b[?47h', undone: '\x1b[?47l' },
  { left: '\x1b[?1000;1002;1003;1006h', undone: '\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l' },
  { left: '\x1b[?2004;1004h', undone: '\x1b[?2004l\x1b[?1004l' },
  { left: '\x1b[?25l\x1b[?7l', undone: '\x1b[?25h\x1b[?7h' },
  { left: '\x1b[?1h\x1b=', undone: '\x1b[?1l\x1b>' },
  { left: '\x1b[4h\x1b[20h', undone: '\x1b[4l\x1b[20l' },
  { left: '\x1b[3 q', undone: '\x1b[0 q' },
  { left: '\x1b[2;5r', undone: '\x1b7\x1b[r\x1b8' },
  { left: '\x1b[>1u\x1b[>5u', undone: '\x1b[<2u' },
  { left: '\x1b[>1u\x1b[?1049h\x1b[>1u\x1b[=5;1u', undone: '\x1b[<1u\x1b[?1049l\x1b[<1u' },
  { left: '\x1b[>4;2m', undone: '\x1b[>4;0m' },
  { left: '\x1b[?2026h', undone: '\x1b[?2026l' },
]
const ALWAYS = '\x18\x0f\x1b(B\x1b)B\x1b[0m'
for (const { left, undone } of LEFT_BEHIND) {
  test(`I26 what ${JSON.stringify(left)} left behind is undone at the end`, () => {
    const filter = createTerminalFilter('screen')
    filtered(left, { filter })
    assert.equal(filter.restore().toString(), ALWAYS + undone)
    assert.equal(filter.restore().toString(), ALWAYS)
  })
}

test('a program that undid it itself leaves nothing to undo, and it cannot pop what it did not push', () => {
  const filter = createTerminalFilter('screen')
  filtered('\x1b[?1049h\x1b[?1000h\x1b[>1u\x1b[3 q\x1b[?25l\x1b[<9u\x1b[?1000l\x1b[?25h\x1b[?1049l', { filter })
  assert.equal(filter.restore().toString(), `${ALWAYS}\x1b[0 q`)
  assert.equal(filtered('\x1b[<u\x1b[<5u\x1b[=5;1u\x1b[?1049l', { filter }).length, 0)
  assert.equal(
    filtered('\x1b[?1049h\x1b[>31u\x1b[?1049l').toString(),
    '\x1b[?1049h\x1b[>5u\x1b[<1u\x1b[?1049l',
    'the screen is not left with keys pushed',
  )
})

test('no letter is a control to a terminal that does not read UTF-8', () => {
  // U+011B is C4 9B: 9B is CSI where bytes are letters.
  const filter = createTerminalFilter('screen', { isUtf8: false })
  assert.equal(filtered('\u011b21t é \x1b[31m日', { filter }).toString(), '?21t ? \x1b[31m?')
})

test('removing what stands between two halves puts no sequence together', () => {
  for (const bytes of [
    '\x1b\x05[21t',
    '\x1b[2\x001t',
    '\x1b]0;x\x07\x1b\x1b]52;c;aGk=\x07',
    '\x1b[\x1b[21t',
    '\x1b\x7f]52;c;aGk=\x07',
    '\x1b[5\x18i',
    '\x1b[\u009b5i',
  ]) {
    const out = filtered(bytes)
    assert.equal(firstForbidden(out), undefined)
    assert.equal(firstForbiddenInLines(filtered(bytes, { profile: 'lines' })), undefined)
    assert.equal(out.includes(0x1b), false, JSON.stringify(bytes))
  }
})

const SECRET = 'k7Fq-2mZ_x9Wc4R-t8Yp'
test('I27 a secret that a program hides from the search by what the filter removes is found', () => {
  for (const between of [
    '\x00',
    '\x1b]0;x\x07',
    '\x1bP\x1b\\',
    '\x1b[21t',
    '\x05',
    '\x1b[5n',
    '\x1b[31m',
    '\x1b]8;;https://a.test\x1b\\',
    '\x1b[K',
  ]) {
    const output = openOutput(
      createRedaction(() => [new Secret('T', SECRET)]),
      'screen',
    )
    const shown = Buffer.concat([output.push(Buffer.from(Array.from(SECRET).join(between))), output.release(), output.end()]).toString()
    assert.equal(shown.replaceAll(/\u001b\[[\d]*[mK]/gu, ''), '*'.repeat(SECRET.length), JSON.stringify(between))
  }
})

test('a secret in the middle of which a flood of colours comes is not shown either, and the flood is not kept', () => {
  const output = openOutput(
    createRedaction(() => [new Secret('T', SECRET)]),
    'screen',
  )
  const flood = '\x1b[31m'.repeat(100_000)
  const first = output.push(Buffer.from(SECRET.slice(0, 10) + flood))
  assert.ok(first.length >= flood.length - LIMITS.terminalWaitingBytesMax)
  const shown = Buffer.concat([first, output.push(Buffer.from(SECRET.slice(10))), output.end()]).toString()
  assert.equal(shown.replaceAll('\x1b[31m', ''), '*'.repeat(SECRET.length))
})

test('what is masked never becomes part of a sequence', () => {
  // A value that is the parameters of a colour.
  const output = openOutput(
    createRedaction(() => [new Secret('T', '38;5;196'), new Secret('U', '[38;5;1')]),
    'screen',
  )
  assert.equal(Buffer.concat([output.push(Buffer.from('\x1b[38;5;196mx 38;5;196')), output.end()]).toString(), '\x1b[38;5;196mx ********')
})

test('how much of a text agrees with a secret cannot be told by when the terminal is asked something', () => {
  const output = openOutput(
    createRedaction(() => [new Secret('T', SECRET)]),
    'screen',
  )
  for (const guess of [SECRET.slice(0, 12), 'k7Fx-2mZ_x9W', '@']) {
    assert.ok(
      output
        .push(Buffer.from(`${guess}\x1b[0m\x1b[6n`))
        .toString()
        .endsWith('\x1b[6n'),
      guess,
    )
  }
})

let tmux: Tmux
before(async () => (tmux = await startTmux()))
after(async () => await tmux[Symbol.asyncDispose]())

const title = async (pane: string): Promise<string> =>
  await tmux.command('display-message', '-p', '-t', pane, '#{pane_title}|#{window_name}')
const buffers = async (): Promise<string> => await tmux.command('list-buffers')

test('a real terminal’s clipboard and titles are changed by a program, and are not behind the filter', async () => {
  const file = join(tmux.dir, 'hostile')
  await writeFile(
    file,
    '\x1b]2;hostile title\x07\x1bkhostile name\x1b\\\x1b]52;c;aG9zdGlsZQ==\x07\x1bPtmux;\x1b\x1b]52;c;aG9zdGlsZQ==\x07\x1b\\done',
  )
  const behind = await tmux.open([process.execPath, THROUGH, ...HOLD, file])
  await eventually(async () => assert.match(await tmux.screen(behind), /^done/m))
  assert.equal(await buffers(), '')
  assert.doesNotMatch(await title(behind), /hostile/)
  // The same without it: this terminal would have done it.
  const bare = await tmux.open([...HOLD, file])
  await eventually(async () => assert.match(await title(bare), /hostile title\|hostile name/))
  await eventually(async () => assert.match(await buffers(), /hostile/))
})

test('a real terminal answers the questions of a program, and behind the filter answers none but where the cursor is', async () => {
  const questions =
    '\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[>q\x1b[?2026$p\x1b]10;?\x07\x1b]11;?\x07\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1b[18t\x1b[21t\x1bZ\x05\x1b[?u\x1b[?4m\x1b[2;3H\x1b[6n'
  await writeFile(join(tmux.dir, 'questions'), questions)
  // Reads until the answer to the last question, and prints what came.
  const ask = `stty raw -echo; cat questions; node=0; python3 -c '
import os
got = b""
while b"R" not in got: got += os.read(0, 1000)
os.write(1, b"\\r\\nGOT " + repr(got).encode() + b" END")
'; sleep 1000`
  await writeFile(join(tmux.dir, 'ask.sh'), ask)
  const command = ['sh', '-c', 'cd "$0" && . ./ask.sh', tmux.dir]
  const got = async (pane: string): Promise<string> =>
    await eventually(
      async () => /GOT b'(.*)' END/.exec((await tmux.screen(pane)).replaceAll('\n', ''))?.[1] ?? assert.fail(await tmux.screen(pane)),
    )
  assert.match(await got(await tmux.open(command)), /\[\?1;2c.*\[>.*\[0n/, 'the terminal itself answers')
  // The one answer of its own is that of the filter.
  assert.equal(await got(await tmux.open([process.execPath, THROUGH, ...command])), '\\x1b[?62;22c\\x1b[2;3R')
})

test('a real terminal is as it was after whatever a program left, by what the filter puts at the end', async () => {
  const file = join(tmux.dir, 'left')
  await writeFile(file, '\x1b[?1049h\x1b[?1003h\x1b[?1006h\x1b[?25l\x1b[4h\x1b[?7l\x1b[?1h\x1b=\x1b[3;9r\x1b[31;7m\x1b(0\x0eqqq\x1b[')
  const show = (argv: readonly string[]): readonly string[] => ['sh', '-c', '"$@"; echo end; sleep 1000', 'sh', ...argv]
  const pane = await tmux.open(show(['env', 'RESTORE=1', process.execPath, THROUGH, 'cat', file]))
  const untouched = await tmux.open(show(['true']))
  await eventually(async () => {
    const shown = await tmux.screen(pane)
    assert.match(shown, /end/)
    assert.equal(shown, await tmux.screen(untouched))
  })
})
