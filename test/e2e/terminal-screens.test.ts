import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { startTmux, type Tmux } from '../support/tmux.ts'

const THROUGH = join(import.meta.dirname, '../support/through-filter.ts')
const TEXT = Array.from({ length: 60 }, (_, i) => `${i} ${'a line of text — ünïcödé 日本語 😀 '.repeat(1 + (i % 4))}`).join('\n')

let tmux: Tmux
before(async () => {
  tmux = await startTmux()
  await writeFile(join(tmux.dir, 'text'), TEXT)
  await writeFile(
    join(tmux.dir, 'code.c'),
    `#include <stdio.h>\n/* a comment */\nint main(void) { return ${'1 + '.repeat(20)} 0; }\n`.repeat(9),
  )
})
after(async () => {
  for (const side of ['bare', 'behind']) await tmux.run('tmux', '-S', join(tmux.dir, `inner-${side}`), 'kill-server').catch(() => undefined)
  await tmux[Symbol.asyncDispose]()
})

/** Curses of another kind: regions, insert and delete, line drawing, all attributes. */
const CURSES = `
import curses, locale
locale.setlocale(locale.LC_ALL, '')
def main(screen):
    curses.start_color(); curses.use_default_colors(); curses.mousemask(curses.ALL_MOUSE_EVENTS)
    for i in range(1, 8): curses.init_pair(i, i, -1)
    screen.border()
    for i in range(1, 8): screen.addstr(i, 2, 'pair %d aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' % i, curses.color_pair(i) | (curses.A_BOLD if i % 2 else curses.A_UNDERLINE))
    screen.hline(10, 1, curses.ACS_HLINE, 60)
    window = curses.newwin(8, 40, 12, 20); window.box(); window.scrollok(True); window.setscrreg(1, 6); window.keypad(True)
    screen.refresh(); window.refresh()
    for i in range(20): window.addstr(6, 1, 'row %d' % i); window.scroll(); window.refresh()
    screen.insertln(); screen.deleteln(); screen.move(5, 5); screen.insstr('inserted'); screen.delch(6, 3); screen.refresh()
    while screen.getkey() != 'q': pass
curses.wrapper(main)
`

/** @param keys sent one after the other, each when the screens agree */
const PROGRAMS: readonly {
  readonly name: string
  readonly argv: readonly string[]
  readonly keys: readonly string[][]
  readonly shows: string
  /** After the last key. */ readonly ends: string
}[] = [
  {
    name: 'vim',
    argv: ['vim', '-u', 'NONE', '-n', '-c', 'set number showcmd', 'text'],
    keys: [['G'], ['dd'], ['gg'], ['i', 'typed here', 'Escape'], ['C-f'], [':vsplit', 'Enter'], ['/30', 'Enter'], [':echo 6*7', 'Enter']],
    shows: 'line of text',
    ends: '42',
  },
  {
    name: 'vim with colours and mouse',
    argv: ['vim', '-u', 'NONE', '-n', '-c', 'syntax on | set mouse=a termguicolors nu cursorline title', 'code.c'],
    keys: [['5j'], ['VG', 'd'], ['u'], [':sp', 'Enter'], [':echo 6*7', 'Enter']],
    shows: 'main',
    ends: '42',
  },
  {
    name: 'less',
    argv: ['less', '-N', 'text'],
    keys: [['Space'], ['/30', 'Enter'], ['g'], ['G'], ['b'], ['20g']],
    shows: 'line of text',
    ends: ' 20 19 a line',
  },
  { name: 'a program of curses', argv: ['python3', '-c', CURSES], keys: [['x']], shows: 'inserted', ends: 'inserted' },
  {
    name: 'tmux in tmux',
    argv: ['tmux', '-f', '/dev/null', '-S', 'inner-SIDE', 'new-session', 'sh -c "printf \\"\\\\033[31mred\\\\033[0m 日本 line\\"; cat"'],
    keys: [
      ['C-b', '"'],
      ['C-b', ':', 'set -g status-left 6x7', 'Enter'],
    ],
    shows: 'red',
    ends: '6x7',
  },
]

for (const { name, argv, keys, shows, ends } of PROGRAMS) {
  test(`${name}: the screen is the same with the filter as without, after every key and at the end`, async () => {
    const side = (which: string): string[] => argv.map((one) => one.replace('SIDE', which))
    const inDir = (command: readonly string[]): string[] => ['sh', '-c', 'cd "$0" && unset TMUX && exec "$@"', tmux.dir, ...command]
    const bare = await tmux.open(inDir(side('bare')))
    const behind = await tmux.open(inDir([process.execPath, THROUGH, ...side('behind')]))
    const agree = async (): Promise<string> =>
      await eventually(async () => {
        const [one, other] = [clean(await tmux.screen(bare)), clean(await tmux.screen(behind))]
        assert.equal(other, one)
        return one
      })
    await eventually(async () => assert.ok((await tmux.screen(bare)).includes(shows)))
    await eventually(async () => assert.ok((await tmux.screen(behind)).includes(shows)))
    for (const group of keys) {
      for (const key of group) for (const pane of [bare, behind]) await tmux.command('send-keys', '-t', pane, key)
      await agree()
    }
    for (const pane of [bare, behind]) await eventually(async () => assert.ok((await tmux.screen(pane)).includes(ends)))
    await agree()
    for (const pane of [bare, behind]) await tmux.command('kill-pane', '-t', pane)
  })
}

/** Names of sockets and times differ. */
function clean(screen: string): string {
  return screen.replaceAll(/inner-\w+|\d\d:\d\d \d\d-\w+-\d+/g, '')
}
