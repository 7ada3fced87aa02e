import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { memo } from '../../../src/kernel/memo.ts'

test('a text that came before is not looked at again, one that is too long is each time', () => {
  const made: string[] = []
  const read = memo(10, 5, (text) => {
    made.push(text)
    return { text }
  })
  assert.equal(read('short'), read('short'))
  assert.notEqual(read('longer'), read('longer'))
  assert.deepEqual(made, ['short', 'longer', 'longer'])
})

test('no more texts are kept than said: with one more it begins anew', () => {
  let made = 0
  const read = memo(2, 5, (text) => {
    made += 1
    return { text }
  })
  for (const text of ['a', 'b', 'a', 'b']) read(text)
  assert.equal(made, 2)
  read('c')
  read('c')
  assert.equal(made, 3)
  read('a')
  assert.equal(made, 4)
})

test('what is kept of a text that is part of a longer one does not keep all of that', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const read = memo(1_000, 100, (text) => ({ part: text.slice(1) }))
  collect()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < 1_000; i++)
    read(
      Buffer.from(`host-number-${i}.example.com/${'x'.repeat(31_000)}`)
        .toString('latin1')
        .slice(0, 28),
    )
  collect()
  const kept = process.memoryUsage().heapUsed - before
  assert.ok(kept < 5_000_000, `${kept} bytes`)
})
