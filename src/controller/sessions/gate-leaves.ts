import { setTimeout as delay } from 'node:timers/promises'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Engine } from './engine.ts'

/**
 * Takes a gate off a network, and looks whether it is: one that is just started again by the engine is in none yet, and would begin in this
 * one. Where that is gone by then it does not begin at all. Resolves at once for a gate that is gone, or was never there.
 * @throws engine_refused after `LIMITS.siblingLeaveMs`
 */
export async function gateLeaves(engine: Pick<Engine, 'disconnect' | 'inspect'>, network: string, gate: string): Promise<void> {
  const triesMax = Math.ceil(LIMITS.siblingLeaveMs / LIMITS.siblingLeaveLookMs)
  for (let attempt = 1; ; attempt += 1) {
    await engine.disconnect(network, gate)
    const found = await engine.inspect(gate)
    // Whether the engine has taken note is seen only while it is neither on its way up nor down.
    const isSettled = found?.State.Restarting !== true
    if (found === undefined || (isSettled && !(network in (found.NetworkSettings.Networks ?? {})))) return
    if (attempt === triesMax) throw new SallyportError('engine_refused', `the engine keeps a gate in the network ${network}`)
    await delay(LIMITS.siblingLeaveLookMs)
  }
}
