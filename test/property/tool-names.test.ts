import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { allowsTool } from '../../src/wire/tool-names.ts'
import { createToolFilter } from '../../src/sidecar/gateway/tool-filter.ts'

const word = fc.string({ unit: fc.constantFrom('a', 'b', '_', 'A', 'ａ', '*', '.', '\u200b'), maxLength: 12 })
const plain = word.map((text) => text.replaceAll('*', 'x'))

test('a pattern matches what an expression of the same meaning matches, whatever is in both', () => {
  fc.assert(
    fc.property(word, plain, (pattern, name) => {
      const expression = new RegExp(
        `^${pattern
          .split('*')
          .map((part) => RegExp.escape(part))
          .join('[^]*')}$`,
      )
      assert.equal(allowsTool([pattern], name), expression.test(name))
    }),
    { numRuns: 5_000 },
  )
})

test('I70 a list has no tool, and a call goes to none, that the patterns leave out; without patterns both are as they came', () => {
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 4 }), fc.array(plain, { maxLength: 8 }), (tools, names) => {
      const filter = createToolFilter({ tools })
      const list = { jsonrpc: '2.0', id: 1, result: { tools: names.map((name) => ({ name })), nextCursor: 'x' } }
      const { result } = filter.toAgent(list) as typeof list
      assert.equal(result.nextCursor, 'x')
      for (const name of names) {
        const isListed = result.tools.some((tool) => tool.name === name)
        const call = filter.callIn({ id: 2, method: 'tools/call', params: { name } })
        assert.deepEqual(call, { tool: name, isAllowed: isListed })
      }
      assert.equal(createToolFilter({}).toAgent(list), list)
    }),
    { numRuns: 2_000 },
  )
})

test('many stars cost no more than their number times the name’s length', () => {
  assert.equal(allowsTool(['*a'.repeat(60)], 'b'.repeat(100_000)), false)
})
