import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { canonicalJson } from '../../../src/controller/approvals/approvals.ts'

/** The example of RFC 8785 §3.2.2 and its bytes of §3.2.4. */
const EXAMPLE = JSON.parse(`{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/",
  "literals": [null, true, false]
}`) as unknown
const EXAMPLE_BYTES = `
7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72 75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62 65 72 73 22 3a 5b 33 33
33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31 65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30 32 2c 31 65 2d 32 37 5d 2c 22 73 74 72 69
6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30 30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c 22 2f 22 7d`

test('the example of RFC 8785 §3.2.4 comes out in its bytes', () => {
  assert.equal(Buffer.from(canonicalJson(EXAMPLE)).toString('hex'), EXAMPLE_BYTES.replace(/\s/g, ''))
})

test('members are in the order of the UTF-16 units of their names, as in RFC 8785 §3.2.3', () => {
  const value = JSON.parse(
    '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control","\\u00f6":"Latin Small Letter O With Diaeresis"}',
  ) as Record<string, string>
  const order = Object.values(JSON.parse(canonicalJson(value).replace(/"1":/, '"one":')) as Record<string, string>)
  assert.deepEqual(order, [
    'Carriage Return',
    'One',
    'Control',
    'Latin Small Letter O With Diaeresis',
    'Euro Sign',
    'Emoji: Grinning Face',
    'Hebrew Letter Dalet With Dagesh',
  ])
})

/** RFC 8785 appendix B: the bits of a number of IEEE 754, and how it is written. */
for (const [bits, text] of [
  ['0000000000000000', '0'],
  ['8000000000000000', '0'],
  ['0000000000000001', '5e-324'],
  ['8000000000000001', '-5e-324'],
  ['7fefffffffffffff', '1.7976931348623157e+308'],
  ['ffefffffffffffff', '-1.7976931348623157e+308'],
  ['4340000000000000', '9007199254740992'],
  ['c340000000000000', '-9007199254740992'],
  ['4430000000000000', '295147905179352830000'],
  ['44b52d02c7e14af5', '9.999999999999997e+22'],
  ['44b52d02c7e14af6', '1e+23'],
  ['44b52d02c7e14af7', '1.0000000000000001e+23'],
  ['444b1ae4d6e2ef4e', '999999999999999700000'],
  ['444b1ae4d6e2ef4f', '999999999999999900000'],
  ['444b1ae4d6e2ef50', '1e+21'],
  ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
  ['3eb0c6f7a0b5ed8d', '0.000001'],
  ['41b3de4355555553', '333333333.3333332'],
  ['41b3de4355555554', '333333333.33333325'],
  ['41b3de4355555555', '333333333.3333333'],
  ['41b3de4355555556', '333333333.3333334'],
  ['41b3de4355555557', '333333333.33333343'],
  ['becbf647612f3696', '-0.0000033333333333333333'],
  ['43143ff3c1cb0959', '1424953923781206.2'],
] as const) {
  test(`the number with the bits ${bits} is written ${text}`, () => {
    assert.equal(canonicalJson(Buffer.from(bits, 'hex').readDoubleBE()), text)
  })
}

for (const { what, value } of [
  { what: 'NaN', value: Number.NaN },
  { what: 'infinity', value: [-Infinity] },
  { what: 'a high surrogate alone', value: 'a\uD800' },
  { what: 'a low surrogate alone, as a name', value: { '\uDEAD': 1 } },
  { what: 'undefined in a list', value: [undefined] },
  { what: 'a hole in a list', value: Array.from({ length: 2 }) },
  { what: 'a big integer', value: 1n },
  { what: 'a function', value: { a: () => 1 } },
  { what: 'a symbol', value: Symbol('a') },
  { what: 'a date, which would become text', value: new Date(0) },
  { what: 'a map, which would become nothing', value: new Map([['a', 1]]) },
  { what: 'nesting without end', value: JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`) as unknown },
]) {
  test(`${what} has no canonical form`, () => assert.throws(() => canonicalJson(value), { code: 'question_invalid' }))
}

test('a name that every object has is a member like any other', () => {
  const value = JSON.parse('{"__proto__":1,"constructor":2,"toString":3}') as unknown
  assert.equal(canonicalJson(value), '{"__proto__":1,"constructor":2,"toString":3}')
  assert.notEqual(hash('sha256', canonicalJson(value)), hash('sha256', canonicalJson({})))
})

test('a member that is undefined is absent', () => assert.equal(canonicalJson({ b: undefined, a: 1 }), '{"a":1}'))
