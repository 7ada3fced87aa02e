import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPulling } from '../../../src/cli/pulling.ts'
import { createPullProgress } from '../../../src/controller/sessions/pull-progress.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import type { PullView } from '../../../src/wire/operator.ts'

const LAYERS = ['aaaaaaaaaaaa', 'bbbbbbbbbbbb'] as const
const MIB = 1_024 ** 2
const view = (change: Partial<PullView> = {}): PullView => ({
  image: 'mine:1',
  layers: 2,
  layersDone: 1,
  doneBytes: 1.5 * MIB,
  totalBytes: 4 * MIB,
  isDone: false,
  ...change,
})

function clock() {
  const system = { now: 0, elapsed: () => system.now }
  return system
}

test('the bytes of all layers are summed up, also of those that are there or were fetched without a last word', () => {
  const said: PullView[] = []
  const system = clock()
  const progress = createPullProgress('mine:1', (one) => said.push(one), system)
  progress.step({ layer: '1', status: 'Pulling from mine' })
  progress.step({ layer: LAYERS[0], status: 'Downloading', doneBytes: 10, totalBytes: 100 })
  progress.step({ layer: LAYERS[1], status: 'Downloading', doneBytes: 40, totalBytes: 50 })
  progress.step({ layer: LAYERS[0], status: 'Download complete' })
  // Of what is unpacked the engine counts other bytes.
  progress.step({ layer: LAYERS[0], status: 'Extracting', doneBytes: 3, totalBytes: 7 })
  progress.step({ layer: LAYERS[1], status: 'Pull complete' })
  progress.end()
  assert.deepEqual(said.at(-1), { image: 'mine:1', layers: 2, layersDone: 1, doneBytes: 150, totalBytes: 150, isDone: true })
})

test('however often the engine speaks, it is passed on at the rate of its limit', () => {
  const said: PullView[] = []
  const system = clock()
  const progress = createPullProgress('mine:1', (one) => said.push(one), system)
  for (let ms = 0; ms < 10 * LIMITS.pullReportMs; ms += 1) {
    system.now = ms
    progress.step({ layer: LAYERS[0], status: 'Downloading', doneBytes: ms, totalBytes: 1e6 })
  }
  assert.equal(said.length, 10)
})

test('an engine that speaks of layers without end is not remembered beyond the limit', () => {
  const said: PullView[] = []
  const progress = createPullProgress('mine:1', (one) => said.push(one), clock())
  for (let n = 0; n < 2 * LIMITS.imageLayersMax; n += 1)
    progress.step({ layer: n.toString(16).padStart(12, '0'), status: 'Downloading', doneBytes: 1, totalBytes: 1 })
  progress.end()
  assert.equal(said.at(-1)?.layers, LIMITS.imageLayersMax)
})

test('without a terminal there are whole lines, at the rate of their limit for each image, and always the last', () => {
  const system = clock()
  let text = ''
  const pulling = createPulling(
    (piece) => (text += piece),
    () => undefined,
    system,
  )
  for (system.now = 0; system.now < 3 * LIMITS.pullLineMs; system.now += LIMITS.pullReportMs) {
    pulling.pull(view())
    pulling.pull(view({ image: 'other:1' }))
  }
  pulling.pull(view({ isDone: true }))
  pulling.clear()
  const lines = text.split('\n')
  assert.equal(lines.length, 3 + 3 + 1 + 1)
  assert.equal(lines[0], '· pulling mine:1: 1 of 2 layers, 1.5 MiB of 4.0 MiB')
  assert.equal(lines.at(-2), '· pulled mine:1 (4.0 MiB)')
  assert.ok(!text.includes('\r') && !text.includes('\u001B'))
})

test('on a terminal two images are in one line that fits, and an end has a line of its own', () => {
  let text = ''
  const pulling = createPulling(
    (piece) => (text += piece),
    () => 72,
    clock(),
  )
  pulling.pull(view())
  pulling.pull(view({ image: 'other:1' }))
  const line = text.split('\r\u001B[K').at(-1) ?? ''
  assert.equal(line.length, 71)
  assert.match(line, /^· pulling mine:1: .*; · pulling other:1/)
  pulling.pull(view({ isDone: true }))
  assert.ok(text.endsWith('\r\u001B[K· pulled mine:1 (4.0 MiB)\n'))
  pulling.pull(view({ image: 'other:1' }))
  pulling.clear()
  pulling.clear()
  assert.ok(text.endsWith('MiB\r\u001B[K'))
})

test('a name that would move the cursor is written out', () => {
  let text = ''
  createPulling(
    (piece) => (text += piece),
    () => undefined,
    clock(),
  ).pull(view({ image: 'a\u001B[2Jb' }))
  assert.ok(!text.includes('\u001B'))
})
