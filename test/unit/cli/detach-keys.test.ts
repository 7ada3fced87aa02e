import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { DEFAULT_DETACH_KEYS, DetachKeys, parseDetachKeys } from '../../../src/cli/detach-keys.ts'

const KEYS = parseDetachKeys(DEFAULT_DETACH_KEYS)
/** What each chunk lets through, and whether the last one detached. */
function typed(chunks: readonly string[], keys = KEYS): { passed: string[]; isDetached: boolean } {
  const detach = new DetachKeys(keys)
  const passed: string[] = []
  for (const chunk of chunks) {
    const { bytes, isDetached } = detach.push(Buffer.from(chunk))
    passed.push(bytes.toString())
    if (isDetached) return { passed, isDetached }
  }
  return { passed, isDetached: false }
}

for (const { chunks, passed, isDetached, why } of [
  { chunks: ['\x10\x11'], passed: [''], isDetached: true, why: 'in one chunk' },
  { chunks: ['\x10', '\x11'], passed: ['', ''], isDetached: true, why: 'one by one' },
  { chunks: ['ls\x10\x11rm'], passed: ['ls'], isDetached: true, why: 'behind other keys, and what follows goes nowhere' },
  { chunks: ['\x10', 'x'], passed: ['', '\x10x'], isDetached: false, why: 'not completed: they go on as they were typed' },
  { chunks: ['\x10', '\x10', '\x11'], passed: ['', '\x10', ''], isDetached: true, why: 'the first key twice: the second one counts' },
  { chunks: ['\x11\x10'], passed: ['\x11'], isDetached: false, why: 'the wrong way round' },
  { chunks: ['\x1b[112;5u\x1b[113;5u'], passed: [''], isDetached: true, why: 'as kitty’s protocol writes them' },
  { chunks: ['\x1b[112::112;5:1u', '\x1b[113;69u'], passed: ['', ''], isDetached: true, why: 'with other keys, events and caps lock' },
  { chunks: ['\x1b[27;5;112~', '\x1b[27;5;113~'], passed: ['', ''], isDetached: true, why: 'as modifyOtherKeys writes them' },
  { chunks: ['\x1b[112;5u', 'x'], passed: ['', '\x1b[112;5ux'], isDetached: false, why: 'not completed, as it was written' },
  { chunks: ['\x1b', '[112;5u', '\x1b[11', '3;5u'], passed: ['\x1b', '', '', ''], isDetached: true, why: 'cut in the middle' },
  { chunks: ['\x1b[112;6u\x1b[113;5u'], passed: ['\x1b[112;6u\x1b[113;5u'], isDetached: false, why: 'with shift it is another key' },
  { chunks: ['\x1b'], passed: ['\x1b'], isDetached: false, why: 'Escape is not held back' },
  { chunks: ['\x1b', '\x10', '\x11'], passed: ['\x1b', '', ''], isDetached: true, why: 'Escape before them is a key of its own' },
  { chunks: ['\x10', '\x1b'], passed: ['', '\x10\x1b'], isDetached: false, why: 'Escape within them neither' },
  { chunks: ['\x1b[A\x1b[5;3R\x1bx'], passed: ['\x1b[A\x1b[5;3R\x1bx'], isDetached: false, why: 'other sequences pass' },
]) {
  test(`${JSON.stringify(chunks)} ${isDetached ? 'detaches' : 'does not detach'}: ${why}`, () =>
    assert.deepEqual(typed(chunks), { passed, isDetached }))
}

test('keys that overlap themselves are found', () => {
  assert.deepEqual(typed(['aab', 'aaab'], parseDetachKeys('a,a,a,b')), { passed: ['aab', ''], isDetached: true })
})

test('what is typed arrives byte for byte when the keys are not among it, however it is cut', () => {
  const key = fc.constantFrom('\x10', 'x', '\x1b', '\x1b[A', '\x1b[112;5u', '\x1b[5;9R', 'é', '\x1b[', '\x7f')
  fc.assert(
    fc.property(
      fc.array(
        fc.array(key, { maxLength: 5 }).map((keys) => keys.join('')),
        { maxLength: 8 },
      ),
      (chunks) => {
        const detach = new DetachKeys(KEYS)
        const passed = chunks.map((chunk) => detach.push(Buffer.from(chunk)).bytes)
        assert.equal(Buffer.concat([...passed, detach.end()]).toString(), chunks.join(''))
      },
    ),
  )
})

test('answers of the terminal are counted, however they are cut', () => {
  const detach = new DetachKeys(KEYS)
  assert.equal(
    ['\x1b[5;3R\x1b[1', '2;40R', 'R', '\x1b[R'].reduce((sum, chunk) => sum + detach.push(Buffer.from(chunk)).answers, 0),
    2,
  )
})

test('keys are written as Docker writes them', () => {
  assert.deepEqual(parseDetachKeys('ctrl-p,ctrl-q'), [0x10, 0x11])
  assert.deepEqual(parseDetachKeys('ctrl-],a,ctrl-@'), [0x1d, 0x61, 0])
  for (const wrong of ['', 'ctrl-', 'ctrl-é', 'ab', 'ctrl-p,', 'ctrl-P', 'ctrl-[', 'a,b,c,d,e,f,g,h,i'])
    assert.throws(() => parseDetachKeys(wrong), { code: 'usage' }, wrong)
})

test('without detach keys everything typed is the program’s', () => {
  const detach = new DetachKeys([])
  const keys = '\x10\x11a\x1b[112;5u\x1b[A\x1bb'
  const { bytes, isDetached } = detach.push(Buffer.from(keys))
  assert.equal(isDetached, false)
  assert.equal(Buffer.concat([bytes, detach.end()]).toString('latin1'), keys)
})
