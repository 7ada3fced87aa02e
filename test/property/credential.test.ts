import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  applyCredential,
  createPlaceholders,
  isListed,
  setInBody,
  swapInBody,
  swapInHead,
  type Head,
} from '../../src/credential/credential.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { parseShape, SHAPE_ALPHABETS } from '../../src/wire/placeholder-shape.ts'
import type { BodyPlace, SwapPlace } from '../../src/wire/credential.ts'
import { EVERYWHERE } from '../support/misplaced.ts'

const JSON_TYPE = 'application/json'
const FORM_TYPE = 'application/x-www-form-urlencoded'

/** What a secret may be: visible ASCII, with spaces inside. */
const secretText = fc.stringMatching(/^[!-~][ -~]{4,40}[!-~]$/)

/** The answer, or the code of the error. */
function outcome<T>(run: () => T): T | string {
  try {
    return run()
  } catch (error) {
    assert.ok(error instanceof SallyportError, String(error))
    return error.code
  }
}

const alphabet = fc.constantFrom(...(Object.keys(SHAPE_ALPHABETS) as (keyof typeof SHAPE_ALPHABETS)[]))
const shape = fc
  .array(
    fc.oneof(
      fc.stringMatching(/^[A-Za-z0-9._~:-]{1,8}$/).map((text) => ({ text, pattern: text.replaceAll('.', '\\.') })),
      fc.tuple(alphabet, fc.integer({ min: 1, max: 60 })).map(([name, count]) => ({
        text: `<${name}:${count}>`,
        pattern: `[${SHAPE_ALPHABETS[name].replace('-', '\\-')}]{${count}}`,
      })),
    ),
    { maxLength: 6 },
  )
  .map((parts) => ({
    text: parts.map(({ text }) => text).join(''),
    pattern: new RegExp(`^${parts.map(({ pattern }) => pattern).join('')}$`),
  }))

test('every value matches its shape, whatever the shape, and another seed or name gives another one', () => {
  fc.assert(
    fc.property(shape, fc.string(), fc.string(), ({ text, pattern }, seed, name) => {
      if (typeof parseShape(text) === 'string') return
      const valueOf = (from: string, called: string): string =>
        createPlaceholders([{ name: called, shape: text }], from).values[called] ?? ''
      const value = valueOf(seed, `N${name}`)
      assert.match(value, pattern)
      assert.equal(value, valueOf(seed, `N${name}`))
      assert.notEqual(value, valueOf(`${seed}x`, `N${name}`))
      assert.notEqual(value, valueOf(seed, `N${name}x`))
    }),
    { numRuns: 500 },
  )
})

test('a text is a shape or has a complaint, and never anything else', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.stringMatching(/^[<>:a-z0-9_]{0,40}$/),
        shape.map(({ text }) => text),
      ),
      (text) => {
        const parsed = parseShape(text)
        if (typeof parsed === 'string') return assert.notEqual(parsed, '')
        assert.equal(parsed.kind === 'jwt', text === 'jwt')
        const written =
          parsed.kind === 'jwt'
            ? 'jwt'
            : parsed.parts.map((part) => (typeof part === 'string' ? part : `<${part.alphabet}:${part.count}>`)).join('')
        assert.equal(written.replaceAll(/:0*(\d+)>/g, ':$1>'), text.replaceAll(/:0*(\d+)>/g, ':$1>'))
      },
    ),
  )
})

const NAMES = ['GH_TOKEN', 'BOT']
const PLACEHOLDERS = createPlaceholders(
  [
    { name: 'GH_TOKEN', shape: 'ghp_<alnum:36>' },
    { name: 'BOT', shape: '<digits:9>:<base64url:35>' },
  ],
  'seed',
)
const VALUES = NAMES.map((name) => PLACEHOLDERS.values[name] ?? '')

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const escaped = (text: string): string =>
  [...Buffer.from(text)].map((byte, i) => (i % 3 === 0 ? `%${byte.toString(16)}` : String.fromCharCode(byte))).join('')
/** What an agent may make of a value: mostly nothing. */
const spelling = fc
  .tuple(
    fc.oneof({ weight: 8, arbitrary: fc.constant('ordinary') }, { weight: 3, arbitrary: fc.constantFrom(...VALUES) }),
    fc.oneof(
      { weight: 9, arbitrary: fc.constant((plain: string): string => plain) },
      {
        weight: 2,
        arbitrary: fc.constantFrom<((plain: string) => string)[]>(
          escaped,
          (plain) => escaped(escaped(plain)),
          (plain) => plain.toUpperCase(),
          base64,
        ),
      },
    ),
  )
  .map(([value, spell]) => spell(value))
