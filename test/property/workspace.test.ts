import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { readGitSettings } from '../../src/controller/sessions/git-settings.ts'
import { isHidden, readHidePatterns } from '../../src/controller/sessions/hide-patterns.ts'
import { pathText } from '../../src/controller/sessions/workspace-survey.ts'

const NAME = fc.string({ unit: fc.constantFrom('a', 'b', '.', 'é', '-'), minLength: 1, maxLength: 4 }).filter((name) => !/^\.+$/.test(name))
const GLOB = fc
  .array(fc.constantFrom('a', 'b', '.', '*', '?', 'é'), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join('').replace(/\*+/g, '*'))
  .filter((glob) => !/^\.+$/.test(glob))
const PATTERN = fc
  .array(fc.oneof(GLOB, fc.constant('**')), { minLength: 2, maxLength: 4 })
  .filter((parts) => parts.some((part) => part !== '**') && parts.at(-1) !== '**')
const PATH = fc.array(NAME, { minLength: 1, maxLength: 4 })

/** The same by a regular expression, which a policy could make exponential. */
function expression(segments: readonly string[]): RegExp {
  const one = (glob: string) => glob.replace(/[.*?]/g, (char) => ({ '.': '\\.', '*': '[^/]*', '?': '[^/]' })[char] ?? char)
  const body = segments.map((segment, index) =>
    segment === '**' ? '(?:[^/]+/)*' : `${one(segment)}${index === segments.length - 1 ? '' : '/'}`,
  )
  return new RegExp(`^${body.join('')}$`, 'u')
}

test('filesystem.hide matches as a regular expression of the same meaning does', () => {
  fc.assert(
    fc.property(PATTERN, PATH, (pattern, path) => {
      const segments = pattern.map((part) => part.normalize('NFC'))
      assert.equal(isHidden(readHidePatterns([pattern.join('/')]), path, 'file', false), expression(segments).test(path.join('/')))
    }),
    { numRuns: 2_000 },
  )
})

test('a pattern without a slash holds in every folder, and one for folders for no file', () => {
  fc.assert(
    fc.property(PATH, NAME, (folders, name) => {
      assert.equal(isHidden(readHidePatterns([name]), [...folders, name], 'file', false), true)
      assert.equal(isHidden(readHidePatterns([`${name}/**`]), [name], 'folder', false), true)
      assert.equal(isHidden(readHidePatterns([`${name}/**`]), [name], 'file', false), false)
      assert.equal(isHidden(readHidePatterns([name.toLowerCase()]), [name.toUpperCase()], 'file', true), true)
    }),
  )
})

test('no pattern takes long, whatever its stars', () => {
  const pattern = readHidePatterns([`${'*a'.repeat(200)}b`, `${'**/a/'.repeat(80)}b`])
  assert.equal(
    isHidden(
      pattern,
      Array.from({ length: 200 }, () => 'a'.repeat(250)),
      'file',
      false,
    ),
    false,
  )
})

test('each path is another text', () => {
  const bytes = fc.uint8Array({ minLength: 1, maxLength: 6 }).map((list) => Buffer.from(list))
  fc.assert(
    fc.property(
      fc.oneof(
        bytes,
        fc.string().map((text) => Buffer.from(text)),
      ),
      fc.oneof(
        bytes,
        fc.string().map((text) => Buffer.from(text)),
      ),
      (one, other) => {
        assert.equal(pathText(one) === pathText(other), one.equals(other))
      },
    ),
    { numRuns: 5_000 },
  )
})

const PIECES = [
  '[core]',
  '[a "b"]',
  '[a "b\\"c\\\\"]',
  '[A.B]',
  '[a ',
  'name',
  'x1',
  '-y',
  '=',
  ' = ',
  '"',
  'value',
  '\\\n',
  '\\n',
  '\\t',
  '\\',
  '\n',
  '\r\n',
  ' ',
  '\t',
  '#',
  ';',
  '# note\n',
  ']',
  '"q # r"',
  'true',
  '\uFEFF',
  'é',
  '\u000b',
  '\u000c',
  '\r',
]

test('a git config is read as git reads it, and refused where git refuses it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-config-'))
  const file = join(folder, 'config')
  try {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...PIECES), { maxLength: 14 }), fc.boolean(), (pieces, isWhole) => {
        const text = isWhole ? `[s]\nk${pieces.join('')}\n` : pieces.join('')
        writeFileSync(file, text)
        assert.deepEqual(
          readGitSettings(text)?.map(({ key, value }) => `${key}\n${value}`),
          settingsOfGit(file),
          JSON.stringify(text),
        )
      }),
      { numRuns: 600 },
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
})

function settingsOfGit(file: string): string[] | undefined {
  try {
    const listed = execFileSync('git', ['config', '--file', file, '--list', '-z'], { encoding: 'utf8', stdio: 'pipe' })
    // A name alone has no value there, and is true.
    return listed
      .split('\0')
      .slice(0, -1)
      .map((line) => (line.includes('\n') ? line : `${line}\ntrue`))
  } catch {
    return undefined
  }
}
