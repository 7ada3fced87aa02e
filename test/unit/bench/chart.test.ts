import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PLOT_WIDTH, barChart, lineChart } from '../../../bench/chart.ts'
import { flameGraph, frameTree, hottest, type CpuProfile } from '../../../bench/flame-graph.ts'
import { assertWellFormed, attributesOf } from '../../support/xml.ts'

const GROUPS = [
  {
    label: 'one <&> "two"',
    bars: [
      { label: 'ours', value: 200, isOurs: true },
      { label: 'a & b', value: 50 },
      { label: 'none', value: 0 },
    ],
  },
  {
    label: 'another unit',
    bars: [
      { label: 'ours', value: 3, isOurs: true },
      { label: 'x', value: 6 },
    ],
  },
  { label: 'nobody', bars: [] },
]

test('bars are as long as their values within their group, and ours are marked', () => {
  const rects = attributesOf(barChart('title', GROUPS, String), 'rect')
  assert.deepEqual(
    rects.map(({ width }) => Number(width)),
    [PLOT_WIDTH, PLOT_WIDTH / 4, 0, PLOT_WIDTH / 2, PLOT_WIDTH],
  )
  assert.deepEqual(
    rects.map((rect) => rect['class']),
    ['o', 'p', 'p', 'o', 'p'],
  )
})

test('bars stand below each other without touching, inside the picture', () => {
  const picture = barChart('title', GROUPS, String)
  const ys = attributesOf(picture, 'rect').map(({ y }) => Number(y))
  for (const [i, y] of ys.entries()) if (i > 0) assert.ok(y - (ys[i - 1] ?? 0) > 16)
  assert.ok((ys.at(-1) ?? 0) + 16 < Number(attributesOf(picture, 'svg')[0]?.['height']))
})

test('a chart is well-formed whatever its labels say', () => {
  assertWellFormed(barChart('a < b & "c" ]]> </svg>', GROUPS, (value) => `<${value}>`))
  assertWellFormed(lineChart('<&>', [{ x: 0, y: 1 }], { x: '<', y: '&' }))
})

test('a chart of nothing is an empty picture, not one with NaN in it', () => {
  for (const picture of [
    barChart('t', [], String),
    barChart('t', [{ label: 'g', bars: [{ label: 'b', value: 0 }] }], String),
    lineChart('t', [], { x: '', y: '' }),
  ]) {
    assertWellFormed(picture)
    assert.doesNotMatch(picture, /NaN|Infinity|undefined/)
  }
})

test('a line goes from the left to the right of its axes, and up as values grow', () => {
  const picture = lineChart(
    't',
    [
      { x: 0, y: 0 },
      { x: 5, y: 50 },
      { x: 10, y: 100 },
    ],
    { x: 's', y: 'MB' },
  )
  const points = (attributesOf(picture, 'polyline')[0]?.['points'] ?? '').split(' ').map((pair) => pair.split(',').map(Number))
  const [across, up] = attributesOf(picture, 'line')
  assert.deepEqual(points[0], [Number(across?.['x1']), Number(across?.['y1'])])
  assert.deepEqual(points[2], [Number(across?.['x2']), Number(up?.['y1'])])
  assert.equal(points[1]?.[0], (Number(across?.['x1']) + Number(across?.['x2'])) / 2)
})

const call = (functionName: string, url: string) => ({ functionName, url, lineNumber: 9 })
const PROFILE: CpuProfile = {
  nodes: [
    { id: 1, callFrame: call('(root)', ''), children: [2, 5, 6] },
    { id: 2, callFrame: call('handle', 'file:///clone/src/handle.ts'), children: [3, 4] },
    { id: 3, callFrame: call('write', 'node:net') },
    { id: 4, callFrame: call('handle', 'file:///clone/src/handle.ts') },
    { id: 5, callFrame: call('(idle)', '') },
    { id: 6, callFrame: call('(garbage collector)', '') },
  ],
  startTime: 1000,
  samples: [2, 3, 3, 4, 5, 6],
  timeDeltas: [100, 100, 100, 100, 500, 200],
}

test('a profile becomes a tree of callers with times, without the time in which nothing was to do', () => {
  const top = frameTree(PROFILE, '/clone')
  assert.equal(top.totalUs, 600)
  const handle = top.children.get('handle src/handle.ts:10')
  assert.equal(handle?.totalUs, 400)
  assert.equal(handle?.selfUs, 100)
  assert.equal(handle?.children.get('write node:net')?.selfUs, 200)
})

test('only samples of the span count', () => {
  assert.equal(frameTree(PROFILE, '/clone', { fromUs: 1150, toUs: 1350 }).totalUs, 200)
})

test('functions are sorted by the time that they take themselves, and one that calls itself has its time once', () => {
  const hot = hottest(frameTree(PROFILE, '/clone'), 3)
  assert.deepEqual(
    hot.map(({ name, selfShare, totalShare }) => [name, Math.round(selfShare * 600), Math.round(totalShare * 600)]),
    [
      ['handle', 200, 400],
      ['write', 200, 200],
      ['(garbage collector)', 200, 200],
    ],
  )
})

test('in a flame graph a frame is as wide as its share, under its caller', () => {
  const picture = flameGraph('t <&>', frameTree(PROFILE, '/clone'))
  assertWellFormed(picture)
  const [all, handle, write] = attributesOf(picture, 'rect')
  assert.equal(Number(all?.['width']), 1000)
  assert.equal(Number(handle?.['width']), 666.7)
  assert.equal(Number(write?.['width']), 333.3)
  assert.equal(write?.['x'], handle?.['x'])
  assert.ok(Number(write?.['y']) > Number(handle?.['y']))
  assert.equal(write?.['class'], 'n')
})
