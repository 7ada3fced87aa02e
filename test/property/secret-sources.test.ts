import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { checkReferences, substituteReferences } from '../../src/controller/providers/providers.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { describeSource, parseSource } from '../../src/policy/policy.ts'
import { parseResource } from '../../src/policy/resources.ts'
import { SOURCE_KINDS } from '../../src/wire/secret-source.ts'

const piece = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.constantFrom(
    '/',
    '//',
    '..',
    '.',
    '-',
    '--',
    '#',
    '?version=2',
    '=',
    ',',
    '@',
    ' ',
    '"',
    '\\',
    '\n',
    '%2f',
    'a',
    'secret',
    'ITEM',
    '$(x)',
    '`',
  ),
)
const written = fc
  .tuple(fc.constantFrom(...SOURCE_KINDS), fc.array(piece, { maxLength: 8 }))
  .map(([kind, pieces]) => `${kind}:${pieces.join('')}`)

test('a source that is read is shown as it was written, and read the same again', () => {
  fc.assert(
    fc.property(written, (text) => {
      const source = parseSource(text)
      if (typeof source === 'string' || source.kind === 'exec') return
      assert.equal(describeSource(source), text)
      assert.deepEqual(parseSource(describeSource(source)), source)
    }),
    { numRuns: 5_000 },
  )
})

test('no part of a source that is read is an option, a quote, a line or a way out of its folder', () => {
  fc.assert(
    fc.property(written, (text) => {
      const source = parseSource(text)
      if (typeof source === 'string') return
      const words =
        source.kind === 'keychain'
          ? [source.service, source.account ?? 'none']
          : source.kind === 'libsecret'
            ? source.attributes.flat()
            : source.kind === 'pass' || source.kind === 'vault-http'
              ? source.path.split('/')
              : source.kind === 'op'
                ? [`op://${source.path}`]
                : []
      for (const word of words) assert.doesNotMatch(word, /^-|["'\\`$\n\r\0]|^$/)
      if (source.kind === 'pass' || source.kind === 'vault-http') assert.doesNotMatch(`/${source.path}/`, /\/\.{0,2}\//)
    }),
    { numRuns: 5_000 },
  )
})

test('no text makes the parsers of sources, resources and references throw', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
      parseSource(text)
      parseResource(text)
      checkReferences(`\${secret:${text}`, [])
    }),
    { numRuns: 3_000 },
  )
})

const key = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_.-]{0,10}$/)
/** What has no beginning of a reference in it. */
const plain = fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => !text.includes('$'))

test('of any text the references alone are replaced, each by its value', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(plain, key), { maxLength: 6 }), plain, fc.string({ maxLength: 20 }), async (parts, end, value) => {
      const text = parts.map(([before, name]) => `${before}\${secret:${name}}`).join('') + end
      assert.deepEqual(
        checkReferences(
          text,
          parts.map(([, name]) => name),
        ),
        [],
      )
      const filled = await substituteReferences(text, (name) => Promise.resolve(new Secret(name, `${name}=${value}`)))
      assert.equal(filled.reveal(), parts.map(([before, name]) => `${before}${name}=${value}`).join('') + end)
    }),
  )
})

test('a text passes the check exactly where it can be filled in', async () => {
  const messy = fc
    .array(fc.constantFrom('${secret:', '}', 'KEY', '$', '{', '\n', ' ', 'x'), { maxLength: 12 })
    .map((parts) => parts.join(''))
  await fc.assert(
    fc.asyncProperty(messy, async (text) => {
      const isRight = checkReferences(text, ['KEY', 'x', 'KEYx', 'xKEY', 'KEYKEY', 'xx']).every(({ message }) =>
        message.startsWith('there is no secret'),
      )
      const isFilled = await substituteReferences(text, (name) => Promise.resolve(new Secret(name, 'value'))).then(
        () => true,
        () => false,
      )
      assert.equal(isFilled, isRight)
    }),
    { numRuns: 2_000 },
  )
})
