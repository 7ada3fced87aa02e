import * as z from 'zod'
import type { Channel, ListenParts } from './channel.ts'
import type { ChatAnswersDesk } from './chat-answers.ts'
import { pollAnswers } from './poll.ts'
import type { Poster, Target } from './post.ts'
import type { ChannelSettings } from './settings.ts'

type Settings = NonNullable<ChannelSettings['ntfy']>

/** A message of https://docs.ntfy.sh/subscribe/api/#json-message-format, as far as it is read. */
const Message = z.object({ id: z.string().max(64), event: z.string(), message: z.string().max(1_024).optional() })
/** Priorities of ntfy: 3 is the usual one, 4 high. */
const PRIORITY = { usual: 3, high: 4 } as const

/** https://docs.ntfy.sh/publish/#publish-as-json. Messages are plain text there unless they say otherwise. */
export function ntfyChannel(name: string, settings: Settings, poster: Poster, desk: ChatAnswersDesk, parts: ListenParts): Channel {
  const { url, topic, token, answer_topic: answerTopic } = settings
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const root: Target = { url, headers }
  // A server's clock may be another: what is older is no answer of ours anyway.
  let since = '10m'

  return {
    name,
    desk,
    async send(notice, question, signal) {
      const buttons = question === undefined ? {} : desk.offer(question, notice.isWhole)
      const place =
        answerTopic === undefined
          ? ''
          : `${base((await poster.fill(url, signal)).reveal())}/${(await poster.fill(answerTopic, signal)).reveal()}`
      const action = (label: string, body: string | undefined): object[] =>
        body === undefined ? [] : [{ action: 'http', label, url: place, method: 'POST', body, clear: true }]
      await poster.send(root, {
        body: {
          topic: (await poster.fill(topic, signal)).reveal(),
          title: notice.title,
          message: notice.subject === undefined ? notice.text : `${notice.text}\n${notice.subject}`,
          priority: notice.isUrgent ? PRIORITY.high : PRIORITY.usual,
          ...(notice.link !== undefined && { click: notice.link }),
          actions: [...action('Deny', buttons.deny), ...action('Allow once', buttons.allow)],
        },
        signal,
      })
    },
    ...(answerTopic !== undefined && {
      listen: (signal: AbortSignal) =>
        pollAnswers(
          name,
          desk,
          async () => {
            const text = await poster.send(
              { url, headers, path: [answerTopic, 'json', `?poll=1&since=${encodeURIComponent(since)}`] },
              { signal },
            )
            for (const { id, event, message } of messagesOf(text)) {
              since = id
              if (event === 'message' && message !== undefined) tell(await desk.take(message.trim()))
            }
          },
          parts,
          signal,
        ),
    }),
  }

  function tell(taken: Awaited<ReturnType<ChatAnswersDesk['take']>>): void {
    if (taken !== undefined) parts.log.info({ channel: name, said: taken.said }, 'an answer came by chat')
  }
}

function base(url: string): string {
  return url.replace(/\/$/, '')
}

/** A line that is none of theirs is passed over. */
function messagesOf(text: string): z.infer<typeof Message>[] {
  return text.split('\n').flatMap((line) => {
    try {
      const { data } = Message.safeParse(JSON.parse(line))
      return data === undefined ? [] : [data]
    } catch {
      return []
    }
  })
}
