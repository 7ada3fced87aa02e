import { measureOf } from '../../bench/measures.ts'
import type { Figures, Run } from '../../bench/results.ts'

/** One row of results. */
export function runOf(measure: string, peer: string, run: number, figures: Partial<Figures>): Run {
  return { type: 'run', measure, kind: measureOf(measure).kind, peer, run, ok: 1, err: 0, ...figures }
}
