import type { System } from '../../kernel/system.ts'
import { tryKernel } from './probe-kernel.ts'
import { tryNetwork } from './probe-network.ts'
import type { ProbeTask } from './task.ts'
import type { Finding } from './ways.ts'

const LABEL_BYTES = 12

/**
 * Tries the ways out of the container that it runs in, all at once, and says what came of each. `proxy` is the agent's own proxy
 * variable, `gateReady` when the gate answers: what needs no answer of it is tried before. It changes nothing, and what it sends goes to
 * the session's gate and to addresses of this machine alone.
 */
export async function probe(
  task: ProbeTask,
  proxy: string | undefined,
  system: Pick<System, 'random'>,
  gateReady: Promise<void> = Promise.resolve(),
): Promise<Finding[]> {
  const label = system.random(LABEL_BYTES).toString('hex')
  const findings = await Promise.all([tryNetwork(task, label, proxy, gateReady), tryKernel(task)])
  return findings.flat()
}
