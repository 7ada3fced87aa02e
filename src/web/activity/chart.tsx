import { useEffect, useRef } from 'preact/hooks'
import type { default as UPlot, Options } from 'uplot'
import type { ActivityBucket, ActivitySeries } from '../../wire/activity.ts'
import { onTheme } from '../shell/theme.ts'

export type Curve = {
  readonly label: string
  /** Name of a token. */
  readonly colour: string
  readonly of: (bucket: ActivityBucket) => number | undefined
  readonly isDashed?: true
}

const HEIGHT_PIXELS = 112
const DASH = [4, 3]
const AXIS_PIXELS = 60
const TIME_AXIS_PIXELS = 30
/** Whole numbers between the lines of the grid: there is no half request. */
const STEPS = [1, 2, 5].flatMap((first) => Array.from({ length: 12 }, (_, power) => first * 10 ** power)).toSorted((a, b) => a - b)
const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })

/** Curves over time. What they say is in a table beside them too: to a reader of the screen this is a picture. */
export function Chart(props: {
  readonly title: string
  readonly unit: (value: number) => string
  readonly curves: readonly Curve[]
  readonly series: ActivitySeries
}) {
  const { title, unit, curves, series } = props
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot>(undefined)
  const data = useRef<UPlot.AlignedData>([[]])
  data.current = dataOf(series, curves)
  useEffect(() => {
    const element = place.current
    if (element === null) return undefined
    let isOver = false
    let draw = (): void => undefined
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PIXELS }))
    void import('./uplot.ts').then(({ uPlot }) => {
      if (isOver) return
      draw = () => {
        plot.current?.destroy()
        plot.current = new uPlot(optionsOf(element.clientWidth, unit, curves), data.current, element)
      }
      draw()
      resized.observe(element)
    })
    // Colours are drawn, not styled: another theme is another drawing.
    const stop = onTheme(() => draw())
    return () => {
      isOver = true
      resized.disconnect()
      stop()
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [unit, curves])
  useEffect(() => plot.current?.setData(data.current), [series])
  return (
    <figure class="activity-chart card">
      <figcaption>
        <b>{title}</b>
        {curves.map(({ label, colour, isDashed }) => (
          <span key={label} class={`activity-key activity-key${colour}${isDashed === true ? ' activity-key-dashed' : ''}`}>
            {label}
          </span>
        ))}
      </figcaption>
      <div ref={place} class="activity-drawing" role="img" aria-label={spoken(title, series, curves, unit)} />
    </figure>
  )
}

function dataOf({ buckets }: ActivitySeries, curves: readonly Curve[]): UPlot.AlignedData {
  return [buckets.map(({ at }) => at / 1_000), ...curves.map(({ of }) => buckets.map((bucket) => of(bucket) ?? null))]
}

/** The highest of each curve. */
function spoken(title: string, { buckets }: ActivitySeries, curves: readonly Curve[], unit: (value: number) => string): string {
  const parts = curves.map(
    ({ label, of }) => `${label} at most ${unit(buckets.reduce((most, bucket) => Math.max(most, of(bucket) ?? 0), 0))}`,
  )
  return `${title}: ${parts.join(', ')}`
}

function optionsOf(width: number, unit: (value: number) => string, curves: readonly Curve[]): Options {
  const style = getComputedStyle(document.documentElement)
  const colour = (token: string): string => style.getPropertyValue(token).trim()
  const axis = {
    stroke: colour('--ink-quiet'),
    font: `11px ${style.getPropertyValue('--font')}`,
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { stroke: colour('--line'), width: 1, size: 4 },
  }
  return {
    width,
    height: HEIGHT_PIXELS,
    legend: { show: false },
    cursor: { sync: { key: 'activity' }, drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(1, most) * 1.1] } },
    axes: [
      { ...axis, size: TIME_AXIS_PIXELS, space: 60, values: (_plot, seconds) => seconds.map((at) => CLOCK.format(at * 1_000)) },
      { ...axis, size: AXIS_PIXELS, incrs: STEPS, space: 26, values: (_plot, values) => values.map(unit) },
    ],
    series: [
      {},
      ...curves.map(({ label, colour: token, isDashed }) => ({
        label,
        stroke: colour(token),
        width: 1.5,
        spanGaps: false,
        points: { size: 4 },
        ...(isDashed === true && { dash: DASH }),
      })),
    ],
  }
}
