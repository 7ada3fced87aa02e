import { once } from 'node:events'
import type { FastifyReply } from 'fastify'
import { problemOf } from './operator.ts'

/** A line to the client. Resolves when there is room for the next: who sends without end waits for it, and what waits is bounded. */
export type Say = (line: unknown) => Promise<void>

type Shape = { readonly type: string; write(line: unknown): string }
const LINES: Shape = { type: 'application/x-ndjson', write: (line) => `${JSON.stringify(line)}\n` }
const EVENTS: Shape = { type: 'text/event-stream', write: (line) => `data: ${JSON.stringify(line)}\n\n` }

/** Answers with lines of JSON while `work` goes on, the last of them what it gives or why it failed. */
export function inLines(reply: FastifyReply, work: (say: Say, signal: AbortSignal) => Promise<unknown>): FastifyReply {
  return answerIn(LINES, reply, work)
}

/** The same as server-sent events, for browsers. */
export function inEvents(reply: FastifyReply, work: (say: Say, signal: AbortSignal) => Promise<unknown>): FastifyReply {
  return answerIn(EVENTS, reply, work)
}

function answerIn(shape: Shape, reply: FastifyReply, work: (say: Say, signal: AbortSignal) => Promise<unknown>): FastifyReply {
  const { raw } = reply.hijack()
  const gone = new AbortController()
  const say: Say = async (line) => {
    if (!raw.writable || raw.write(shape.write(line))) return
    await once(raw, 'drain', { signal: gone.signal }).catch(() => undefined)
  }
  raw.on('close', () => gone.abort())
  raw.writeHead(200, { 'content-type': shape.type })
  raw.flushHeaders()
  void work(say, gone.signal)
    .then(say, (error: unknown) => say({ problem: problemOf(error) }))
    .finally(() => raw.end())
  return reply
}
