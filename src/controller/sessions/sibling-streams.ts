import type { Duplex, Readable } from 'node:stream'
import { codeOf } from '../../kernel/errors.ts'
import type { Engine } from './engine.ts'
import type { SessionParts } from './session-parts.ts'
import { isOverfull, watchOutput } from './sibling-output.ts'
import { siblingInput } from './sibling-shim.ts'
import type { Sibling, SiblingEnd, SiblingWish } from './sibling.ts'
import type { SiblingsHeld } from './siblings-held.ts'

type Streams = { readonly stream: Duplex; readonly stderr: Readable }

/** Before it starts, so that no byte is lost. */
export async function attachSibling(engine: Engine, container: string, stack: AsyncDisposableStack): Promise<Streams> {
  const { stream, stderr } = await engine.attach(container, { tty: false, replay: false })
  stack.defer(() => void stream.destroy())
  stream.on('error', () => {})
  if (stderr === undefined) throw new Error('a container without a terminal has a stream of its own for errors')
  return { stream, stderr }
}

type Started = {
  readonly name: string
  readonly container: string
  readonly stream: Streams
  readonly wish: SiblingWish
  readonly signal: AbortSignal
}

/** One that was started and is what was asked for: gets its variables, and runs until it ends, the signal says so, or it is disposed of. */
export function runningSibling(
  { engine, log }: Pick<SessionParts, 'engine' | 'log'>,
  held: SiblingsHeld,
  { name, container, stream: { stream, stderr }, wish, signal }: Started,
  stack: AsyncDisposableStack,
): Sibling {
  const over = new AbortController()
  let outputExceeded = false
  const kill = (): void => {
    engine
      .kill(container, 'SIGKILL')
      .catch((error: unknown) => log.error({ container: name, code: codeOf(error) }, 'a container beside an agent could not be killed'))
  }
  const ended = async (): Promise<SiblingEnd> => {
    const exitCode = await engine.wait(container, over.signal)
    const found = await engine.inspect(container)
    if (wish.output !== undefined && !outputExceeded) outputExceeded = await isOverfull(wish.output.folder, wish.output.bytesMax)
    return { exitCode, outOfMemory: found?.State.OOMKilled === true, outputExceeded }
  }
  const exited = ended()
  exited.catch(() => {})
  signal.addEventListener('abort', kill, { once: true })
  if (wish.output !== undefined) {
    const { folder, bytesMax } = wish.output
    const onOverfull = (): void => {
      outputExceeded = true
      kill()
    }
    void watchOutput(folder, bytesMax, onOverfull, AbortSignal.any([over.signal, settled(exited)]))
  }
  stream.write(siblingInput(wish))
  if (typeof wish.stdin === 'object') stream.write(wish.stdin.reveal())
  if (wish.stdin !== 'open') stream.end()
  const end = async (): Promise<void> => {
    signal.removeEventListener('abort', kill)
    try {
      await stack.disposeAsync()
      await exited.catch(() => {})
    } finally {
      over.abort()
      held.running.delete(sibling)
    }
  }
  let ending: Promise<void> | undefined
  const sibling: Sibling = {
    container: name,
    stdin: stream,
    stdout: stream,
    stderr,
    exited,
    [Symbol.asyncDispose]: () => (ending ??= end()),
  }
  held.running.add(sibling)
  return sibling
}

/** Aborted when a promise is settled. */
function settled(promise: Promise<unknown>): AbortSignal {
  const controller = new AbortController()
  void promise.then(
    () => controller.abort(),
    () => controller.abort(),
  )
  return controller.signal
}