/** Basic credentials, in the ways that clients write them and servers take them. */
const basic = fc
  .tuple(fc.constantFrom('Basic ', 'basic \t', 'Basic'), spelling, fc.constantFrom('', 'u', ':'), fc.boolean())
  .map(([scheme, value, user, isPadded]) => {
    const token = base64(user === ':' ? `${value}:` : `${user}:${value}`)
    return `${scheme}${isPadded ? token : token.replace(/=+$/, '')}`
  })
const word = fc.stringMatching(/^[A-Za-z0-9 ;=%+,/&?_-]{0,6}$/)
const text = fc.tuple(word, spelling, word).map((parts) => parts.join(''))
const field = fc.oneof(
  fc.tuple(
    fc.constantFrom('Authorization', 'authorization', 'X-Api-Key', 'x_api_key', 'Cookie', 'Referer'),
    fc.tuple(fc.constantFrom('', 'Bearer ', 'token '), text).map((parts) => parts.join('')),
  ),
  fc.tuple(fc.constantFrom('Authorization', 'X-Own'), basic),
  fc.tuple(fc.constantFrom('x-a', `x-${VALUES[0]}`), fc.constant('v')),
)
const segment = text.map((part) => part.replaceAll(/[ ?]/g, '-'))
const head: fc.Arbitrary<Head> = fc.record({
  path: fc
    .tuple(
      fc.array(segment, { maxLength: 2 }),
      fc.array(fc.tuple(fc.constantFrom('key', 'k%65y', 'key', 'KEY', 'a'), segment), { maxLength: 3 }),
    )
    .map(([segments, pairs]) => `/${segments.join('/')}${pairs.length > 0 ? `?${pairs.map((pair) => pair.join('=')).join('&')}` : ''}`),
  headers: fc.array(field, { maxLength: 4 }).map((fields) => fields.flat()),
})
const places: fc.Arbitrary<readonly SwapPlace[]> = fc.oneof(
  fc.constant([...EVERYWHERE, { kind: 'header', header: 'Cookie' } as const]),
  fc.subarray([...EVERYWHERE]),
)

test('I23: where every placeholder found is in a listed place the swap succeeds and leaves none; where one is not it fails', () => {
  let swaps = 0
  let failures = 0
  fc.assert(
    fc.property(
      head,
      places,
      secretText.map((value) => value.replaceAll(':', '.')),
      (given, listed, value) => {
        const found = PLACEHOLDERS.find(given)
        const secret = new Secret('S', value)
        const swapped = outcome(() =>
          swapInHead(
            given,
            VALUES.map((placeholder) => ({ placeholder, places: listed, secret })),
          ),
        )
        const isFit = found.every(({ place }) => isListed(listed, place))
        if (typeof swapped === 'string') {
          failures += 1
          assert.equal(swapped, 'placeholder_misplaced')
          // One that is user and password in one needs a secret that is.
          assert.ok(!isFit || found.some(({ name, place }) => name === 'BOT' && place.kind === 'basic'))
          return
        }
        assert.ok(isFit)
        assert.deepEqual(PLACEHOLDERS.find(swapped), [])
        if (found.length === 0) return assert.deepEqual([swapped.path, swapped.headers], [given.path, given.headers])
        swaps += 1
        // The structure is what it was, and fields without a placeholder have their bytes.
        assert.equal(swapped.headers.length, given.headers.length)
        assert.equal(swapped.path.split(/[/?&=;]/).length, given.path.split(/[/?&=;]/).length)
        given.headers.forEach((part, i) => {
          if (PLACEHOLDERS.find({ path: '/', headers: i % 2 === 0 ? [part, ''] : [given.headers[i - 1] ?? '', part] }).length === 0)
            assert.equal(swapped.headers[i], part)
        })
      },
    ),
    { numRuns: 5_000 },
  )
  assert.ok(swaps > 200 && failures > 200, `${swaps} swaps, ${failures} failures`)
})

test('I23: a placeholder in any place is found, whatever stands around it', () => {
  fc.assert(
    fc.property(head, fc.constantFrom(...VALUES), fc.nat(), (given, value, at) => {
      const i = at % (given.headers.length + 1)
      const headers = given.headers.map((part, j) => (j === i ? `${part}${value}` : part))
      const found = PLACEHOLDERS.find(i === given.headers.length ? { ...given, path: `${given.path}${value}` } : { ...given, headers })
      assert.ok(found.some(({ name }) => PLACEHOLDERS.values[name] === value))
    }),
    { numRuns: 2_000 },
  )
})

