import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PRESETS, readPreset, SERVICES } from '../support/service-presets.ts'
import { servicesDocument } from '../support/services-document.ts'
import { readProject } from '../support/tree.ts'

test('docs/SERVICES.md is what the presets say (node test/support/services-document.ts writes it)', () => {
  assert.equal(readProject('docs/SERVICES.md'), servicesDocument())
})

test('docs/SERVICES.md has every service once and links every preset', () => {
  const document = readProject('docs/SERVICES.md')
  const rows = [...document.matchAll(/^\| ([a-z0-9-]+)(?: \(template\))? \|/gm)]
    .map((match) => match[1])
    .filter((name) => name !== 'service')
  assert.deepEqual(
    rows,
    SERVICES.map(({ service }) => service),
  )
  for (const name of PRESETS) assert.ok(document.includes(`(../policies/service/${name}.yaml)`), name)
})

for (const { service, read, write } of SERVICES.filter((entry) => entry.read !== undefined && entry.write !== undefined)) {
  test(`service/${service}-write holds service/${service} and says so`, () => {
    const text = readPreset(write ?? '')
    assert.match(text, new RegExp(`^extends: \\[service/${read}\\]$`, 'm'))
    assert.match(readPreset(read ?? ''), /^# .*(?:service\/[a-z-]+-write adds|template)/im)
  })
}

test('no two presets, nor a preset and a harness, have an id in common: each can be extended with any other', () => {
  const seen = new Map<string, string>()
  const files = PRESETS.map((name) => `policies/service/${name}.yaml`)
  for (const harness of ['claude', 'codex', 'copilot', 'cursor', 'gemini', 'opencode']) files.push(`policies/harness/${harness}.yaml`)
  for (const file of files) {
    const [rules = '', credentials = ''] = readProject(file)
      .replaceAll(/^ *#.*$/gm, '')
      .split(/^credentials:$/m)
    for (const [section, text] of [
      ['rule', rules],
      ['credential', credentials],
    ] as const) {
      for (const [, id = ''] of text.matchAll(/- \{?id: ([a-z0-9-]+)/g)) {
        const key = `${section} ${id}`
        assert.equal(seen.get(key), undefined, `${key} in ${file} and ${seen.get(key)}`)
        seen.set(key, file)
      }
    }
  }
  assert.ok(seen.size > 300)
})
