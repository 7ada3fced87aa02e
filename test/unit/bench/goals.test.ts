import assert from 'node:assert/strict'
import { test } from 'node:test'
import { grouped } from '../../../bench/figures.ts'
import { COSTS, GOALS, goalsTable, judge } from '../../../bench/goals.ts'
import { MAIN, MEASURES } from '../../../bench/measures.ts'
import { MAIN_PEERS, NPM_NAMES } from '../../../bench/peers.ts'
import type { Row } from '../../../bench/results.ts'
import { runOf } from '../../support/bench.ts'

const FORWARD = 'HTTP forward, 64 connections'
const LATENCY = 'the same, 1 connection: added p50 and p99'

function verdictOf(title: string, rows: readonly Row[]): string {
  return judge(grouped(rows), rows).find((one) => one.title === title)?.verdict ?? 'no such goal'
}

function forward(ours: number, peers: Readonly<Record<string, number>>): Row[] {
  return [runOf('fwd64', 'sallyport', 0, { rps: ours }), ...Object.entries(peers).map(([name, rps]) => runOf('fwd64', name, 0, { rps }))]
}

for (const { name, peers, verdict } of [
  { name: 'every must and every goal holds', peers: { goref: 1000, squid: 500, trafficserver: 1900 }, verdict: 'goal met' },
  { name: 'every must holds, the goal does not', peers: { goref: 1000, squid: 500, trafficserver: 2100 }, verdict: 'must met' },
  { name: 'one must is missed by a little', peers: { goref: 1700, squid: 500, trafficserver: 100 }, verdict: 'missed' },
  { name: 'one must is missed and another was not measured', peers: { goref: 9000 }, verdict: 'missed' },
  { name: 'a peer of a must was not measured', peers: { goref: 1000, trafficserver: 1000 }, verdict: 'not measured' },
  { name: 'the peer of the goal was not measured', peers: { goref: 1000, squid: 500 }, verdict: 'must met' },
  { name: 'nobody was measured', peers: {}, verdict: 'not measured' },
]) {
  test(`${verdict} is said when ${name}`, () => assert.equal(verdictOf(FORWARD, forward(2000, peers)), verdict))
}

test('exactly what is asked is enough', () => {
  assert.equal(verdictOf(FORWARD, forward(1200, { goref: 1000, squid: 800, trafficserver: 1200 })), 'goal met')
})

test('the best npm peer is the one that comes nearest to the gate', () => {
  const rows = [
    runOf('mitm64', 'sallyport', 0, { rps: 2400 }),
    runOf('mitm64', 'srt', 0, { rps: 1000 }),
    runOf('mitm64', 'http-mitm-proxy', 0, { rps: 10 }),
    runOf('mitm64', 'goref', 0, { rps: 100 }),
    runOf('mitm64', 'squid', 0, { rps: 100 }),
  ]
  const judged = judge(grouped(rows), rows).find((one) => one.title.startsWith('intercepted HTTPS'))
  assert.equal(judged?.verdict, 'missed')
  assert.deepEqual(
    judged?.must.map((one) => one.isMet),
    [true, true, false],
  )
})

test('latency is judged by what is added at p50 and at p99: a good p50 does not make up for a bad tail', () => {
  const rows = (p99: number): Row[] => [
    runOf('mitm1', 'direct', 0, { p50_us: 20, p99_us: 40 }),
    runOf('mitm1', 'sallyport', 0, { p50_us: 100, p99_us: p99 }),
    runOf('mitm1', 'squid', 0, { p50_us: 200, p99_us: 400 }),
  ]
  assert.equal(verdictOf(LATENCY, rows(390)), 'must met')
  assert.equal(verdictOf(LATENCY, rows(500)), 'missed')
})

test('a bound on the gate’s own figure is judged by its median', () => {
  const rows = [80, 84, 300].map((rss, run) => runOf('idle', 'sallyport', run, { rss_mb: rss }))
  assert.equal(verdictOf('idle memory', rows), 'must met')
})

test('costs without a peer are judged in both directions', () => {
  const cost = (name: string, value: number): Row => ({ type: 'cost', name, value })
  assert.equal(verdictOf('scrubbing an answer without a secret', [cost(COSTS.scrubbing, 299)]), 'missed')
  assert.equal(verdictOf('scrubbing an answer without a secret', [cost(COSTS.scrubbing, 1200)]), 'goal met')
  assert.equal(verdictOf('a decision at 1,000 rules', [cost(COSTS.decision, 0.6)]), 'goal met')
  assert.equal(verdictOf('a decision at 1,000 rules', [cost(COSTS.decision, 5.1)]), 'missed')
})

test('every goal is about a measure and a peer of a full run', () => {
  const known = new Set(['direct', 'best npm peer', ...MAIN_PEERS])
  for (const bound of GOALS.flatMap(({ must, goal }) => [...must, ...goal])) {
    if (bound.kind === 'cost') continue
    assert.ok(MEASURES.has(bound.measure), bound.measure)
    assert.ok(
      MAIN.some(({ name }) => name === bound.measure),
      `${bound.measure} is not in a full run`,
    )
    if (bound.kind !== 'most') assert.ok(known.has(bound.peer), bound.peer)
  }
  assert.ok(MAIN_PEERS.some((peer) => NPM_NAMES.includes(peer)))
})

test('the table has a row for each goal, with the ratio beside the verdict', () => {
  const rows = forward(2000, { goref: 1000, squid: 500, trafficserver: 1900 })
  const lines = goalsTable(judge(grouped(rows), rows)).split('\n')
  assert.equal(lines.length, GOALS.length + 2)
  assert.equal(
    lines[2],
    '| HTTP forward, 64 connections | ≥ 1.2 × goref, ≥ 1.5 × squid | ≥ 1 × trafficserver | 2.00 × goref, 4.00 × squid, 1.05 × trafficserver | **goal met** |',
  )
})
