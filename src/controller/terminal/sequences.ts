/**
 * What of the control functions of ECMA-48 and xterm (ctlseqs) goes from a program to the operator's terminal. Everything that
 * is not in these tables is removed: what is removed by name stands in `REMOVED`, with the reason.
 *
 * `lines` is the output of logs and of programs without a terminal of their own: there nobody reads keys in raw mode, so that
 * whatever makes a terminal type by itself would type into the operator's shell, and what was printed stays as it was printed.
 * `screen` is a program that has the operator's terminal for itself.
 */
export type Profile = 'lines' | 'screen'

/** How the parameters are read. What does not fit removes the sequence. */
export type Parameters =
  /** So many decimal numbers at most, each brought down to `LIMITS.terminalCountMax`. */
  | { readonly counts: number }
  /** One number of these; 0 when it is left out. */
  | { readonly oneOf: readonly number[] }
  /** SGR: numbers, with the sub-parameters of ISO 8613-6. */
  | 'attributes'
  /** Numbers of `MODES` or `SCREEN_MODES`; those that are not there are taken out. */
  | 'modes'
  /** Read by what keeps the state that it changes (`screen-state.ts`). */
  | 'kept'

export type Rule = {
  /** As ctlseqs names it. */
  readonly name: string
  readonly profiles: readonly Profile[]
  readonly parameters: Parameters
  /**
   * The text before and after it stands side by side on the screen, and no terminal sends anything because of it: a secret is
   * looked for across it. A sequence that a terminal answers is never one: how late the answer came would tell the program how
   * much of its text agrees with a secret.
   */
  readonly isJoining: boolean
  readonly why: string
}

const BOTH = ['lines', 'screen'] as const
const SCREEN = ['screen'] as const

const move = (name: string, counts = 1): Rule => ({
  name,
  profiles: SCREEN,
  parameters: { counts },
  isJoining: false,
  why: 'moves the cursor',
})
const edit = (name: string): Rule => ({
  name,
  profiles: SCREEN,
  parameters: { counts: 1 },
  isJoining: false,
  why: 'changes cells of the screen alone',
})

/** Control sequences (ECMA-48 §5.4), by private prefix, intermediate bytes and final byte. */
export const CONTROL_SEQUENCES: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['m', { name: 'SGR', profiles: BOTH, parameters: 'attributes', isJoining: true, why: 'colours; undone at the end' }],
  ['K', { name: 'EL', profiles: BOTH, parameters: { oneOf: [0, 1, 2] }, isJoining: true, why: 'erases in the line of the cursor' }],
  ['A', move('CUU')],
  ['B', move('CUD')],
  ['C', move('CUF')],
  ['D', move('CUB')],
  ['E', move('CNL')],
  ['F', move('CPL')],
  ['G', move('CHA')],
  ['H', move('CUP', 2)],
  ['I', move('CHT')],
  ['Z', move('CBT')],
  ['`', move('HPA')],
  ['a', move('HPR')],
  ['d', move('VPA')],
  ['e', move('VPR')],
  ['f', move('HVP', 2)],
  ['s', move('SCOSC', 0)],
  ['u', move('SCORC', 0)],
  ['@', edit('ICH')],
  ['P', edit('DCH')],
  ['X', edit('ECH')],
  ['L', edit('IL')],
  ['M', edit('DL')],
  ['S', edit('SU')],
  ['T', edit('SD')],
  [
    'J',
    {
      name: 'ED',
      profiles: SCREEN,
      parameters: { oneOf: [0, 1, 2] },
      isJoining: false,
      why: 'erases the screen; not 3, the scrollback, which is the operator’s',
    },
  ],
  [
    'b',
    {
      name: 'REP',
      profiles: BOTH,
      parameters: 'kept',
      isJoining: true,
      why: 'is written out, so that a secret with equal letters in a row is found',
    },
  ],
  ['r', { name: 'DECSTBM', profiles: SCREEN, parameters: 'kept', isJoining: false, why: 'scroll region; undone at the end' }],
  ['h', { name: 'SM', profiles: SCREEN, parameters: 'modes', isJoining: false, why: 'insert and newline mode; undone at the end' }],
  ['l', { name: 'RM', profiles: SCREEN, parameters: 'modes', isJoining: false, why: 'the same' }],
  ['?h', { name: 'DECSET', profiles: SCREEN, parameters: 'modes', isJoining: false, why: 'modes of the table; undone at the end' }],
  ['?l', { name: 'DECRST', profiles: SCREEN, parameters: 'modes', isJoining: false, why: 'the same' }],
  [' q', { name: 'DECSCUSR', profiles: SCREEN, parameters: 'kept', isJoining: true, why: 'shape of the cursor; undone at the end' }],
  ['>u', { name: 'kitty push', profiles: SCREEN, parameters: 'kept', isJoining: false, why: 'how keys are told apart; popped at the end' }],
  ['<u', { name: 'kitty pop', profiles: SCREEN, parameters: 'kept', isJoining: false, why: 'no more than was pushed' }],
  ['=u', { name: 'kitty set', profiles: SCREEN, parameters: 'kept', isJoining: false, why: 'changes what was pushed, so it is popped' }],
  ['>m', { name: 'XTMODKEYS', profiles: SCREEN, parameters: 'kept', isJoining: false, why: 'modifyOtherKeys; undone at the end' }],
  [
    'n',
    {
      name: 'DSR 6',
      profiles: SCREEN,
      parameters: 'kept',
      isJoining: false,
      why: 'where the cursor is: the answer is two numbers, goes to the program that asked, and is waited for when the terminal is given back',
    },
  ],
  [
    'c',
    {
      name: 'DA1',
      profiles: SCREEN,
      parameters: 'kept',
      isJoining: false,
      why: 'answered in the terminal’s place, always the same: programs wait for it before they draw',
    },
  ],
])

