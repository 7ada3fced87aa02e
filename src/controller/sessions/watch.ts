import { setTimeout as delay } from 'node:timers/promises'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Engine, EngineEvent } from './engine.ts'
import { homeLabel } from './session-names.ts'

/**
 * Follows what happens to the containers of this home, until `signal`. Where the engine goes away it is asked again, and `resync` is
 * called when it is back: what happened meanwhile nobody tells.
 */
export async function watchEngine(
  engine: Pick<Engine, 'events' | 'info'>,
  home: string,
  handle: (event: EngineEvent) => Promise<void>,
  resync: () => Promise<void>,
  report: (code: string) => void,
  signal: AbortSignal,
): Promise<void> {
  let wasLost = false
  while (!signal.aborted) {
    try {
      if (wasLost) {
        await engine.info()
        await resync()
        wasLost = false
      }
      for await (const event of engine.events(homeLabel(home), signal)) await handle(event)
      // It ends them when it restarts: what happens until somebody listens again is as unknown as after a fault.
      throw new SallyportError('engine_unavailable', 'the engine ended its events')
    } catch (error) {
      if (signal.aborted) return
      if (!wasLost) report(codeOf(error))
      wasLost = true
      await delay(LIMITS.engineRetryMs, undefined, { signal }).catch(() => {})
    }
  }
}
