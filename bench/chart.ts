export type Bar = { readonly label: string; readonly value: number; readonly isOurs?: boolean }
export type BarGroup = { readonly label: string; readonly bars: readonly Bar[] }
export type Point = { readonly x: number; readonly y: number }

const WIDTH = 720
const LABEL_WIDTH = 150
const VALUE_WIDTH = 80
const BAR = 16
const GAP = 5
const GROUP_GAP = 18
const TITLE = 34
/** The widest bar. */
export const PLOT_WIDTH = WIDTH - LABEL_WIDTH - VALUE_WIDTH

/** Readable on light and dark pages: the picture has no background of its own. */
const STYLE = `text{font:12px system-ui,sans-serif;fill:#57606a}.t{font-size:14px;font-weight:600}.g{font-weight:600}.v{font-variant-numeric:tabular-nums}
.o{fill:#2f6fbf}.p{fill:#9aa4ae}.l{stroke:#2f6fbf;fill:none;stroke-width:1.5}.a{stroke:#9aa4ae;stroke-width:1}
@media(prefers-color-scheme:dark){text{fill:#a8b1bb}.o{fill:#5b9be6}.p{fill:#6b7580}.l{stroke:#5b9be6}.a{stroke:#6b7580}}`

/** Text as XML has it. */
export function escapeXml(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

/** A whole picture. */
export function svg(width: number, height: number, title: string, style: string, body: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<title>${escapeXml(title)}</title>
<style>${style}</style>
${body.join('\n')}
</svg>
`
}

/**
 * Horizontal bars in groups, the longest of each group across the whole width: groups may have units of their own, and what is
 * compared stands within one.
 */
export function barChart(title: string, groups: readonly BarGroup[], write: (value: number) => string): string {
  const body = [text(0, 18, title, 't')]
  let y = TITLE
  for (const { label, bars } of groups) {
    if (bars.length === 0) continue
    body.push(text(0, y + 12, label, 'g'))
    y += BAR + GAP
    const widest = Math.max(...bars.map((bar) => bar.value))
    for (const { label: name, value, isOurs = false } of bars) {
      const width = widest <= 0 ? 0 : round((Math.max(0, value) / widest) * PLOT_WIDTH)
      body.push(
        text(LABEL_WIDTH - 8, y + 12, name, isOurs ? 'g' : '', 'end'),
        `<rect class="${isOurs ? 'o' : 'p'}" x="${LABEL_WIDTH}" y="${y}" width="${width}" height="${BAR}" rx="2"/>`,
        text(round(LABEL_WIDTH + width + 6), y + 12, write(value), 'v'),
      )
      y += BAR + GAP
    }
    y += GROUP_GAP
  }
  return svg(WIDTH, y, title, STYLE, body)
}

const LINE = { left: 60, top: TITLE + 8, width: 620, height: 180 } as const

/** One line over time or size; both axes begin at zero. */
export function lineChart(title: string, points: readonly Point[], axes: { readonly x: string; readonly y: string }): string {
  const most = { x: Math.max(1, ...points.map((point) => point.x)), y: Math.max(1, ...points.map((point) => point.y)) }
  const bottom = LINE.top + LINE.height
  const at = ({ x, y }: Point): string => `${round(LINE.left + (x / most.x) * LINE.width)},${round(bottom - (y / most.y) * LINE.height)}`
  const body = [
    text(0, 18, title, 't'),
    `<line class="a" x1="${LINE.left}" y1="${bottom}" x2="${LINE.left + LINE.width}" y2="${bottom}"/>`,
    `<line class="a" x1="${LINE.left}" y1="${LINE.top}" x2="${LINE.left}" y2="${bottom}"/>`,
    `<polyline class="l" points="${points.map(at).join(' ')}"/>`,
    text(LINE.left - 6, LINE.top + 10, short(most.y), 'v', 'end'),
    text(LINE.left - 6, bottom, '0', 'v', 'end'),
    text(LINE.left + LINE.width, bottom + 16, `${short(most.x)} ${axes.x}`, 'v', 'end'),
    text(LINE.left + 6, LINE.top + 10, axes.y, ''),
  ]
  return svg(WIDTH, bottom + 24, title, STYLE, body)
}

/** An SVG text element. */
export function text(x: number, y: number, content: string, style: string, anchor?: 'end' | 'middle'): string {
  const attributes = `${style === '' ? '' : ` class="${style}"`}${anchor === undefined ? '' : ` text-anchor="${anchor}"`}`
  return `<text x="${x}" y="${y}"${attributes}>${escapeXml(content)}</text>`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

function short(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: value < 10 ? 1 : 0 })
}