/** What DA1 is answered with: a VT220 with colours. What a terminal adds of its own is not asked. */
export const DEVICE_ATTRIBUTES = '\x1b[?62;22c'

export type Mode = { readonly name: string; /** As terminals have it at first. */ readonly isSet: boolean; readonly isJoining: boolean }

/** Of SM and RM (ECMA-48 §7). */
export const MODES: ReadonlyMap<number, Mode> = new Map([
  [4, { name: 'insert', isSet: false, isJoining: false }],
  [20, { name: 'newline', isSet: false, isJoining: false }],
])

/** Of DECSET and DECRST. Those that make a terminal send something are never joining. */
export const SCREEN_MODES: ReadonlyMap<number, Mode> = new Map([
  [1, { name: 'cursor keys', isSet: false, isJoining: true }],
  [5, { name: 'reverse video', isSet: false, isJoining: true }],
  [6, { name: 'origin', isSet: false, isJoining: false }],
  [7, { name: 'wraparound', isSet: true, isJoining: true }],
  [9, { name: 'mouse: X10', isSet: false, isJoining: false }],
  [12, { name: 'blinking cursor', isSet: false, isJoining: true }],
  [25, { name: 'cursor shown', isSet: true, isJoining: true }],
  [66, { name: 'application keypad', isSet: false, isJoining: true }],
  [1000, { name: 'mouse: buttons', isSet: false, isJoining: false }],
  [1002, { name: 'mouse: dragging', isSet: false, isJoining: false }],
  [1003, { name: 'mouse: all motion', isSet: false, isJoining: false }],
  [1004, { name: 'focus', isSet: false, isJoining: false }],
  [1005, { name: 'mouse: UTF-8', isSet: false, isJoining: false }],
  [1006, { name: 'mouse: SGR', isSet: false, isJoining: false }],
  [1015, { name: 'mouse: urxvt', isSet: false, isJoining: false }],
  [1016, { name: 'mouse: pixels', isSet: false, isJoining: false }],
  [2004, { name: 'bracketed paste', isSet: false, isJoining: false }],
  [2026, { name: 'synchronized output', isSet: false, isJoining: true }],
])

/** Modes that lead to the alternate screen and back; 1048 saves the cursor alone. */
export const ALTERNATE_SCREENS: readonly number[] = [47, 1047, 1049]
export const SAVE_CURSOR = 1048

