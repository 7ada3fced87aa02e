import { useEffect, useState } from 'preact/hooks'
import type { ActivityBucket, ActivitySeries } from '../../wire/activity.ts'
import { call, Problem } from '../api/client.ts'
import { ProblemNote } from '../parts/problem-note.tsx'
import { bytes } from '../parts/time.tsx'
import { filter } from './address.ts'
import { Chart, type Curve } from './chart.tsx'
import { Table } from '../parts/table.tsx'

/** While the page is looked at the figures are read again so often. */
const AGAIN_MS = 10_000
const STRETCHES = [
  [15, '15 minutes'],
  [60, '1 hour'],
  [360, '6 hours'],
  [1_440, '24 hours'],
] as const

const CHARTS: readonly { readonly title: string; readonly unit: (value: number) => string; readonly curves: readonly Curve[] }[] = [
  { title: 'Requests', unit: String, curves: [{ label: 'requests', colour: '--accent', of: ({ requests }) => requests }] },
  {
    title: 'Refusals',
    unit: String,
    curves: [
      { label: 'denied', colour: '--bad', of: ({ denials }) => denials },
      { label: 'asked', colour: '--warn', of: ({ asks }) => asks, isDashed: true },
    ],
  },
  {
    title: 'Bytes',
    unit: bytes,
    curves: [
      { label: 'received', colour: '--accent', of: ({ bytesDown }) => bytesDown },
      { label: 'sent', colour: '--warn', of: ({ bytesUp }) => bytesUp, isDashed: true },
    ],
  },
  {
    title: 'Answers',
    unit: (ms) => `${Math.round(ms)} ms`,
    curves: [
      { label: 'median', colour: '--accent', of: ({ p50 }) => p50 },
      { label: '95 %', colour: '--bad', of: ({ p95 }) => p95, isDashed: true },
    ],
  },
]

/** What happened over time, of the session that is filtered by or of all. */
export function Charts() {
  const { session, plane } = filter.value
  const [minutes, setMinutes] = useState(60)
  const [series, setSeries] = useState<ActivitySeries>()
  const [problem, setProblem] = useState<Problem>()
  const query = new URLSearchParams({
    minutes: String(minutes),
    ...(session !== undefined && { session }),
    ...(plane !== undefined && { plane }),
  })
  const path = `/v1/activity/series?${query.toString()}`
  useEffect(() => {
    const stop = new AbortController()
    const read = (): void => {
      if (document.hidden) return
      call<ActivitySeries>('GET', path, undefined, stop.signal).then(
        (found) => (setSeries(found), setProblem(undefined)),
        (error: unknown) => {
          if (!stop.signal.aborted && error instanceof Problem) setProblem(error)
        },
      )
    }
    read()
    const timer = setInterval(read, AGAIN_MS)
    document.addEventListener('visibilitychange', read)
    return () => {
      stop.abort()
      clearInterval(timer)
      document.removeEventListener('visibilitychange', read)
    }
  }, [path])
  return (
    <section class="activity-over-time stack" aria-label="Over time">
      <div class="row activity-stretch">
        <label for="activity-minutes">The last</label>
        <select
          id="activity-minutes"
          class="input activity-minutes"
          value={minutes}
          onChange={(event) => setMinutes(Number(event.currentTarget.value))}
        >
          {STRETCHES.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </div>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {series !== undefined && (
        <>
          <div class="activity-charts">
            {CHARTS.map(({ title, unit, curves }) => (
              <Chart key={title} title={title} unit={unit} curves={curves} series={series} />
            ))}
          </div>
          <Figures series={series} />
        </>
      )}
    </section>
  )
}

/** The same in words, for those who do not see curves. */
function Figures({ series: { buckets, stepMs } }: { series: ActivitySeries }) {
  const some = buckets.filter(({ requests, bytesDown, bytesUp }) => requests + bytesDown + bytesUp > 0).toReversed()
  const step = stepMs < 60_000 ? `${stepMs / 1_000} seconds` : `${stepMs / 60_000} minutes`
  return (
    <details>
      <summary>The figures of the charts</summary>
      {some.length === 0 ? (
        <p class="quiet">Nothing happened in this time.</p>
      ) : (
        <Table
          label="The figures of the charts"
          heads={['From', 'Requests', 'Denied', 'Asked', 'Received', 'Sent', 'Median answer', '95 % within']}
          caption={`In stretches of ${step}, newest first. Those without anything are left out.`}
          around="activity-figures"
        >
          {some.map((bucket) => (
            <Row key={bucket.at} bucket={bucket} />
          ))}
        </Table>
      )}
    </details>
  )
}

function Row({ bucket }: { bucket: ActivityBucket }) {
  const { at, requests, denials, asks, bytesDown, bytesUp, p50, p95 } = bucket
  return (
    <tr>
      <th scope="row">{new Date(at).toLocaleTimeString()}</th>
      <td>{requests}</td>
      <td>{denials}</td>
      <td>{asks}</td>
      <td>{bytes(bytesDown)}</td>
      <td>{bytes(bytesUp)}</td>
      <td>{p50 === undefined ? '' : `${p50} ms`}</td>
      <td>{p95 === undefined ? '' : `${p95} ms`}</td>
    </tr>
  )
}
