import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyReply } from 'fastify'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { AgentMethod, OutputView } from '../../wire/agent-requests.ts'
import { refusalOf } from '../egress/refuse.ts'

type Call = (method: AgentMethod, params: unknown, signal: AbortSignal) => Promise<unknown>

/**
 * Server-sent events: `output` for each piece, `lost` where pieces are not kept any more, `end` with the request as it ended, `error`. A
 * reader that stops holds nothing up but itself.
 * @throws what the first call does: what is wrong with it is said before the stream begins
 */
export async function streamOutput(reply: FastifyReply, params: unknown, call: Call): Promise<void> {
  const { raw } = reply
  const gone = new AbortController()
  raw.on('close', () => gone.abort())
  raw.on('error', () => gone.abort())
  const look = (more: object): Promise<OutputView> =>
    call('request.output', { ...(params as object), ...more }, gone.signal) as Promise<OutputView>
  const first = await look({ wait: 0 })
  reply.hijack()
  const say = async (event: string, data: unknown): Promise<void> => {
    if (!raw.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)) await once(raw, 'drain', { signal: gone.signal })
  }
  raw.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  try {
    for (let view = first; ; view = await patiently(() => look({ after: view.next }), gone.signal)) {
      if (view.lost) await say('lost', {})
      for (const piece of view.pieces) await say('output', piece)
      if (view.pieces.length === 0 && !view.isEnded) raw.write(': waiting\n\n')
      if (view.isEnded) break
      // What is printed meanwhile comes in one answer.
      await delay(LIMITS.outputPaceMs, undefined, { signal: gone.signal })
    }
    const { id } = params as { readonly id: string }
    await say('end', await patiently(() => call('request.await', { id, wait: 0 }, gone.signal), gone.signal))
  } catch (error) {
    if (!gone.signal.aborted) {
      const { code, message } = refusalOf(error)
      raw.write(`event: error\ndata: ${JSON.stringify({ code, message })}\n\n`)
    }
  } finally {
    raw.end()
  }
}

/** Several streams and calls share what a session may do in a minute: a stream is what can wait for it. */
async function patiently<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof SallyportError) || !PASSING.has(error.code)) throw error
      await delay(Math.max(error.retryAfterMs ?? 0, LIMITS.outputPauseMs), undefined, { signal })
    }
  }
}

const PASSING: ReadonlySet<string> = new Set(['rate_limited', 'overloaded'])
