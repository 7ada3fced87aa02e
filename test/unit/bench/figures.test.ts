import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answered, rotated } from '../../../bench/bench.ts'
import { added, addedRatio, grouped, median, middle, ratio } from '../../../bench/figures.ts'
import { slope } from '../../../bench/soak.ts'
import { runOf } from '../../support/bench.ts'

for (const { values, middleOne } of [
  { values: [], middleOne: undefined },
  { values: [7], middleOne: 7 },
  { values: [9, 1], middleOne: 5 },
  { values: [100, 1, 2], middleOne: 2 },
  { values: [4, 1, 3, 1000], middleOne: 3.5 },
]) {
  test(`the median of ${JSON.stringify(values)} is ${middleOne}`, () => assert.equal(median(values), middleOne))
}

test('a ratio is taken within each run: a machine that is half as fast in one run changes nothing', () => {
  const groups = grouped([
    runOf('fwd64', 'sallyport', 0, { rps: 2000 }),
    runOf('fwd64', 'squid', 0, { rps: 1000 }),
    runOf('fwd64', 'sallyport', 1, { rps: 1000 }),
    runOf('fwd64', 'squid', 1, { rps: 500 }),
    runOf('fwd64', 'sallyport', 2, { rps: 1000 }),
    runOf('fwd64', 'squid', 2, { rps: 500 }),
  ])
  const peers = groups.get('fwd64')
  assert.equal(ratio(peers?.get('sallyport'), peers?.get('squid'), 'rps'), 2)
  assert.equal(middle(peers?.get('sallyport'), 'rps'), 1000)
})

test('a run that only one of the two has counts for neither', () => {
  const groups = grouped([
    runOf('fwd64', 'sallyport', 0, { rps: 3000 }),
    runOf('fwd64', 'squid', 0, { rps: 1000 }),
    runOf('fwd64', 'sallyport', 1, { rps: 90_000 }),
  ])
  assert.equal(ratio(groups.get('fwd64')?.get('sallyport'), groups.get('fwd64')?.get('squid'), 'rps'), 3)
})

test('of latency, memory and processor time less is better: the ratio is above 1 for who has less', () => {
  const groups = grouped([runOf('idle', 'sallyport', 0, { rss_mb: 50, cpu_us: 5 }), runOf('idle', 'squid', 0, { rss_mb: 100, cpu_us: 20 })])
  const [ours, theirs] = [groups.get('idle')?.get('sallyport'), groups.get('idle')?.get('squid')]
  assert.equal(ratio(ours, theirs, 'rss_mb'), 2)
  assert.equal(ratio(theirs, ours, 'cpu_us'), 0.25)
})

test('a run without answers has no ratio: nothing is infinitely better than a peer that failed', () => {
  const groups = grouped([runOf('fwd64', 'sallyport', 0, { rps: 1000 }), runOf('fwd64', 'squid', 0, { rps: 0 })])
  assert.equal(ratio(groups.get('fwd64')?.get('sallyport'), groups.get('fwd64')?.get('squid'), 'rps'), undefined)
})

test('what a proxy adds is its latency less that of the same run without one', () => {
  const groups = grouped([
    runOf('mitm1', 'direct', 0, { p50_us: 20 }),
    runOf('mitm1', 'sallyport', 0, { p50_us: 120 }),
    runOf('mitm1', 'squid', 0, { p50_us: 220 }),
    runOf('mitm1', 'direct', 1, { p50_us: 50 }),
    runOf('mitm1', 'sallyport', 1, { p50_us: 150 }),
    runOf('mitm1', 'squid', 1, { p50_us: 250 }),
  ])
  const peers = groups.get('mitm1')
  assert.equal(added(peers?.get('sallyport'), peers?.get('direct'), 'p50_us'), 100)
  assert.equal(addedRatio(peers?.get('sallyport'), peers?.get('squid'), peers?.get('direct'), 'p50_us'), 2)
})

test('who answers nothing has an error and no latency that nobody beats', () => {
  assert.deepEqual(answered({ ok: 0, err: 0, rps: 0, p50_us: 0, p99_us: 0 }), { ok: 0, err: 1, errors: 'nothing was answered' })
  assert.deepEqual(answered({ ok: 0, err: 7, errors: 'status 503' }), { ok: 0, err: 7, errors: 'status 503' })
  assert.deepEqual(answered({ ok: 1, err: 7, p50_us: 3 }), { ok: 1, err: 7, p50_us: 3 })
})

test('who comes first changes from run to run, and everybody comes', () => {
  assert.deepEqual(
    [0, 1, 2, 3].map((run) => rotated(['a', 'b', 'c'], run).join('')),
    ['abc', 'bca', 'cab', 'abc'],
  )
  assert.deepEqual(rotated([], 2), [])
})

test('of the same run of the same peer the later row counts', () => {
  const groups = grouped([runOf('fwd64', 'squid', 0, { rps: 1 }), runOf('fwd64', 'squid', 0, { rps: 2 })])
  assert.equal(middle(groups.get('fwd64')?.get('squid'), 'rps'), 2)
})

test('the slope of points on a line is its own, and of a single point it is 0', () => {
  assert.equal(slope([0, 1, 2, 3].map((x) => ({ x, y: 80 + 2.5 * x }))), 2.5)
  assert.equal(slope([{ x: 4, y: 9 }]), 0)
  assert.equal(slope([]), 0)
})
