import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Agent } from './agent.ts'
import { agentGone, sendContinue } from './forward.ts'
import { valuesOf } from './headers.ts'

/** Bytes of bodies that wait whole, of all requests together. */
export type Held = { bytes: number }

/**
 * The whole body of a request; its bytes are added to `held`, unless it fails. An agent that sends too much, too slowly or not at
 * all gets its answer on a connection that still stands.
 * @throws body_too_large, overloaded, head_timeout, agent_gone
 */
export function holdBody(agent: Agent, held: Held): Promise<Buffer> {
  const { body, head } = agent
  if (!body) return Promise.resolve(Buffer.alloc(0))
  if (Number(valuesOf(head.rawHeaders, 'content-length')[0] ?? 0) > LIMITS.heldBodyBytesMax) return Promise.reject(tooLarge())
  sendContinue(agent)
  return new Promise((resolve, reject) => {
    // One piece of memory: of single bytes each piece would take two hundred times what is counted.
    let whole = Buffer.alloc(0)
    let bytes = 0
    const stop = (error?: unknown): void => {
      clearTimeout(idle)
      stopListening()
      body.off('data', onData).off('end', onEnd).off('error', stop)
      // Whatever is still to come is read away: an agent that goes on sending would never come to its answer.
      body.resume()
      if (error === undefined) return resolve(whole.subarray(0, bytes))
      held.bytes -= bytes
      reject(error instanceof Error ? error : agentGone())
    }
    const onData = (chunk: Buffer): void => {
      idle.refresh()
      const before = bytes
      bytes += chunk.length
      held.bytes += chunk.length
      if (bytes > LIMITS.heldBodyBytesMax) return stop(tooLarge())
      if (held.bytes > LIMITS.heldBodiesBytesMax)
        return stop(new SallyportError('overloaded', 'too many bodies wait for their credentials'))
      if (bytes > whole.length) whole = Buffer.concat([whole.subarray(0, before)], Math.max(bytes, 2 * whole.length))
      chunk.copy(whole, before)
    }
    const onEnd = (): void => stop()
    const idle = setTimeout(() => stop(new SallyportError('head_timeout', 'the body of the request stalled')), LIMITS.bodyIdleMs)
    const stopListening = agent.onGone(() => stop(agentGone()))
    // While the operator was asked, an agent may have gone; and an empty body may have told of its end.
    if (agent.isGone) return stop(agentGone())
    if (body.readableEnded) return stop()
    // The body of an HTTP/2 stream was paused until somebody wants it, which a listener alone does not undo.
    body.on('data', onData).on('end', onEnd).on('error', stop).resume()
  })
}

function tooLarge(): SallyportError {
  return new SallyportError('body_too_large', `the body has more than ${LIMITS.heldBodyBytesMax} bytes`, {
    hint: 'credentials of this host are written into the body or sign it, which is done for smaller ones only',
  })
}
