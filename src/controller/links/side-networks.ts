import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { FROM_CONTROLLER, type SideNetwork } from '../../wire/control.ts'

/** In which networks beside the jail a session's gate is to have its ways open, whatever becomes of the gate meanwhile. */
export type SideNetworks = {
  /** Says it to the gate that is connected. @throws sidecar_unreachable, overloaded, and what the gate says: nothing is open then */
  change(network: SideNetwork, open: boolean, signal: AbortSignal): Promise<void>
  /** A gate serves and has these open: what nobody wants is closed, what is wanted is asked for. Never rejects. */
  settle(has: readonly SideNetwork[]): Promise<void>
}

type Ways = SideNetwork & { readonly open: boolean }

/** @param ask sends a WAYS at once, and resolves with its answer: the gate takes those about one address in the order of the frames */
export function createSideNetworks(ask: (ways: Ways) => Promise<unknown>, session: string, log: Pick<Log, 'warn'>): SideNetworks {
  const wanted = new Map<string, SideNetwork>()
  /** It is told again when the gate comes: nobody waits for it here. */
  const tell = async (ways: Ways): Promise<void> => {
    try {
      await ask(ways)
    } catch (error) {
      log.warn(
        { session, network: ways.label, open: ways.open, code: codeOf(error) },
        'the ways of a side network are not as they should be',
      )
    }
  }
  return {
    async change(network, open, signal) {
      const { address } = network
      const ways = FROM_CONTROLLER.WAYS.params.parse({ ...network, open })
      if (!open) {
        wanted.delete(address)
        return void (await ask(ways))
      }
      signal.throwIfAborted()
      if (wanted.size >= LIMITS.sideNetworksMax && !wanted.has(address))
        throw new SallyportError('overloaded', `the gate of session ${session} is in ${wanted.size} side networks`, {
          hint: 'end some of them',
        })
      wanted.set(address, network)
      try {
        await untilAborted(ask(ways), signal)
      } catch (error) {
        // What nobody waits for any more may still be opened.
        if (wanted.get(address) === network) wanted.delete(address)
        if (!wanted.has(address)) void tell({ ...ways, open: false })
        throw error
      }
    },
    async settle(has) {
      const unwanted = has.filter(({ address }) => !wanted.has(address))
      await Promise.all([
        ...unwanted.map((network) => tell({ ...network, open: false })),
        ...[...wanted.values()].map((network) => tell({ ...network, open: true })),
      ])
    },
  }
}

/** @throws why it was aborted */
async function untilAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
    work.catch(() => undefined)
  }
}
