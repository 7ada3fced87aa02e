import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setInBody, swapInBody, type BodySwap } from '../../../src/credential/credential.ts'
import { SallyportError, type ErrorCode } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import type { BodyPlace } from '../../../src/wire/credential.ts'

const SECRET = new Secret('TOKEN', 'canary"\\&=+%/')
const IN_JSON = 'canary\\"\\\\&=+%/'
const IN_FORM = 'canary%22%5C%26%3D%2B%25%2F'
const JSON_TYPE = 'application/json'
const FORM_TYPE = 'application/x-www-form-urlencoded'

const json = (...pointer: string[]): BodyPlace => ({ kind: 'json', pointer })
const form = (field: string): BodyPlace => ({ kind: 'form', field })

function set(body: string | Buffer, at: BodyPlace, type: string | undefined = at.kind === 'json' ? JSON_TYPE : FORM_TYPE): string {
  return setInBody(Buffer.from(body), type, at, SECRET).toString('latin1')
}

function unfit(run: () => unknown, code: ErrorCode = 'body_unfit'): void {
  assert.throws(run, (error) => {
    assert.ok(error instanceof SallyportError, String(error))
    assert.equal(error.code, code)
    assert.doesNotMatch(`${error.message} ${error.hint}`, /canary|SALLYPORT|own-value/)
    return true
  })
}

