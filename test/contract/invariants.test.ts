import assert from 'node:assert/strict'
import { test } from 'node:test'
import { projectFiles, readProject } from '../support/tree.ts'

const DOCUMENT = readProject('docs/INVARIANTS.md')
const INVARIANTS = [...DOCUMENT.matchAll(/^- \*\*(I\d+)\*\* (.+)$/gm)].map(([, id = '', sentence = '']) => ({ id, sentence }))
const KNOWN = new Set(INVARIANTS.map(({ id }) => id))
const FILES = projectFiles()

/** What keeps an invariant: the sources, and what makes the containers. */
const KEEPERS = FILES.filter((file) => /^(src|docker)\//.test(file) || file === 'compose.yaml' || file === 'Dockerfile')
const TESTS = FILES.filter((file) => /^test\/.*\.test\.ts$/.test(file))

/** Ids in comments: `// I3`, `I3:` in a block comment, `# I12` in YAML or a shell script. */
function citedIn(file: string): string[] {
  const comments = readProject(file).match(/\/\/.*$|\/\*[^]*?\*\/|(?:^|\s)#.*$/gm) ?? []
  return comments.flatMap((comment) => comment.match(/\bI\d+\b/g) ?? [])
}

/** Ids at the beginning of test titles, and in the comment that heads a file. */
function triedIn(file: string): string[] {
  const titles = [...readProject(file).matchAll(/\btest\(\s*[`'"](I\d+(?:,? (?:and )?I\d+)*)\b/g)].map((match) => match[1] ?? '')
  return titles.flatMap((title) => title.match(/I\d+/g) ?? [])
}

test('docs/INVARIANTS.md numbers its invariants from I1 without a gap, each in one sentence', () => {
  assert.deepEqual(
    INVARIANTS.map(({ id }) => id),
    INVARIANTS.map((_, i) => `I${i + 1}`),
  )
  assert.ok(INVARIANTS.length >= 10)
  for (const { sentence } of INVARIANTS) assert.match(sentence, /\.$/)
})

for (const { id } of INVARIANTS) {
  test(`${id} is cited where it is kept, and tried by a test that says so in its title`, () => {
    assert.notDeepEqual(
      KEEPERS.filter((file) => citedIn(file).includes(id)),
      [],
      `no comment of src, docker, compose.yaml or Dockerfile cites ${id}`,
    )
    assert.notDeepEqual(
      TESTS.filter((file) => triedIn(file).includes(id)),
      [],
      `no test title begins with ${id}`,
    )
  })
}

test('every invariant that is cited, in code, tests or documents, exists', () => {
  for (const file of [...KEEPERS, ...TESTS]) {
    for (const id of [...citedIn(file), ...triedIn(file)]) assert.ok(KNOWN.has(id), `${file} cites ${id}`)
  }
  for (const file of FILES.filter((name) => name.endsWith('.md') && name !== 'docs/INVARIANTS.md')) {
    for (const id of readProject(file).match(/\bI\d+\b/g) ?? []) assert.ok(KNOWN.has(id), `${file} cites ${id}`)
  }
})
