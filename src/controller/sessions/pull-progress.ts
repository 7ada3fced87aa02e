import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { PullView } from '../../wire/operator.ts'
import type { PullStep } from './engine.ts'

type Layer = { readonly doneBytes: number; readonly totalBytes: number; readonly isDone: boolean }

/** The engine's own words for a layer that is there. */
const THERE: ReadonlySet<string> = new Set(['Pull complete', 'Already exists'])
/** The same for one whose bytes have come and that is unpacked yet. */
const FETCHED: ReadonlySet<string> = new Set(['Verifying Checksum', 'Download complete', 'Extracting'])

/**
 * Sums up what the engine says of each layer, and says it once every `LIMITS.pullReportMs` at most: an engine reports every few
 * kilobytes. `end` says the last of it.
 */
export function createPullProgress(
  image: string,
  report: (view: PullView) => void,
  system: Pick<System, 'elapsed'>,
): { step(step: PullStep): void; end(): void } {
  const layers = new Map<string, Layer>()
  let reportedMs = Number.NEGATIVE_INFINITY
  const say = (isDone: boolean): void => {
    const all = [...layers.values()]
    const sum = (field: 'doneBytes' | 'totalBytes'): number => all.reduce((bytes, layer) => bytes + layer[field], 0)
    reportedMs = system.elapsed()
    report({
      image,
      layers: all.length,
      layersDone: all.filter((layer) => layer.isDone).length,
      doneBytes: sum('doneBytes'),
      totalBytes: sum('totalBytes'),
      isDone,
    })
  }
  return {
    step({ layer, status, doneBytes, totalBytes }) {
      // The tag, and what is said of the image as a whole, have no bytes.
      if (!/^[0-9a-f]{12}$/.test(layer)) return
      if (!layers.has(layer) && layers.size >= LIMITS.imageLayersMax) return
      const before = layers.get(layer) ?? { doneBytes: 0, totalBytes: 0, isDone: false }
      const isDone = before.isDone || THERE.has(status)
      const isFetched = isDone || FETCHED.has(status)
      const total = status === 'Downloading' ? (totalBytes ?? before.totalBytes) : before.totalBytes
      const done = isFetched ? total : status === 'Downloading' ? (doneBytes ?? before.doneBytes) : before.doneBytes
      layers.set(layer, { doneBytes: done, totalBytes: total, isDone })
      if (system.elapsed() - reportedMs >= LIMITS.pullReportMs) say(false)
    },
    end: () => say(true),
  }
}