test('a secret in the query is read back by any reader, and is the only one of its name (I5)', () => {
  fc.assert(
    fc.property(head, secretText, ({ path }, value) => {
      const credential = { secret: 'S', place: { kind: 'query', name: 'key' }, also: [] } as const
      const written = applyCredential({ path, headers: [] }, credential, (name) => new Secret(name, value))
      const url = new URL(`http://h${written.path.replace(/^\/+/, '/')}`)
      assert.deepEqual(url.searchParams.getAll('key'), [value])
      assert.equal(url.hash, '')
    }),
    { numRuns: 2_000 },
  )
})

/** JSON as programs write it: with any white space, any escapes, and numbers in any notation. */
type Json = { text: string; value: unknown }
const space = fc.constantFrom('', ' ', '\n', '\t ', '\r\n')
const jsonString = fc.string({ unit: 'binary', maxLength: 5 }).chain((value) =>
  fc.array(fc.boolean(), { minLength: value.length, maxLength: value.length }).map((flags): Json & { value: string } => ({
    value,
    text: `"${value
      .split('')
      .map((unit, i) =>
        flags[i] === true || /[\ud800-\udfff]/.test(unit)
          ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
          : JSON.stringify(unit).slice(1, -1),
      )
      .join('')}"`,
  })),
)
const scalar = fc.oneof(
  jsonString,
  fc
    .constantFrom('1', '-0', '1.50', '1e3', '12345678901234567890', 'true', 'false', 'null')
    .map((written): Json => ({ text: written, value: JSON.parse(written) })),
)
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(fc.tuple(space, tie('json'), space), { maxLength: 3 }).map((items) => ({
      text: `[${items.map(([before, item, after]) => `${before}${item.text}${after}`).join(',')}]`,
      value: items.map(([, item]) => item.value),
    })),
    fc
      .uniqueArray(fc.tuple(space, fc.oneof(jsonString, fc.constant({ text: '"a"', value: 'a' })), tie('json'), space), {
        maxLength: 4,
        selector: ([, key]) => key.value.toUpperCase().toLowerCase(),
      })
      .map((members) => ({
        text: `{${members.map(([before, key, item, after]) => `${before}${key.text}${after}:${before}${item.text}${after}`).join(',')}}`,
        value: Object.fromEntries(members.map(([, key, item]) => [key.value, item.value])),
      })),
  ),
}))

/** Every pointer into a value, and one that is not there. */
function pointersOf(value: unknown, at: string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [at]
  const below = Object.entries(value).flatMap(([key, item]) => pointersOf(item, [...at, key]))
  return [at, ...below, [...at, 'not there']]
}

/** The same edit on the value: what a program would do that builds it. `body_unfit` where there is no such place. */
function edited(value: unknown, [key, ...rest]: readonly string[], to: string): unknown {
  if (key === undefined) return to
  const isThere = typeof value === 'object' && value !== null && Object.hasOwn(value, key)
  if (Array.isArray(value) && isThere && key !== 'length')
    return value.map((item, i): unknown => (String(i) === key ? edited(item, rest, to) : item))
  if (typeof value !== 'object' || value === null || Array.isArray(value) || (!isThere && rest.length > 0))
    throw new SallyportError('body_unfit', 'the reference')
  const entries = Object.entries(value).map(([name, item]): [string, unknown] => [name, name === key ? edited(item, rest, to) : item])
  return Object.fromEntries(isThere ? entries : [...entries, [key, to]])
}

/** How many bytes are the same at the beginning of both, and how many of the rest at the end. */
function common(a: Buffer, b: Buffer): [number, number] {
  let front = 0
  while (front < Math.min(a.length, b.length) && a[front] === b[front]) front += 1
  let back = 0
  while (back < Math.min(a.length, b.length) - front && a[a.length - 1 - back] === b[b.length - 1 - back]) back += 1
  return [front, back]
}

test('writing into JSON is the edit of the value that it stands for, and changes no byte but those of the value', () => {
  let written = 0
  fc.assert(
    fc.property(json, fc.nat(), secretText, (document, pick, value) => {
      const pointers = pointersOf(document.value)
      const pointer = pointers[pick % pointers.length] ?? []
      const body = Buffer.from(document.text)
      const expected = outcome(() => ({ value: edited(document.value, pointer, value) }))
      const result = outcome(() => setInBody(body, JSON_TYPE, { kind: 'json', pointer }, new Secret('S', value)))
      if (typeof result === 'string' || typeof expected === 'string') return assert.equal(result, expected)
      written += 1
      assert.deepEqual(JSON.parse(result.toString()), expected.value)
      const [front, back] = common(body, result)
      // What is between may begin or end like the value that was there, but is no longer than what was written.
      const member = JSON.stringify(value).length + JSON.stringify(pointer.at(-1) ?? '').length + 2
      assert.ok(result.length - front - back <= Buffer.byteLength(JSON.stringify(value)) || body.length === front + back)
      if (body.length === front + back) assert.ok(result.length - body.length <= Buffer.byteLength(JSON.stringify(value)) + member)
    }),
    { numRuns: 3_000 },
  )
  assert.ok(written > 1_000, String(written))
})

