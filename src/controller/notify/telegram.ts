import * as z from 'zod'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Channel, ListenParts } from './channel.ts'
import type { ChatAnswersDesk } from './chat-answers.ts'
import type { Notice } from './notice.ts'
import { pollAnswers } from './poll.ts'
import type { Poster } from './post.ts'
import type { ChannelSettings } from './settings.ts'

type Settings = NonNullable<ChannelSettings['telegram']>

/** https://core.telegram.org/bots/api#inlinekeyboardbutton: longer ones are refused with the whole message. */
const CALLBACK_BYTES = 64

/** https://core.telegram.org/bots/api#update, as far as it is read. */
const Updates = z.object({
  ok: z.literal(true),
  result: z.array(
    z.object({
      update_id: z.int(),
      callback_query: z
        .object({
          id: z.string().max(64),
          from: z.object({ id: z.int() }),
          data: z.string().max(256).optional(),
          message: z.object({ chat: z.object({ id: z.int() }) }).optional(),
        })
        .optional(),
    }),
  ),
})

/** A bot: https://core.telegram.org/bots/api. Without a parse mode a text is shown as it is. */
export function telegramChannel(name: string, settings: Settings, poster: Poster, desk: ChatAnswersDesk, parts: ListenParts): Channel {
  const { url, token, chat, users, answers } = settings
  const call = (method: string, body: unknown, signal: AbortSignal, timeMaxMs?: number): Promise<string> =>
    poster.send({ url, path: [`bot${token}`, method] }, { body, signal, ...(timeMaxMs !== undefined && { timeMaxMs }) })
  let offset = 0

  const takeUpdates = async (signal: AbortSignal): Promise<void> => {
    const wanted = { offset, timeout: LIMITS.chatHoldMs / 1_000, allowed_updates: ['callback_query'] }
    const text = await call('getUpdates', wanted, signal, LIMITS.chatHoldMs + LIMITS.notifyMs)
    const updates = Updates.safeParse(parse(text))
    if (!updates.success) throw new SallyportError('notice_failed', 'what Telegram answers is not as expected')
    for (const { update_id, callback_query: pressed } of updates.data.result) {
      offset = Math.max(offset, update_id + 1)
      if (pressed === undefined) continue
      const isOurs = pressed.message?.chat.id === chat && (users === undefined || users.includes(pressed.from.id))
      const taken = isOurs ? await desk.take(pressed.data ?? '') : undefined
      if (isOurs) parts.log.info({ channel: name, user: pressed.from.id, said: taken?.said ?? 'nothing' }, 'an answer came by chat')
      // Without it the button turns for a minute.
      await call('answerCallbackQuery', { callback_query_id: pressed.id, text: taken?.said ?? 'this is not for you' }, signal)
    }
  }

  return {
    name,
    desk,
    async send(notice, question, signal) {
      const buttons = question === undefined ? {} : desk.offer(question, notice.isWhole)
      const keyboard = [...button('Deny', buttons.deny), ...button('Allow once', buttons.allow)]
      const lines = [notice.title, notice.text, notice.subject, notice.link].filter((line) => line !== undefined)
      await call(
        'sendMessage',
        {
          chat_id: chat,
          text: lines.join('\n'),
          entities: codeOf(notice),
          link_preview_options: { is_disabled: true },
          ...(keyboard.length > 0 && { reply_markup: { inline_keyboard: [keyboard] } }),
        },
        signal,
      )
    },
    ...(answers !== 'none' && { listen: (signal: AbortSignal) => pollAnswers(name, desk, takeUpdates, parts, signal) }),
  }
}

/** What others named or wrote is code: nothing in it becomes a link, a name or a command of a bot. */
function codeOf({ title, text, subject }: Notice): object[] {
  const offset = title.length + 1
  const code = { type: 'code', offset, length: text.length }
  return subject === undefined ? [code] : [code, { type: 'pre', offset: offset + text.length + 1, length: subject.length }]
}

function button(text: string, data: string | undefined): object[] {
  return data === undefined || Buffer.byteLength(data) > CALLBACK_BYTES ? [] : [{ text, callback_data: data }]
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
