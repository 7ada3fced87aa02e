import { escapeXml, svg } from './chart.ts'

/** A profile as V8 writes it (`--cpu-prof`): microseconds between samples, each sample a node. */
export type CpuProfile = {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
    readonly children?: readonly number[]
  }[]
  /** Of the monotonic clock, as `process.hrtime` has it. */
  readonly startTime: number
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

/** One function in one chain of callers. Times in microseconds. */
export type Frame = {
  readonly name: string
  /** `src/audit/audit.ts:120`, `node:net`, or nothing for V8's own. */
  readonly place: string
  selfUs: number
  totalUs: number
  readonly children: Map<string, Frame>
}

export type Hot = { readonly name: string; readonly place: string; readonly selfShare: number; readonly totalShare: number }

/** Time in which the process had nothing to do. */
const IDLE = '(idle)'

/** From when to when, in microseconds of the monotonic clock. */
export type Span = { readonly fromUs: number; readonly toUs: number }

/**
 * Samples of a span as a tree of callers, same callers put together, without the time in which there was nothing to do. Files
 * below `root` are named from there.
 */
export function frameTree(profile: CpuProfile, root: string, { fromUs, toUs }: Span = { fromUs: 0, toUs: Infinity }): Frame {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]))
  const parents = new Map(profile.nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node.id] as const)))
  const top = frame('all', '')
  let nowUs = profile.startTime
  profile.samples.forEach((sample, i) => {
    // V8 gives the time since the sample before: it belongs to what ran then, which differs from this one by half a sample.
    const us = Math.max(0, profile.timeDeltas[i] ?? 0)
    nowUs += us
    if (nowUs < fromUs || nowUs > toUs) return
    const chain: NonNullable<ReturnType<typeof nodes.get>>['callFrame'][] = []
    for (let id: number | undefined = sample; id !== undefined; id = parents.get(id)) {
      const node = nodes.get(id)
      if (node !== undefined && node.callFrame.functionName !== '(root)') chain.unshift(node.callFrame)
    }
    if (chain[0]?.functionName === IDLE) return
    top.totalUs += us
    let at = top
    for (const call of chain) {
      const name = call.functionName || '(anonymous)'
      const place = placeOf(call, root)
      const key = `${name} ${place}`
      const next = at.children.get(key) ?? frame(name, place)
      at.children.set(key, next)
      next.totalUs += us
      at = next
    }
    at.selfUs += us
  })
  return top
}

/** Functions by the time that they themselves take, whoever calls them. Shares of all but idle time. */
export function hottest(top: Frame, count: number): Hot[] {
  const found = new Map<string, { name: string; place: string; selfUs: number; totalUs: number }>()
  const visit = (one: Frame, above: ReadonlySet<string>): void => {
    const key = `${one.name} ${one.place}`
    const sum = found.get(key) ?? { name: one.name, place: one.place, selfUs: 0, totalUs: 0 }
    found.set(key, sum)
    sum.selfUs += one.selfUs
    // A function that calls itself has its time once.
    if (!above.has(key)) sum.totalUs += one.totalUs
    const within = new Set([...above, key])
    for (const child of one.children.values()) visit(child, within)
  }
  for (const child of top.children.values()) visit(child, new Set())
  const all = Math.max(1, top.totalUs)
  return [...found.values()]
    .toSorted((a, b) => b.selfUs - a.selfUs)
    .slice(0, count)
    .map(({ name, place, selfUs, totalUs }) => ({ name, place, selfShare: selfUs / all, totalShare: totalUs / all }))
}

const WIDTH = 1000
const ROW = 17
const HEAD = 26
/** A frame that is narrower could not be seen. */
const NARROWEST = 1.5
const CHAR = 6.6
const STYLE = `text{font:11px ui-monospace,monospace;fill:#1f2328}.t{font:600 14px system-ui,sans-serif;fill:#57606a}rect{stroke:#fff;stroke-width:.5}
.s{fill:#8fb8e8}.n{fill:#c3cbd4}.v{fill:#e0b184}
@media(prefers-color-scheme:dark){.t{fill:#a8b1bb}rect{stroke:#0d1117}}`

/** Who calls (above) whom (below), as wide as it takes time: our sources, Node's own, and what V8 does itself in three colours. */
export function flameGraph(title: string, top: Frame): string {
  const body: string[] = []
  let deepest = 0
  const draw = (one: Frame, x: number, depth: number): void => {
    const width = (one.totalUs / Math.max(1, top.totalUs)) * WIDTH
    if (width < NARROWEST) return
    deepest = Math.max(deepest, depth)
    body.push(drawnFrame(one, x, depth, width, top.totalUs))
    let at = x
    for (const child of [...one.children.values()].toSorted((a, b) => b.totalUs - a.totalUs)) {
      draw(child, at, depth + 1)
      at += (child.totalUs / Math.max(1, top.totalUs)) * WIDTH
    }
  }
  draw(top, 0, 0)
  const legend = `<text class="t" x="0" y="17">${escapeXml(title)}</text>`
  return svg(WIDTH, HEAD + (deepest + 1) * ROW, title, STYLE, [legend, ...body])
}

function drawnFrame(one: Frame, x: number, depth: number, width: number, allUs: number): string {
  const y = HEAD + depth * ROW
  const kind = one.place === '' ? 'v' : one.place.startsWith('node:') ? 'n' : 's'
  const share = `${((one.totalUs / Math.max(1, allUs)) * 100).toFixed(1)} %`
  const chars = Math.floor((width - 4) / CHAR)
  const label = chars < 3 ? '' : one.name.slice(0, chars)
  const drawn = label === '' ? '' : `<text x="${(x + 2).toFixed(1)}" y="${y + 12}">${escapeXml(label)}</text>`
  const about = escapeXml(`${one.name} ${one.place} ${share}`)
  return `<g><title>${about}</title><rect class="${kind}" x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${ROW - 1}"/>${drawn}</g>`
}

function frame(name: string, place: string): Frame {
  return { name, place, selfUs: 0, totalUs: 0, children: new Map() }
}

function placeOf(call: CpuProfile['nodes'][number]['callFrame'], root: string): string {
  if (call.url === '') return ''
  if (call.url.startsWith('node:')) return call.url
  const file = call.url.replace(/^file:\/\//, '')
  const own = file.startsWith(`${root}/`) ? file.slice(root.length + 1) : (file.split('/node_modules/').at(-1) ?? file)
  return `${own}:${call.lineNumber + 1}`
}
