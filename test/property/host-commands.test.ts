import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'
import { quoteWords, readWords } from '../../src/kernel/words.ts'
import { matchExactly, matchLoosely } from '../../src/policy/host-commands/match.ts'
import { exactPattern, readPattern, type Token } from '../../src/policy/host-commands/tokens.ts'
import { commandPolicy, decided } from '../support/host-commands.ts'

const word = fc
  .oneof(
    fc.string({ unit: 'grapheme', maxLength: 12 }),
    fc.constantFrom('*', '**', '<int>', '-rf', '--x=y', "a'b", 'a b', '', '~', '#x', '$x', ';', '{a}', '\\', '"'),
  )
  .filter((text) => !/[\0\r\n]/.test(text))
const program = fc.constantFrom('git', 'gh', '/usr/bin/git', 'a b')
const argv = fc.tuple(program, fc.array(word, { maxLength: 6 })).map(([first, rest]) => [first, ...rest])

function tokensOf(pattern: string): readonly Token[] {
  const read = readPattern(pattern)
  assert.notEqual(typeof read, 'string', String(read))
  return read as readonly Token[]
}

test('the words of a command are the words of its quoted line', () => {
  fc.assert(
    fc.property(argv, (words) => {
      const read = readWords(quoteWords(words))
      assert.notEqual(typeof read, 'string')
      assert.deepEqual(typeof read === 'string' ? read : read.map(({ text }) => text), words)
    }),
  )
})

test('what is read as words is what a shell would make of the line', () => {
  const piece = fc.constantFrom('a', 'b', ' ', "'", '"', '\\', 'x=', '-', '/', '%', 'é', '^', '~', '#', '!', ':', '\t', '@')
  const lines = fc.sample(
    fc.array(piece, { maxLength: 14 }).map((parts) => `p ${parts.join('')}`),
    { numRuns: 400, seed: 7 },
  )
  const read = lines.map((line) => ({ line, words: readWords(line) })).filter(({ words }) => typeof words !== 'string')
  assert.ok(read.length > 50, `${read.length} of them are words`)
  const script = read.map(({ line }) => `${line}; echo`).join('\n')
  const out = execFileSync('sh', ['-c', `p() { for x in "$@"; do printf '<%s>' "$x"; done; }\n${script}`], {
    encoding: 'utf8',
    env: { HOME: '/nowhere', LC_ALL: 'C.UTF-8' },
  })
  const printed = out.split('\n')
  for (const [index, { line, words }] of read.entries())
    assert.equal(
      printed[index],
      typeof words === 'string'
        ? ''
        : words
            .slice(1)
            .map(({ text }) => `<${text}>`)
            .join(''),
      JSON.stringify(line),
    )
})

test('the exact pattern of a command matches it and no other', () => {
  fc.assert(
    fc.property(argv, argv, (one, other) => {
      const tokens = tokensOf(exactPattern(one))
      assert.equal(matchExactly(tokens, one).isMatch, true)
      assert.equal(matchExactly(tokens, other).isMatch, one.length === other.length && one.every((text, index) => text === other[index]))
      assert.equal(matchExactly(tokens, [...one, 'more']).isMatch, false)
    }),
  )
})

const tokenText = fc.constantFrom('a', 'b', '-x', '--long', '*', '<int>', '<sha>', '<name>', '<relpath>')
const pattern = fc
  .tuple(fc.array(tokenText, { maxLength: 4 }), fc.boolean())
  .map(([tokens, isOpen]) => ['git', ...tokens, ...(isOpen ? ['**'] : [])].join(' '))
const given = fc
  .array(fc.constantFrom('a', 'b', '-x', '--long', '--lo', '-xy', '12', '0123abc', '../x', 'x/y'), { maxLength: 6 })
  .map((rest) => ['git', ...rest])

test('a denial is about all that an allowance of the same words is about', () => {
  fc.assert(
    fc.property(pattern, given, (text, words) => {
      const tokens = tokensOf(text)
      if (matchExactly(tokens, words).isMatch) assert.equal(matchLoosely(tokens, words), true)
    }),
    { numRuns: 2_000 },
  )
})

test('no argument that begins with a dash, and none that leaves its folder, is one of a slot or of *', () => {
  fc.assert(
    fc.property(fc.constantFrom('*', '<int>', '<sha>', '<name>', '<relpath>'), fc.string({ unit: 'grapheme' }), (slot, text) => {
      const tokens = tokensOf(`git ${slot}`)
      assert.equal(matchExactly(tokens, ['git', `-${text}`]).isMatch, false)
      if (slot !== '*')
        for (const path of [`../${text}`, `/${text}`, `a/../${text}`]) assert.equal(matchExactly(tokens, ['git', path]).isMatch, false)
    }),
  )
})

test('more rules that deny or ask never make a decision wider, and no line for a shell is ever allowed', async () => {
  const strictness = { allow: 0, ask: 1, deny: 2, disabled: 3 }
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(pattern, { maxLength: 3 }),
      fc.uniqueArray(pattern, { maxLength: 2 }),
      given,
      fc.constantFrom('', ' ; id', ' | sh', ' $(id)'),
      async (allowed, denied, words, tail) => {
        const allow = allowed.map((text) => ({ pattern: text, ...(text.endsWith('**') && { open_tail: 'accept' }) }))
        const own = [{ file: 'own.yaml', text: JSON.stringify({ version: 1, host_commands: { deny: denied, ask: denied } }) }]
        const before = await decided(commandPolicy({ allow }), words)
        const after = await decided(commandPolicy({ allow }, undefined, own), words)
        assert.ok(strictness[after.action] >= strictness[before.action])
        if (tail !== '') assert.notEqual((await decided(commandPolicy({ allow }), `${quoteWords(words)}${tail}`)).action, 'allow')
      },
    ),
    { numRuns: 150 },
  )
})

test('any text is described, or refused by its code, and a line for a shell has a risk', async () => {
  const piece = fc.constantFrom(
    'git',
    ' ',
    'log',
    ';',
    '|',
    '&',
    '$(',
    ')',
    '`',
    "'",
    '"',
    '\\',
    '\n',
    '{',
    '}',
    '<',
    '>',
    'if',
    'then',
    'fi',
    'x=1',
    '*',
    '~',
    '((',
    '))',
    '<<E',
    'é',
    '\u202e',
  )
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 20 }), async (parts) => {
      const line = parts.join('')
      if (line.trim() === '') return
      const { facts, action } = await decided(commandPolicy({ allow: ['git log'] }), line)
      assert.ok(facts.parts.length > 0)
      if (action === 'allow') assert.deepEqual(facts.argv, ['git', 'log'])
    }),
    { numRuns: 500 },
  )
})