/** Escape sequences (ECMA-48 §5.3) behind ESC. */
export const ESCAPE_SEQUENCES: ReadonlyMap<string, Omit<Rule, 'parameters'>> = new Map([
  ['7', { name: 'DECSC', profiles: SCREEN, isJoining: true, why: 'saves the cursor' }],
  ['8', { name: 'DECRC', profiles: SCREEN, isJoining: false, why: 'moves the cursor' }],
  ['D', { name: 'IND', profiles: SCREEN, isJoining: false, why: 'moves the cursor' }],
  ['E', { name: 'NEL', profiles: SCREEN, isJoining: false, why: 'moves the cursor' }],
  ['M', { name: 'RI', profiles: SCREEN, isJoining: false, why: 'moves the cursor' }],
  ['=', { name: 'DECKPAM', profiles: SCREEN, isJoining: true, why: 'keypad; undone at the end' }],
  ['>', { name: 'DECKPNM', profiles: SCREEN, isJoining: true, why: 'keypad' }],
  ['(0', { name: 'SCS G0 lines', profiles: SCREEN, isJoining: true, why: 'line drawing; undone at the end' }],
  ['(A', { name: 'SCS G0 UK', profiles: SCREEN, isJoining: true, why: 'undone at the end' }],
  ['(B', { name: 'SCS G0 ASCII', profiles: BOTH, isJoining: true, why: 'is in sgr0 of many terminals' }],
  [')0', { name: 'SCS G1 lines', profiles: SCREEN, isJoining: true, why: 'line drawing; undone at the end' }],
  [')A', { name: 'SCS G1 UK', profiles: SCREEN, isJoining: true, why: 'undone at the end' }],
  [')B', { name: 'SCS G1 ASCII', profiles: SCREEN, isJoining: true, why: 'undone at the end' }],
])

/** What begins a control string (ECMA-48 §5.6), and `ESC k`, the title in screen and tmux. All of them are removed, to their end. */
export const STRING_INTRODUCERS = new Set(['P', 'X', ']', '^', '_', 'k'])
/** Of these BEL is an end too (xterm). */
export const STRINGS_TO_BELL = new Set([']', 'k'])

/** C0 that is text: BEL, BS, HT, LF, VT, FF, CR. The others are removed: ENQ makes a terminal answer, XON and XOFF stop printers. */
export const TEXT_CONTROLS: readonly number[] = [0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d]
/** SO and SI: G1 and back. In `screen` only. */
export const SHIFTS: readonly number[] = [0x0e, 0x0f]