test('a text is JSON to us exactly when it is to JSON.parse', () => {
  const tokens = '{ } [ ] , : "a" 1 -0 01 1. .5 1E+ - true nul "\\x" "\\u12" "\\ud800" \' NaN \\ " //c /*c*/'.split(' ')
  const spaces = ['"\t"', '"\n"', ' ', '\n', '\f', '\v', '\u00a0', '\u2028', '\0', '"\u0000"', '"\u001f"', '"\u2028"']
  const piece = fc.constantFrom(...tokens, ...spaces)
  const near = fc.oneof(
    fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
    fc.tuple(json, fc.nat(), piece).map(([{ text: whole }, at, more]) => {
      const i = at % (whole.length + 1)
      return whole.slice(0, i) + more + whole.slice(i)
    }),
  )
  fc.assert(
    fc.property(near, (document) => {
      let isJson = true
      try {
        JSON.parse(document)
      } catch {
        isJson = false
      }
      // No document has a name like this, so that nothing but the syntax decides; an object or array at the top takes it or not.
      const result = outcome(() =>
        setInBody(Buffer.from(`[${document},0]`), JSON_TYPE, { kind: 'json', pointer: ['0'] }, new Secret('S', 'secret')),
      )
      if (isJson) assert.equal(result.toString(), '["secret",0]'.replace('"secret"', document.replace(document.trim(), '"secret"')))
      else if (typeof result !== 'string') assert.doesNotThrow(() => void JSON.parse(`[${document},0]`))
    }),
    { numRuns: 5_000 },
  )
})

test('I23: a placeholder in JSON is swapped in its place alone, and the rest is the same to the byte', () => {
  let swaps = 0
  fc.assert(
    fc.property(json, fc.nat(), secretText, fc.constantFrom(...VALUES), (document, pick, value, placeholder) => {
      const pointers = pointersOf(document.value)
      const pointer = pointers[pick % pointers.length] ?? []
      const at: BodyPlace = { kind: 'json', pointer }
      const marked = outcome(() => setInBody(Buffer.from(document.text), JSON_TYPE, at, new Secret('P', placeholder)))
      const direct = outcome(() => setInBody(Buffer.from(document.text), JSON_TYPE, at, new Secret('S', value)))
      if (typeof marked === 'string' || typeof direct === 'string') return assert.equal(marked, direct)
      swaps += 1
      const swap = { placeholder, at, secret: new Secret('S', value) }
      assert.deepEqual(swapInBody(marked, JSON_TYPE, [swap]), direct)
      const elsewhere = { ...swap, at: { kind: 'json', pointer: [...pointer, 'below'] } } as const
      assert.equal(
        outcome(() => swapInBody(marked, JSON_TYPE, [elsewhere])),
        'placeholder_misplaced',
      )
    }),
    { numRuns: 2_000 },
  )
  assert.ok(swaps > 500, String(swaps))
})

test('a field of a form is what any reader has for it, once, and all other fields are as they were', () => {
  const name = fc.constantFrom('token', 'a', 'b c', 'tok+en', 'ü')
  const pairs = fc.array(fc.tuple(name, fc.string({ maxLength: 6 })), { maxLength: 5 })
  fc.assert(
    fc.property(pairs, secretText, (fields, value) => {
      const body = Buffer.from(new URLSearchParams(fields).toString())
      const at: BodyPlace = { kind: 'form', field: 'token' }
      const written = new URLSearchParams(setInBody(body, FORM_TYPE, at, new Secret('S', value)).toString())
      assert.deepEqual([...written], [...fields.filter(([key]) => key !== 'token'), ['token', value]])

      const placeholder = VALUES[0] ?? ''
      const marked = new URLSearchParams([...fields, ['token', `x${placeholder}`]]).toString()
      const swapped = swapInBody(Buffer.from(marked), FORM_TYPE, [{ placeholder, at, secret: new Secret('S', value) }]).toString()
      assert.deepEqual([...new URLSearchParams(swapped)], [...fields, ['token', `x${value}`]])
      assert.equal(swapped.slice(0, marked.length - placeholder.length), marked.slice(0, -placeholder.length))
    }),
    { numRuns: 1_000 },
  )
})
