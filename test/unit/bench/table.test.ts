import assert from 'node:assert/strict'
import { test } from 'node:test'
import { grouped } from '../../../bench/figures.ts'
import { replaceSection } from '../../../bench/document.ts'
import { figuresReport } from '../../../bench/report.ts'
import type { Row } from '../../../bench/results.ts'
import { detailTables, markdownTable, oneLine, overviewTable, written } from '../../../bench/table.ts'
import { runOf } from '../../support/bench.ts'

const ROWS: Row[] = [
  runOf('mitm64', 'direct', 0, { rps: 40_000, p50_us: 100, p99_us: 300 }),
  runOf('mitm64', 'sallyport', 0, { rps: 20_000, p50_us: 400, p99_us: 900, cpu_us: 50.04, rss_mb: 90.6 }),
  runOf('mitm64', 'squid', 0, { rps: 10_000, p50_us: 900, p99_us: 2000, cpu_us: 100, rss_mb: 40, err: 3, errors: 'status 503' }),
  { type: 'skip', measure: 'mitm64', peer: 'dante', why: 'it does not | intercept' },
]

test('a table has as many cells in every line as it has headings, also where a text has a bar in it', () => {
  const lines = markdownTable(['', 'a', 'b'], [['x | y', '1', '2']]).split('\n')
  assert.deepEqual(lines, ['|  | a | b |', '|---|---:|---:|', '| x \\| y | 1 | 2 |'])
})

test('figures have thousands set apart and as many digits as are asked for, and what was not measured is empty', () => {
  assert.equal(written(1234567.891, 1), '1,234,567.9')
  assert.equal(written(0.5), '1')
  assert.equal(written(undefined), '')
})

test('a measure in full says rate, added latency, processor time, the share of direct, the ratio to each peer, and the errors', () => {
  const text = detailTables(ROWS)
  assert.match(text, /^### `mitm64`: /)
  assert.match(text, /\| direct \| 40,000 \|  \|  \|  \|  \|  \| 0\.50 \| 1 \| 0 \|/)
  assert.match(text, /\| \*\*sallyport\*\* \| 20,000 \| 300 \| 600 \| 50\.0 \| 91 \| 0\.50 \|  \| 1 \| 0 \|/)
  assert.match(text, /\| squid \| 10,000 \| 800 \| 1,700 \| 100\.0 \| 40 \| 0\.25 \| 2\.00 \| 1 \| 3 \|/)
  assert.match(text, /- dante for mitm64: it does not \| intercept/)
})

test('the overview puts the gate first, then the ceiling, and leaves empty what a peer cannot do', () => {
  const groups = grouped([...ROWS, runOf('contlsbulk', 'sallyport', 0, { MBps: 700, cpu_s_per_gib: 0.451 })])
  assert.deepEqual(overviewTable(groups).split('\n'), [
    '|  | **sallyport** | direct | squid |',
    '|---|---:|---:|---:|',
    '| `mitm64` /s (CPU µs) | 20,000 (50) | 40,000 | 10,000 (100) |',
    '| `contlsbulk` MB/s (CPU s/GiB) | 700 (0.45) |  |  |',
  ])
})

test('a line for the terminal has what its kind of measure is about, and errors are never left out', () => {
  assert.match(oneLine(runOf('mitm64', 'squid', 0, { rps: 10_000, err: 3, errors: 'status 503' })), /10,000 \/s {2}3 errors: status 503$/)
  assert.doesNotMatch(oneLine(runOf('mitmbulk', 'squid', 0, { rps: 1, MBps: 300 })), /1 \/s/)
})

test('a report names machine, versions, what was skipped and what failed, and links every picture that it has', () => {
  const { body, pictures } = figuresReport([
    {
      type: 'machine',
      date: '2026-01-02',
      cpu: 'CPU',
      cpus: 2,
      kernel: '6.1',
      loadAverage: 0.5,
      versions: { sallyport: '1', node: '24.1', openssl: '3', squid: '5.7' },
    },
    ...ROWS,
  ])
  assert.match(body, /Measured 2026-01-02 on 2 × CPU, Linux 6\.1; load average 0\.5/)
  assert.match(body, /squid 5\.7/)
  assert.match(body, /Not measured: dante for `mitm64`/)
  assert.match(body, /Errors: squid at `mitm64`: 3 \(status 503\)/)
  for (const name of Object.keys(pictures)) assert.ok(body.includes(`(bench-${name}.svg)`), name)
})

test('a section is replaced between its markers, and nothing else is', () => {
  const before = 'a\n<!-- bench:soak -->\nold\n<!-- /bench:soak -->\nb <!-- bench:scale --><!-- /bench:scale -->'
  assert.equal(
    replaceSection(before, 'soak', '\nnew\n'),
    'a\n<!-- bench:soak -->\n\nnew\n\n<!-- /bench:soak -->\nb <!-- bench:scale --><!-- /bench:scale -->',
  )
  assert.equal(replaceSection(replaceSection(before, 'soak', 'x'), 'soak', 'new'), replaceSection(before, 'soak', 'new'))
})

for (const { name, text } of [
  { name: 'are missing', text: 'nothing' },
  { name: 'are in the wrong order', text: '<!-- /bench:soak --><!-- bench:soak -->' },
  { name: 'begin twice', text: '<!-- bench:soak --><!-- bench:soak --><!-- /bench:soak -->' },
]) {
  test(`a document whose markers ${name} is not written`, () => assert.throws(() => replaceSection(text, 'soak', 'x'), /has no part/))
}
