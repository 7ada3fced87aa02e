import { setTimeout as delay } from 'node:timers/promises'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import { collect } from '../executor/executor.ts'
import type { OpenRequest } from '../requests/requests.ts'
import type { Sibling, SiblingEnd } from '../sessions/sessions.ts'

export type RunParts = { readonly home: string; readonly system: System }

export type UseResult = {
  readonly end?: SiblingEnd
  readonly stdout: string
  readonly stderr: string
  readonly bytes: { readonly stdout: number; readonly stderr: number }
  readonly sha256: { readonly stdout: string; readonly stderr: string }
  readonly truncated: boolean
  readonly code?: 'command_timed_out' | 'command_cancelled' | 'command_out_of_memory' | 'output_exceeded'
}

/** Reads what a sibling prints until it has ended, was called off, or took too long. Then nothing of it is left. */
export async function runUse(
  { home, system }: RunParts,
  sibling: Sibling,
  searched: readonly Secret[],
  request: Pick<OpenRequest, 'print' | 'signal'>,
): Promise<UseResult> {
  const output = collect({
    secrets: searched,
    bytesMax: LIMITS.commandOutputBytesMax,
    onOutput: async (stream, chunk) => request.print(stream, chunk),
    home,
    system,
  })
  const reading = Promise.all([output.read('stdout', sibling.stdout), output.read('stderr', sibling.stderr)])
  const end = await endOf(sibling, request.signal)
  // What it printed last is on its way; a reader that takes nothing must not hold the end up.
  if (typeof end === 'string') output.leaveReader()
  const late = new AbortController()
  await Promise.race([reading, delay(LIMITS.commandDrainMs, undefined, { signal: late.signal }).catch(() => undefined)])
  late.abort()
  output.leaveReader()
  await sibling[Symbol.asyncDispose]()
  sibling.stdout.destroy()
  sibling.stderr.destroy()
  await reading
  const printed = await output.end()
  if (typeof end === 'string') return { ...printed, code: end }
  return {
    ...printed,
    end,
    ...(end.outOfMemory ? { code: 'command_out_of_memory' as const } : end.outputExceeded ? { code: 'output_exceeded' as const } : {}),
  }
}

async function endOf(sibling: Sibling, signal: AbortSignal): Promise<SiblingEnd | 'command_timed_out' | 'command_cancelled'> {
  const over = Promise.withResolvers<'command_timed_out' | 'command_cancelled'>()
  const timer = setTimeout(() => over.resolve('command_timed_out'), LIMITS.useMs)
  const cancel = (): void => over.resolve('command_cancelled')
  signal.addEventListener('abort', cancel, { once: true })
  if (signal.aborted) cancel()
  try {
    return await Promise.race([sibling.exited, over.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', cancel)
  }
}
