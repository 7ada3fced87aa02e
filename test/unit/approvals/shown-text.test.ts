import assert from 'node:assert/strict'
import { test } from 'node:test'
import { showExact, showProse, type Mark } from '../../../src/kernel/shown-text.ts'

for (const { what, text, line, marks, spelled } of [
  { what: 'plain text', text: 'gh', line: '"gh"', marks: [] },
  { what: 'nothing', text: '', line: '""', marks: [] },
  { what: 'spaces at the ends', text: ' a ', line: '" a "', marks: [] },
  { what: 'quotes and backslashes', text: 'a"\\', line: '"a\\"\\\\"', marks: [] },
  { what: 'what looks like an escape', text: '\\u{202E}', line: '"\\\\u{202E}"', marks: [] },
  { what: 'U+202E', text: 'a\u202Eb', line: '"a\\u{202E}b"', marks: ['unseen', 'not_ascii'] },
  { what: 'an isolate', text: '\u2066', line: '"\\u{2066}"', marks: ['unseen', 'not_ascii'] },
  { what: 'a zero-width space', text: 'r\u200Bm', line: '"r\\u{200B}m"', marks: ['unseen', 'not_ascii'] },
  { what: 'a tag character', text: 'a\u{E0041}', line: '"a\\u{E0041}"', marks: ['unseen', 'not_ascii'] },
  { what: 'a line separator', text: 'a\u2028b', line: '"a\\u{2028}b"', marks: ['unseen', 'not_ascii'] },
  { what: 'a line break', text: 'a\nb', line: '"a\\nb"', marks: [] },
  { what: 'CR, which writes over the line', text: 'rm\rls', line: '"rm\\rls"', marks: ['unseen'] },
  { what: 'an escape sequence', text: '\x1b[2K', line: '"\\u{1B}[2K"', marks: ['unseen'] },
  { what: 'a C1 control', text: '\x9b2K', line: '"\\u{9B}2K"', marks: ['unseen', 'not_ascii'] },
  { what: 'a link of a terminal', text: '\x1b]8;;http://a\x07', line: '"\\u{1B}]8;;http://a\\u{7}"', marks: ['unseen'] },
  { what: 'padding', text: `a${' '.repeat(300)}b`, line: '"a⟦300 spaces⟧b"', marks: ['spaces'] },
  { what: 'our own brackets', text: '⟦3 spaces⟧', line: '"\\u{27E6}3 spaces\\u{27E7}"', marks: ['not_ascii'] },
  { what: 'Cyrillic in Latin', text: 'g\u0456t', line: '"g\u0456t"', marks: ['mixed_scripts', 'not_ascii'], spelled: '"g\\u{456}t"' },
  {
    what: 'a word all in Cyrillic twins',
    text: '\u0440\u0430\u0443\u0440\u0430\u04CF',
    line: '"\u0440\u0430\u0443\u0440\u0430\u04CF"',
    marks: ['look_alike', 'not_ascii'],
    spelled: '"\\u{440}\\u{430}\\u{443}\\u{440}\\u{430}\\u{4CF}"',
  },
  { what: 'a phonetic g', text: '\u0261it', line: '"\u0261it"', marks: ['look_alike', 'not_ascii'], spelled: '"\\u{261}it"' },
  { what: 'full width', text: '\uFF0Drf', line: '"\uFF0Drf"', marks: ['look_alike', 'not_ascii'], spelled: '"\\u{FF0D}rf"' },
  { what: 'a minus sign', text: '\u2212rf', line: '"\u2212rf"', marks: ['look_alike', 'not_ascii'], spelled: '"\\u{2212}rf"' },
  {
    what: 'a division slash',
    text: 'a.com\u2215x',
    line: '"a.com\u2215x"',
    marks: ['look_alike', 'not_ascii'],
    spelled: '"a.com\\u{2215}x"',
  },
  {
    what: 'bold letters of mathematics',
    text: '\u{1D400}',
    line: '"\u{1D400}"',
    marks: ['look_alike', 'not_ascii'],
    spelled: '"\\u{1D400}"',
  },
  { what: 'Hebrew', text: '\u05D0b', line: '"\\u{5D0}b"', marks: ['mixed_scripts', 'right_to_left', 'not_ascii'] },
  { what: 'a word of German', text: 'Größe', line: '"Größe"', marks: ['not_ascii'], spelled: '"Gr\\u{F6}\\u{DF}e"' },
  {
    what: 'a heap of marks',
    text: 'a\u0301\u0302\u0303\u0304',
    line: '"a\u0301\u0302\\u{303}\\u{304}"',
    marks: ['combining', 'not_ascii'],
    spelled: '"a\\u{301}\\u{302}\\u{303}\\u{304}"',
  },
] as { what: string; text: string; line: string; marks: Mark[]; spelled?: string }[]) {
  test(`I42 ${what} is shown for what it is`, () => {
    const shown = showExact(text)
    assert.deepEqual([shown.lines, shown.marks, shown.spelled], [[line], marks, spelled])
  })
}

for (const { what, text, lines, marks } of [
  { what: 'plain words', text: 'to see\nthe review', lines: ['| to see', '| the review'], marks: [] },
  {
    what: 'blank lines that push the rest away',
    text: `a${'\n'.repeat(40)}b`,
    lines: ['| a', '| ⟦39 blank lines⟧', '| b'],
    marks: ['blank_lines'],
  },
  { what: 'blank lines with spaces in them', text: 'a\n \n \n \n \nb', lines: ['| a', '| ⟦4 blank lines⟧', '| b'], marks: ['blank_lines'] },
  { what: 'CR LF', text: 'a\r\nb', lines: ['| a', '| b'], marks: [] },
  { what: 'CR alone', text: 'a\rb', lines: ['| a\\u{D}b'], marks: ['unseen'] },
  { what: 'what looks like an escape', text: '\\u{202E}', lines: ['| \\u{5C}u{202E}'], marks: [] },
  { what: 'what looks like a line of ours', text: 'x\n risk\n    safe', lines: ['| x', '|  risk', '|     safe'], marks: [] },
  { what: 'HTML and Markdown', text: '<b>ok</b> **approved**', lines: ['| <b>ok</b> **approved**'], marks: [] },
  { what: 'Cyrillic words', text: 'привет', lines: ['| привет'], marks: [] },
  { what: 'a word of two scripts', text: 'appr\u043Eved', lines: ['| appr\u043Eved'], marks: ['mixed_scripts'] },
] as { what: string; text: string; lines: string[]; marks: Mark[] }[]) {
  test(`I42 as a reason, ${what}: line by line, each with its bar`, () => {
    const shown = showProse(text)
    assert.deepEqual([shown.lines, shown.marks], [lines, marks])
  })
}
