import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createJointRedaction, type StreamName } from '../../../src/controller/executor/joint-redaction.ts'
import { Secret } from '../../../src/kernel/secret.ts'

const VALUE = 'abcabd-secret'

test('as many bytes come out of each stream as went in, however they came, and none has the secret', () => {
  const piece = fc.tuple(
    fc.constantFrom<StreamName>('stdout', 'stderr'),
    fc.constantFrom('a', 'abc', 'abcabd', VALUE, '-secret', 'x', '\n', 'abcabcabd-secre', 't'),
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const redaction = createJointRedaction([new Secret('S', VALUE)])
      const out = { stdout: '', stderr: '' }
      const raw = { stdout: '', stderr: '' }
      const take = (given: Record<StreamName, Buffer>): void => {
        for (const name of ['stdout', 'stderr'] as const) out[name] += given[name].toString()
        for (const name of ['stdout', 'stderr'] as const) assert.ok(!out[name].includes(VALUE))
      }
      let both = ''
      for (const [name, text] of pieces) {
        raw[name] += text
        both += text
        take(redaction.push(name, Buffer.from(text)))
      }
      take(redaction.end())
      // In the order in which they came, too.
      let merged = ''
      const at = { stdout: 0, stderr: 0 }
      for (const [name, text] of pieces) {
        merged += out[name].slice(at[name], at[name] + text.length)
        at[name] += text.length
      }
      assert.equal(merged.length, both.length)
      assert.ok(!merged.includes(VALUE))
      for (const name of ['stdout', 'stderr'] as const) {
        assert.equal(out[name].length, raw[name].length)
        for (const [i, character] of Array.from(out[name]).entries())
          assert.ok(character === raw[name][i] || character === '*' || character === 'A' || character === '0')
      }
    }),
    { numRuns: 300 },
  )
})

test('without a secret everything comes out as it went in', () => {
  const redaction = createJointRedaction([])
  assert.equal(redaction.push('stdout', Buffer.from('a')).stdout.toString(), 'a')
  assert.equal(redaction.push('stderr', Buffer.from('b')).stderr.toString(), 'b')
  assert.deepEqual(redaction.end(), { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) })
})