/** What is not in the tables above, by name: an example of each, and what it could do. */
export const REMOVED: readonly { readonly name: string; readonly example: string; readonly why: string }[] = [
  { name: 'OSC 52', example: '\x1b]52;c;ZWNobyBoaQ==\x07', why: 'writes the operator’s clipboard, or has it typed' },
  {
    name: 'OSC 0, 1, 2',
    example: '\x1b]2;root@host: ~\x07',
    why: 'a title that pretends to be another window; read back, it is typed (CVE-2003-0063)',
  },
  { name: 'ESC k', example: '\x1bktitle\x1b\\', why: 'the same in screen and tmux' },
  { name: 'OSC 7', example: '\x1b]7;file:///etc\x1b\\', why: 'tells the terminal where new windows begin' },
  { name: 'OSC 8', example: '\x1b]8;;https://evil.test\x1b\\', why: 'a link that looks like another; its text stays' },
  { name: 'OSC 9, 99, 777', example: '\x1b]777;notify;a;b\x07', why: 'notifications of the desktop that nobody can tell from others' },
  {
    name: 'OSC 4, 10 to 19, 104 to 119',
    example: '\x1b]11;?\x07',
    why: 'colours asked are typed; colours set can hide text and outlast the program',
  },
  { name: 'OSC 50, 60', example: '\x1b]50;?\x07', why: 'fonts and feature lists asked are typed (CVE-2022-45063)' },
  { name: 'OSC 133, 633', example: '\x1b]633;E;id\x07', why: 'marks of a shell: what the terminal takes for a prompt or a command' },
  { name: 'OSC 1337', example: '\x1b]1337;File=inline=0:aGk=\x07', why: 'files into the operator’s downloads, clipboard, profile' },
  { name: 'OSC P, R', example: '\x1b]P0ff0000\x1b\\', why: 'the palette of the Linux console, which nothing puts back' },
  { name: 'DCS', example: '\x1bP1$r0m\x1b\\', why: 'no string to the device is passed' },
  { name: 'DECRQSS', example: '\x1bP$q"p\x1b\\', why: 'is answered with what was asked (CVE-2008-2383)' },
  { name: 'XTGETTCAP', example: '\x1bP+q544e\x1b\\', why: 'is typed' },
  { name: 'DECUDK', example: '\x1bP0;1|17/6964\x1b\\', why: 'has function keys type commands' },
  { name: 'DECDLD', example: '\x1bP0;1{ @A/B\x1b\\', why: 'soft fonts: letters that look like others' },
  { name: 'sixel, ReGIS', example: '\x1bPq#0;2;0;0;0~\x1b\\', why: 'pictures: parsers with a history, and drawings over what is there' },
  { name: 'tmux passthrough', example: '\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\', why: 'hands the rest to the terminal around tmux' },
  { name: 'APC', example: '\x1b_Ga=T,f=100,t=f;L2V0Yy9wYXNzd2Q=\x1b\\', why: 'kitty graphics read files of the operator' },
  { name: 'PM, SOS', example: '\x1b^x\x1b\\\x1bXy\x1b\\', why: 'no terminal needs them' },
  { name: 'DA2, DA3, DECID', example: '\x1b[>c\x1b[=c\x1bZ', why: 'is typed' },
  { name: 'XTVERSION', example: '\x1b[>q', why: 'is typed, and tells which terminal it is' },
  { name: 'DSR but 6', example: '\x1b[5n\x1b[?6n\x1b[?15n\x1b[?996n', why: 'is typed' },
  { name: 'DECREQTPARM', example: '\x1b[x', why: 'is typed' },
  { name: 'DECRQM', example: '\x1b[?2026$p\x1b[4$p', why: 'is typed' },
  { name: 'DECRQCRA', example: '\x1b[1;1;1;1;1;1*y', why: 'is typed, and tells what stands on the screen' },
  { name: 'DECRQPSR, DECRQDE', example: '\x1b[1$w\x1b["v', why: 'is typed' },
  { name: 'XTQMODKEYS, kitty query', example: '\x1b[?4m\x1b[?u', why: 'is typed; without an answer programs take the usual keys' },
  { name: 'XTSMGRAPHICS', example: '\x1b[?1;1S', why: 'is typed' },
  { name: 'window manipulation', example: '\x1b[21t\x1b[3;0;0t\x1b[8;1;1t', why: 'reads titles back, moves, resizes and hides the window' },
  { name: 'MC', example: '\x1b[5i\x1b[?5i', why: 'prints, or sends all that follows to a printer' },
  { name: 'DECLL, DECSCA and others', example: '\x1b[1q\x1b[1"q', why: 'is used by nothing that runs in a session' },
  { name: 'ED 3', example: '\x1b[3J', why: 'erases the operator’s scrollback' },
  { name: 'RIS, DECSTR, DECALN', example: '\x1bc\x1b[!p\x1b#8', why: 'resets what the operator had set, erases the scrollback' },
  { name: 'TBC, HTS', example: '\x1b[3g\x1bH', why: 'nothing puts tabulators back' },
  {
    name: 'S8C1T, charset switch',
    example: '\x1b G\x1b%@\x1b%G',
    why: 'C1 controls in eight bits: letters of UTF-8 would become controls',
  },
  { name: 'LS2, LS3, LS1R, SS2, SS3', example: '\x1bn\x1bo\x1b|\x1b}\x1b~\x1bN\x1bO', why: 'letters that look like others' },
  { name: 'SCS of other sets', example: '\x1b(K\x1b*0\x1b+B\x1b-A', why: 'the same' },
  {
    name: 'DECCOLM and modes not in the table',
    example: '\x1b[?3h\x1b[?40h\x1b[?69h\x1b[?1001h\x1b[?2031h\x1b[?2048h\x1b[?5522h',
    why: 'resizes, reports, margins, waits for an answer',
  },
  { name: 'XTSAVE, XTRESTORE', example: '\x1b[?1049s\x1b[?1049r', why: 'modes that are not kept account of' },
  { name: 'rectangles, macros', example: '\x1b[1;1;9;9;1;1;1;1$v\x1b[1*z', why: 'copies what stands on the screen; runs what was stored' },
  { name: 'hilite mouse tracking', example: '\x1b[1;1;1;1;1T', why: 'stops the terminal until it is answered' },
  { name: 'ENQ', example: '\x05', why: 'answerback: typed' },
  {
    name: 'C1 as UTF-8',
    example: '\u009b21t\u009d52;c;aGk=\u0007\u0085\u0090$q"p\u009c',
    why: 'xterm takes them for controls: U+FFFD instead',
  },
  { name: 'C1 in eight bits', example: Buffer.from([0x9b, 0x32, 0x31, 0x74]).toString('latin1'), why: 'not valid UTF-8: U+FFFD instead' },
]
