import type { FastifyInstance } from 'fastify'
import { LIMITS } from '../../kernel/limits.ts'
import type { FeedTopic, FeedTopics } from '../../wire/feed.ts'
import type { Approvals } from '../approvals/approvals.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { cardOf } from './inbox-routes.ts'
import { inEvents } from './line-answers.ts'

/** What there is to tell of a topic, until the signal: it begins with what is so now where the topic tells a whole. */
export type FeedSource<T extends FeedTopic> = (signal: AbortSignal) => AsyncIterable<FeedTopics[T]>
export type FeedSources = { readonly [T in FeedTopic]: FeedSource<T> }

/** One stream of server-sent events with all that a page hears of. A browser has six connections to a host, whatever its tabs want. */
export function addFeedRoute(app: FastifyInstance, sources: FeedSources): void {
  app.get('/v1/feed', (_request, reply) =>
    inEvents(reply, async (say, gone) => {
      const ended = new AbortController()
      const signal = AbortSignal.any([gone, ended.signal])
      // A line about nothing: a connection says by itself neither that the other side hangs nor that it is gone.
      const alive = setInterval(() => void say({}), LIMITS.feedAliveMs)
      try {
        // The first that ends, or fails, ends the stream: the page begins anew, and misses nothing.
        await Promise.race(
          Object.entries(sources).map(async ([topic, source]) => {
            for await (const data of source(signal)) await say({ topic, data })
          }),
        )
        return {}
      } finally {
        clearInterval(alive)
        ended.abort()
      }
    }),
  )
}

/** What waits, read when no event of it can be missed any more. Who reads it counts as somebody who watches. */
export async function* tellQuestions(approvals: Approvals, signal: AbortSignal): AsyncGenerator<FeedTopics['questions'], void> {
  const events = approvals.watch('page', signal)
  yield { pending: approvals.list({ state: 'pending' }).map(cardOf) }
  for await (const { kind, question } of events) yield { event: { kind, question: cardOf(question) } }
}

export async function* tellSessions(sessions: Sessions, signal: AbortSignal): AsyncGenerator<FeedTopics['sessions'], void> {
  const events = sessions.events(signal)[Symbol.asyncIterator]()
  do yield sessions.list()
  while ((await events.next()).done !== true)
}