describe('a secret that is written into JSON', () => {
  for (const { body, at, written, why } of [
    { body: '{"a":"own"}', at: json('a'), written: `{"a":"${IN_JSON}"}`, why: 'in place of the agent’s own' },
    {
      body: ' {\n\t"n" : 1.0e+05 , "a":null,"e":"\\u00e9\\/" }\r\n',
      at: json('a'),
      written: ` {\n\t"n" : 1.0e+05 , "a":"${IN_JSON}","e":"\\u00e9\\/" }\r\n`,
      why: 'every other byte stays',
    },
    { body: '{"a":{"b":[1,{"c":[]}]}}', at: json('a'), written: `{"a":"${IN_JSON}"}`, why: 'in place of an object' },
    { body: '{"a":[1,{"b":2}]}', at: json('a', '1', 'b'), written: `{"a":[1,{"b":"${IN_JSON}"}]}`, why: 'by an index' },
    { body: '[[],[0]]', at: json('1', '0'), written: `[[],["${IN_JSON}"]]`, why: 'in arrays alone' },
    { body: '{"0":1}', at: json('0'), written: `{"0":"${IN_JSON}"}`, why: 'a name of digits' },
    { body: '{"":1}', at: json(''), written: `{"":"${IN_JSON}"}`, why: 'an empty name' },
    { body: '{"a/~b":1}', at: json('a/~b'), written: `{"a/~b":"${IN_JSON}"}`, why: 'a name with what pointers escape' },
    { body: '{"\\u0061":1}', at: json('a'), written: `{"\\u0061":"${IN_JSON}"}`, why: 'a name with an escape' },
    {
      body: '{"x":{"a":1,"A":2},"a":3}',
      at: json('a'),
      written: `{"x":{"a":1,"A":2},"a":"${IN_JSON}"}`,
      why: 'names off the way may be as they like',
    },
    { body: '{}', at: json('a'), written: `{"a":"${IN_JSON}"}`, why: 'added to an empty object' },
    { body: '{ "b" : 1 }', at: json('a'), written: `{ "b" : 1 ,"a":"${IN_JSON}"}`, why: 'added behind others' },
    {
      body: '{"b":{"c":[{}]}}',
      at: json('b', 'a"'),
      written: `{"b":{"c":[{}],"a\\"":"${IN_JSON}"}}`,
      why: 'added further down, its name escaped',
    },
    {
      body: '{"__proto__":{"a":1}}',
      at: json('__proto__', 'a'),
      written: `{"__proto__":{"a":"${IN_JSON}"}}`,
      why: 'a name that objects have',
    },
  ])
    test(`is at /${at.kind === 'json' ? at.pointer.join('/') : ''} of ${JSON.stringify(body)}: ${why} (I5)`, () =>
      assert.equal(set(body, at), written))

  test('leaves letters outside ASCII as they are', () => {
    const written = setInBody(Buffer.from('{"ü😀":"é","a":1,"z":"\u2028"}'), JSON_TYPE, json('a'), SECRET).toString()
    assert.equal(written, `{"ü😀":"é","a":"${IN_JSON}","z":"\u2028"}`)
  })

  for (const { body, at = json('a'), why } of [
    { body: '', why: 'nothing at all' },
    { body: ' ', why: 'white space alone' },
    { body: '{"a":1', why: 'cut off' },
    { body: '{"a":1}{"a":2}', why: 'two texts' },
    { body: '{"a":1,}', why: 'a trailing comma' },
    { body: '{"a":1/* */}', why: 'a comment' },
    { body: '{"a":1}//', why: 'a comment at the end' },
    { body: "{'a':1}", why: 'other quotes' },
    { body: '{a:1}', why: 'no quotes' },
    { body: '{"a":NaN}', why: 'a number that is none' },
    { body: '{"a":"own\nline"}', why: 'a line break in a string' },
    { body: '\uFEFF{"a":1}', why: 'a byte order mark' },
    { body: Buffer.from('{"a":1,"b":"\xff"}', 'latin1'), why: 'not UTF-8' },
    { body: Buffer.from('{"a":1}', 'utf16le'), why: 'UTF-16' },
    { body: Buffer.from('{"a":1,"b":"\xc0\xa2"}', 'latin1'), why: 'an overlong form' },
    { body: '{"a":"own-value","a":2}', why: 'the name twice' },
    { body: '{"a":"own-value","\\u0061":2}', why: 'the name twice, once escaped' },
    { body: '{"a":1,"A":2}', why: 'the name in another case beside it' },
    { body: '{"A":2}', why: 'the name in another case alone: beside ours it would be a second one' },
    { body: '{"\u212Aey":1,"key":2}', at: json('key'), why: 'a Kelvin sign is a k to some' },
    { body: '{"u\u017Fer":1}', at: json('user'), why: 'a long s is an s to some' },
    { body: '{"b":{"a":1},"b":{"a":2}}', at: json('b', 'a'), why: 'a name on the way twice' },
    { body: '{"b":1}', at: json('b', 'a'), why: 'a number on the way' },
    { body: '{"b":{}}', at: json('c', 'a'), why: 'no object to add it to' },
    { body: '[1]', at: json('1'), why: 'behind the end of an array' },
    { body: '[1]', at: json('-'), why: 'nothing is appended to arrays' },
    { body: '[1]', at: json('00'), why: 'an index with a zero in front' },
    { body: '[1]', why: 'a name in an array' },
    { body: '"text"', why: 'no object' },
  ] as { body: string | Buffer; at?: BodyPlace; why: string }[])
    test(`is not written, and nothing is sent, when the body has ${why}`, () => unfit(() => set(body, at)))

  test('is not written into what is nested without end, and the process goes on', () => {
    for (const open of ['[', '{"a":', '[{"b":'])
      for (const depth of [LIMITS.jsonDepthMax + 1, 1_000_000]) unfit(() => set(open.repeat(depth), json('a')))
    const deep = LIMITS.jsonDepthMax - 1
    assert.match(set(`{"a":1,"b":${'['.repeat(deep)}${']'.repeat(deep)}}`, json('a')), /^\{"a":"canary/)
  })
})

describe('a secret that is written into a form', () => {
  for (const { body, written, why } of [
    { body: '', written: `token=${IN_FORM}`, why: 'an empty one' },
    { body: 'a=1&b', written: `a=1&b&token=${IN_FORM}`, why: 'behind others' },
    { body: 'token=own&a=%41+&token=own', written: `a=%41+&token=${IN_FORM}`, why: 'in place of the agent’s own, the rest as it was' },
    { body: 'tok%65n=own&TOKEN=own&token[]=own', written: `token=${IN_FORM}`, why: 'in place of other spellings' },
    { body: 'a=1;token=own', written: `a=1&token=${IN_FORM}`, why: 'and of one behind a semicolon' },
    { body: 'a=\u00fc', written: Buffer.from(`a=\u00fc&token=${IN_FORM}`).toString('latin1'), why: 'letters outside ASCII stay' },
  ])
    test(`is a field of ${JSON.stringify(body)}: ${why} (I5)`, () => assert.equal(set(body, form('token')), written))

  test('is not written into bytes that are not UTF-8', () => unfit(() => set(Buffer.from('a=\xff', 'latin1'), form('token'))))
})

describe('the type of a body', () => {
  for (const { type, kind } of [
    { type: 'application/json', kind: 'json' },
    { type: 'Application/JSON ; Charset="UTF-8"', kind: 'json' },
    { type: 'application/json;', kind: 'json' },
    { type: 'application/vnd.api+json; charset=utf8; profile=x', kind: 'json' },
    { type: 'application/x-www-form-urlencoded;charset=utf-8', kind: 'form' },
    { type: undefined, kind: undefined },
    { type: '', kind: undefined },
    { type: 'text/plain', kind: undefined },
    { type: 'text/json', kind: undefined },
    { type: 'application/jsonp', kind: undefined },
    { type: 'application/x-ndjson', kind: undefined },
    { type: 'multipart/form-data; boundary=x', kind: undefined },
    { type: 'application/json; charset=utf-16', kind: undefined },
    { type: 'application/json; charset=utf-8; charset=utf-7', kind: undefined },
    { type: 'application/json; charset=utf-7; charset=utf-8', kind: undefined },
    { type: 'application/json; charset="utf-\\8"', kind: undefined },
    { type: 'application/json, text/plain', kind: undefined },
    { type: 'application/json; charset', kind: undefined },
    { type: 'text/plain; x=application/json', kind: undefined },
    { type: 'application/x-www-form-urlencoded; charset=iso-8859-1', kind: undefined },
  ] as const)
    test(`"${type}" is ${kind === undefined ? 'none that a secret goes into' : `that of ${kind}, and no other`}`, () => {
      const write = { json: () => set('{"a":1}', json('a'), type), form: () => set('a=1', form('a'), type) }
      if (type === undefined) return unfit(() => setInBody(Buffer.from('{"a":1}'), undefined, json('a'), SECRET))
      for (const tried of ['json', 'form'] as const) {
        if (tried === kind) assert.match(write[tried](), /canary/)
        else unfit(write[tried])
      }
    })
})

const P = 'ghp_SALLYPORT7dTzKq0aXw41RmBvNc82LsYhJe6f'
const Q = 'glpat-SALLYPORTq8w7e6r5t4y3'

function swap(body: string, at: BodyPlace[], type: string | undefined = JSON_TYPE, more: BodySwap[] = []): string {
  const swaps = at.map((place) => ({ placeholder: P, at: place, secret: SECRET }))
  return swapInBody(Buffer.from(body), type, [...swaps, ...more]).toString()
}

describe('a placeholder in a body', () => {
  for (const { body, at, type, written, why } of [
    { body: `{ "a":"${P}" ,"n":1.0}`, at: [json('a')], written: `{ "a":"${IN_JSON}" ,"n":1.0}`, why: 'the value' },
    { body: `{"a":"x ${P} y${P}"}`, at: [json('a')], written: `{"a":"x ${IN_JSON} y${IN_JSON}"}`, why: 'twice within the value' },
    { body: `{"a":"${P.replace('g', '\\u0067')}"}`, at: [json('a')], written: `{"a":"${IN_JSON}"}`, why: 'with an escape' },
    { body: `[{"a":"${P}"}]`, at: [json('b'), json('0', 'a')], written: `[{"a":"${IN_JSON}"}]`, why: 'one of two places' },
    { body: `{"a":"${P}","b":"${P}"}`, at: [json('a'), json('b')], written: `{"a":"${IN_JSON}","b":"${IN_JSON}"}`, why: 'both places' },
    {
      body: `a=+&tok%65n=x${P}`,
      at: [json('a'), form('token')],
      type: FORM_TYPE,
      written: `a=+&tok%65n=x${IN_FORM}`,
      why: 'a field of a form',
    },
    {
      body: `token=${P.replace('g', '%67')}&token=${P}`,
      at: [form('token')],
      type: FORM_TYPE,
      written: `token=${IN_FORM}&token=${IN_FORM}`,
      why: 'fields of one name, one escaped',
    },
  ])
    test(`is swapped in ${why}`, () => assert.equal(swap(body, at, type), written))

  test('is swapped beside another one, each for its own', () => {
    const other = { placeholder: Q, at: json('a'), secret: new Secret('OTHER', 'other-canary') }
    assert.equal(swap(`{"a":"${P}:${Q}"}`, [json('a')], JSON_TYPE, [other]), `{"a":"${IN_JSON}:other-canary"}`)
  })

  test('that is not there leaves the body as it is, whatever it is', () => {
    const body = Buffer.from('\xff{{{', 'latin1')
    assert.equal(swapInBody(body, 'image/png', [{ placeholder: P, at: json('a'), secret: SECRET }]), body)
  })

  for (const { body, type, at, code, why } of [
    { body: `{"b":"${P}"}`, why: 'at another place' },
    { body: `{"a":"${P}","b":"${P}"}`, why: 'at its place and another' },
    { body: `{"a":"${P}","b":"${P.replace('g', '\\u0067')}"}`, why: 'at another place, escaped' },
    { body: `{"a":"${P}","b":"${P.replace('g', '%67')}"}`, why: 'at another place, percent-encoded' },
    { body: `{"a":"${P}","b":"${Buffer.from(`x${P}`).toString('base64')}"}`, why: 'at another place, in base64' },
    { body: `{"a":"${P.replace('g', '%67')}"}`, why: 'at its place, in a spelling that is not JSON’s' },
    { body: `{"${P}":1,"a":"x"}`, why: 'as a name' },
    { body: `{"a":{"x":"${P}"}}`, why: 'below its place' },
    { body: `{"a":["${P}"]}`, why: 'in an array at its place' },
    { body: `{"a":"${P}","A":"x"}`, code: 'body_unfit' as const, why: 'at a place that has two readings' },
    { body: `{"a":"${P}"`, code: 'body_unfit' as const, why: 'in what is no JSON' },
    { body: `{"a":"${P}"}`, type: 'text/plain', why: 'in another type' },
    { body: `{"a":"${P}"}`, type: undefined, at: [form('a')], why: 'in JSON, where a form is listed' },
    { body: `a=${P}`, type: FORM_TYPE, why: 'in a form, where JSON is listed' },
    { body: `b=${P}`, type: FORM_TYPE, at: [form('a')], why: 'in another field' },
    { body: `a=1;b=${P}`, type: FORM_TYPE, at: [form('a'), form('b')], why: 'behind a semicolon' },
    { body: `${P}=1`, type: FORM_TYPE, at: [form('a')], why: 'as a field’s name' },
    { body: `a=${P.replace('g', '%2567')}`, type: FORM_TYPE, at: [form('a')], why: 'escaped twice' },
  ])
    test(`I23: is not swapped ${why}, and nothing is sent`, () =>
      unfit(() => swap(body, at ?? [json('a')], type), code ?? 'placeholder_misplaced'))
})
