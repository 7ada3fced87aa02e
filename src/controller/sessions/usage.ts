import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { SessionUsage } from '../../wire/session-facts.ts'
import type { ContainerUsage, Engine } from './engine.ts'

type Running = { readonly id: string; readonly container: string }
type Figures = Readonly<Record<string, SessionUsage>>

/**
 * What agents use, read when somebody asks and at most once in `LIMITS.usageEveryMs`, however many do. A rate is that between two
 * readings; one of which nothing can be read now is left out.
 */
export function createUsage(engine: Pick<Engine, 'usage'>, running: () => readonly Running[], system: Pick<System, 'elapsed'>) {
  let last: { readonly at: number; readonly figures: Promise<Figures> } | undefined
  let before: ReadonlyMap<string, ContainerUsage> = new Map()

  async function read(): Promise<Figures> {
    const found = await Promise.all(
      running().map(async ({ id, container }) => {
        const usage = await engine.usage(container).catch(() => undefined)
        return usage === undefined ? [] : [{ id, container, usage }]
      }),
    )
    const earlier = before
    const all = found.flat()
    before = new Map(all.map(({ container, usage }) => [container, usage]))
    return Object.fromEntries(all.map(({ id, container, usage }) => [id, figuresOf(usage, earlier.get(container))]))
  }

  return (): Promise<Figures> => {
    const at = system.elapsed()
    if (last === undefined || at - last.at >= LIMITS.usageEveryMs) last = { at, figures: read() }
    return last.figures
  }
}

function figuresOf({ atMs, processorMs, ...now }: ContainerUsage, earlier: ContainerUsage | undefined): SessionUsage {
  const passedMs = earlier === undefined ? 0 : atMs - earlier.atMs
  // Fewer than before: it was started anew meanwhile.
  const usedMs = earlier === undefined ? 0 : processorMs - earlier.processorMs
  return { ...now, cpuPercent: passedMs <= 0 || usedMs < 0 ? null : Math.round((usedMs / passedMs) * 1_000) / 10 }
}
