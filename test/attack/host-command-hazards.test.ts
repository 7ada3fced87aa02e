import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { TABLES } from '../../src/command/hazards/hazards.ts'
import type { HazardRow, ProgramTable } from '../../src/command/hazards/table.ts'
import { programClass } from '../../src/wire/programs.ts'
import { commandPolicy, decided, open } from '../support/host-commands.ts'

/** What a form that only shows something looks like, as words. */
function plainForm({ names, readOnly }: ProgramTable): string[] | undefined {
  const [form] = readOnly
  if (form === undefined || names[0] === undefined) return undefined
  const words = form === '*' ? ['x'] : form.startsWith('-') ? [form] : form.split('/').map((word) => word.replace('*', 'x'))
  // A script of sed, and what psql starts with, are hazards without these.
  const needed = { sed: ['--sandbox'], psql: [] }[names[0]] ?? []
  return [names[0], ...needed, ...words]
}

/** A value or operand that each row's expression is about. */
const EXAMPLES = [
  '@f',
  '/f',
  'host:f',
  'file:///f',
  'https://x/',
  'ext::id',
  'A=x',
  '+nightly',
  '-file=x',
  'secrets',
  'output{f}',
  '\\! id',
  'drop table x',
  '$ENV',
  'load(x)',
  'x\\!',
  '2755',
  'e',
  '{a}',
  'http://x',
  'sslkey=x',
  '../x',
  'other',
]

function exampleOf(row: HazardRow, table: ProgramTable, token: string): string[] {
  const [name = ''] = table.names
  const expression = row.value ?? row.operand
  const example = expression === undefined ? 'x' : EXAMPLES.find((text) => expression.test(text))
  assert.notEqual(example, undefined, `no example for ${String(expression)} of ${name}`)
  const scope = row.on?.[0] === undefined || row.on[0] === '@globals' ? [] : row.on[0].split('/')
  if (token === '') return [name, ...scope, ...Array.from({ length: Math.max(1, row.operandsMin ?? 1) }, () => example ?? 'x')]
  if (!token.startsWith('-')) return [name, ...token.split('/')]
  return row.on?.[0] === '@globals' ? [name, token, example ?? 'x', 'x'] : [name, ...scope, token, example ?? 'x']
}

for (const table of TABLES) {
  const [name = ''] = table.names
  const isAllowable = programClass(name) === undefined
  const policy = isAllowable ? commandPolicy({ allow: [{ ...open(name), workspace_code: 'accept' }] }) : commandPolicy({})
  const plain = plainForm(table)
  if (plain !== undefined && isAllowable)
    test(`${plain.join(' ')} stays allowed: it only shows something`, async () => {
      const { action, why } = await decided(policy, plain)
      assert.equal(action, 'allow', why)
    })
  for (const row of table.rows)
    for (const token of row.tokens.length === 0 ? [''] : row.tokens) {
      const argv = exampleOf(row, table, token)
      test(`${argv.join(' ')} makes a question of an allowance (${row.letter}: ${row.why})`, async () => {
        const { action, facts } = await decided(policy, argv)
        assert.notEqual(action, 'allow')
        assert.ok(
          facts.hazards.some(({ why, letter }) => letter === row.letter && why.endsWith(row.why)),
          JSON.stringify(facts.hazards),
        )
        if (!token.startsWith('--') || table.style === 'exact' || token.length < 6) return
        // By a beginning of its name, and with its value in the same word: getopt_long takes both.
        for (const spelled of [token.slice(0, -1), `${token}=x`]) {
          const other = argv.map((word) => (word === token ? spelled : word))
          if (row.value === undefined || !spelled.includes('='))
            assert.notEqual((await decided(policy, other)).action, 'allow', other.join(' '))
        }
      })
    }
}

/** Programs of this machine that do what the tables say they do: the mark is there after them. */
const TRIED: readonly { readonly argv: readonly string[]; readonly mark: string }[] = [
  { argv: ['sort', '-S', '1b', '--compress-prog=./mark.sh', 'many.txt'], mark: 'mark' },
  { argv: ['sort', '--outp=mark', 'a.txt'], mark: 'mark' },
  { argv: ['find', '.', '-name', 'a.txt', '-exec', 'touch', 'mark', ';'], mark: 'mark' },
  { argv: ['find', '.', '-fprint', 'mark'], mark: 'mark' },
  { argv: ['tar', 'cf', 'x.tar', 'a.txt', '--checkpoint=1', '--checkpoint-act=exec=touch mark'], mark: 'mark' },
  { argv: ['tar', '-cf', 'x.tar', '-I./mark.sh', 'a.txt'], mark: 'mark' },
  { argv: ['sed', '1e touch mark', 'a.txt'], mark: 'mark' },
  { argv: ['sed', '1w mark', 'a.txt'], mark: 'mark' },
  { argv: ['uniq', 'a.txt', 'mark'], mark: 'mark' },
  { argv: ['split', '--filter=touch mark', 'a.txt'], mark: 'mark' },
  { argv: ['git', '-c', 'alias.x=!touch mark', 'x'], mark: 'mark' },
  { argv: ['git', 'ls-remote', '--upload-pack=touch mark;', '.'], mark: 'mark' },
]

for (const { argv, mark } of TRIED)
  test(`the program of this machine does it, and it is asked about: ${argv.join(' ')}`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'sallyport-commands-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    writeFileSync(join(folder, 'a.txt'), 'a\nb\n')
    writeFileSync(join(folder, 'many.txt'), Array.from({ length: 200 }, (_, index) => `${(index * 7_919) % 200} line\n`).join(''))
    writeFileSync(join(folder, 'mark.sh'), '#!/bin/sh\ntouch mark\ncat\n', { mode: 0o755 })
    execFileSync('git', ['init', '-q'], { cwd: folder })
    const [program = '', ...given] = argv
    try {
      execFileSync(program, given, { cwd: folder, stdio: 'ignore', timeout: 20_000 })
    } catch {
      // Some of them fail after they have done it.
    }
    assert.equal(existsSync(join(folder, mark)), true, 'the fact of the table')
    const { action } = await decided(commandPolicy({ allow: [open(program)] }), argv)
    assert.equal(action, 'ask')
  })
