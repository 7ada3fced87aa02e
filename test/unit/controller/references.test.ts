import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { checkReferences, substituteReferences } from '../../../src/controller/providers/providers.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { Secret } from '../../../src/kernel/secret.ts'

const KNOWN = ['GITHUB_TOKEN', 'DB']
const get = (key: string): Promise<Secret> => Promise.resolve(new Secret(key, `value-of-${key}`))

for (const { text, message } of [
  { text: 'a ${secret:GITHUB_TOKN} b', message: /there is no secret "GITHUB_TOKN": did you mean "GITHUB_TOKEN"\?/ },
  { text: '${secret:UNRELATED_NAME}', message: /there is no secret "UNRELATED_NAME": store it with "sallyport secret set"/ },
  { text: '${secret:DB', message: /is not closed/ },
  { text: '${secret:DB\n}', message: /is not closed/ },
  { text: '${secret:}', message: /has no key/ },
  { text: '${secret: DB}', message: /has no key/ },
  { text: '${secret:${secret:DB}', message: /has no key/ },
]) {
  test(`${JSON.stringify(text)} is a problem when it is saved`, () => {
    const problems = checkReferences(text, KNOWN)
    assert.match(problems.map((problem) => problem.message).join('\n'), message)
    assert.equal(problems.length, 1)
  })
}

for (const text of ['', 'no reference', '$secret:DB', '${DB}', '{secret:DB}', '${secret:DB}${secret:GITHUB_TOKEN}']) {
  test(`${JSON.stringify(text)} is no problem`, () => assert.deepEqual(checkReferences(text, KNOWN), []))
}

test('a problem has its line and column', () => {
  assert.deepEqual(
    checkReferences('a: ${secret:DB}\nb: x ${secret:A1} ${secret:B2}\n', KNOWN).map(({ line, column }) => [line, column]),
    [
      [2, 6],
      [2, 19],
    ],
  )
})

test('a value that was pasted in the place of its key is not printed', () => {
  assert.doesNotMatch(JSON.stringify(checkReferences('${secret:p4ss word/with=signs}', KNOWN)), /p4ss/)
})

test('every reference gets its value, each key is asked for once, and the whole prints as a secret', async () => {
  const asked: string[] = []
  const filled = await substituteReferences('postgres://u:${secret:DB}@db/x?a=${secret:DB}&b=${secret:GITHUB_TOKEN}', (key) => {
    asked.push(key)
    return get(key)
  })
  assert.equal(filled.reveal(), 'postgres://u:value-of-DB@db/x?a=value-of-DB&b=value-of-GITHUB_TOKEN')
  assert.deepEqual(asked, ['DB', 'GITHUB_TOKEN'])
  assert.doesNotMatch(`${String(filled)}${JSON.stringify(filled)}${inspect(filled)}`, /value-of/)
})

test('a value that looks like a reference, or like a pattern of replacement, goes in as it is', async () => {
  for (const value of ['${secret:GITHUB_TOKEN}', '$&$1$`', '\\$&']) {
    const filled = await substituteReferences('<${secret:DB}>', () => Promise.resolve(new Secret('DB', value)))
    assert.equal(filled.reveal(), `<${value}>`)
  }
})

test('where one value cannot be had there is no text at all', async () => {
  const failing = (key: string): Promise<Secret> =>
    key === 'DB' ? get(key) : Promise.reject(new SallyportError('secret_missing', `secret ${key}`))
  await assert.rejects(
    substituteReferences('${secret:DB} ${secret:GITHUB_TOKEN}', failing),
    (error: Error) => !inspect(error, { depth: 9 }).includes('value-of'),
  )
})

test('a text that would not pass the check is not filled in', async () => {
  for (const text of ['${secret:DB', '${secret:}', '${secret:a b}']) await assert.rejects(substituteReferences(text, get), TypeError)
})
