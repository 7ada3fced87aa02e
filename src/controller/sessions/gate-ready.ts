import type { Duplex, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { startVerified } from './containers.ts'
import type { ContainerInspection, Engine, EngineInfo } from './engine.ts'
import type { LiveSession } from './gate.ts'
import type { SessionLink, SessionParts } from './session-parts.ts'
import type { Asked } from './verify.ts'

/** A gate on its way: its container, and what is in memory of its session. */
export type Starting = { readonly sidecar: string; readonly live: Pick<LiveSession, 'id' | 'secretsFault' | 'said'> }
type Parts = Pick<SessionParts, 'engine' | 'printed'>

/** @throws session_unverified, engine_refused; sidecar_not_ready with what it printed last when it has ended already */
export async function startGate(parts: Parts, starting: Starting, asked: Asked, info: EngineInfo): Promise<ContainerInspection> {
  const found = await startVerified(parts.engine, starting.sidecar, asked, info)
  if (found.State.Running && found.State.Restarting !== true) return found
  throw await notReady(parts, starting, `the gate ended${withCode(found.State.ExitCode)} as soon as it was started`)
}

/**
 * Waits until the gate has its secrets and answers.
 * @throws SallyportError what is wrong with its secrets; else sidecar_not_ready with what it printed last, when it ends before or is not
 *   ready in time
 */
export async function gateReady(parts: Parts, link: SessionLink, starting: Starting, signal: AbortSignal): Promise<void> {
  const over = new AbortController()
  const bound = AbortSignal.timeout(LIMITS.gateReadyMs)
  const waiting = AbortSignal.any([signal, bound, over.signal])
  try {
    await Promise.race([
      link.ready(waiting),
      parts.engine.wait(starting.sidecar, waiting).then((code) => {
        throw new SallyportError('sidecar_not_ready', `the gate ended${withCode(code)} before it was ready`)
      }),
      new Promise((_resolve, reject) => {
        waiting.addEventListener('abort', () => reject(waiting.reason as Error), { once: true })
      }),
    ])
  } catch (error) {
    signal.throwIfAborted()
    if (starting.live.secretsFault !== undefined) throw starting.live.secretsFault
    if (bound.aborted) throw await notReady(parts, starting, `the gate was not ready within ${LIMITS.gateReadyMs} ms`)
    if (error instanceof SallyportError && error.code === 'sidecar_not_ready') throw await notReady(parts, starting, error.message)
    throw error
  } finally {
    over.abort()
  }
}

/** The frames of the control channel, where no socket can be mounted. The engine keeps no log then: the end of it is kept here. */
export async function controlStream(engine: Engine, sidecar: string, live: Pick<LiveSession, 'said'>): Promise<Duplex> {
  const { stream, stderr } = await engine.attach(sidecar, { tty: false, replay: false })
  if (stderr !== undefined) live.said = saidSoFar(stderr, live.said?.text() ?? '')
  return stream
}

/** What was printed last, as far as it is kept; `ended` when there is no more to come. */
export type Said = { text(): string; readonly ended: Promise<void> }

/** `before`: the engine may have started it once more meanwhile, and why it ended is in what it said until then. */
function saidSoFar(stderr: Readable, before: string): Said {
  let kept = Buffer.from(before)
  stderr.on('data', (piece: Buffer) => (kept = Buffer.concat([kept, piece]).subarray(-LIMITS.gateWordsBytesMax)))
  return { text: () => kept.toString('utf8'), ended: new Promise((resolve) => stderr.once('close', () => resolve())) }
}

async function notReady(parts: Parts, { sidecar, live }: Starting, why: string): Promise<SallyportError> {
  const lines = (await lastWords(parts.engine, sidecar, live.said)).trim().split('\n').slice(-LIMITS.gateWordsLinesMax)
  const words = parts.printed(live.id, lines.join('\n')).trim()
  return words === ''
    ? new SallyportError('sidecar_not_ready', `${why}, and said nothing`, { hint: 'did the kernel end it for its memory? Its log says so' })
    : new SallyportError('sidecar_not_ready', `${why}. What it said last:\n${words}`, { hint: 'settle what its own words name' })
}

/** While the engine starts it once more it has none to tell, and says 0. */
function withCode(code: number): string {
  return code === 0 ? '' : ` with code ${code}`
}

async function lastWords(engine: Engine, sidecar: string, said: Said | undefined): Promise<string> {
  if (said !== undefined) {
    await Promise.race([said.ended, delay(LIMITS.engineRetryMs, undefined, { ref: false })])
    return said.text()
  }
  let text = ''
  try {
    const bound = AbortSignal.timeout(LIMITS.engineRetryMs)
    for await (const piece of engine.logs(sidecar, { follow: false, tail: LIMITS.gateWordsLinesMax }, bound)) text += piece.toString('utf8')
  } catch {
    // Gone, or it keeps no log.
  }
  return text.slice(-LIMITS.gateWordsBytesMax)
}
