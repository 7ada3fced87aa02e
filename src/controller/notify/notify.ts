import { join } from 'node:path'
import { setTimeout as timer } from 'node:timers/promises'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import type { Log } from '../../kernel/log.ts'
import type { System } from '../../kernel/system.ts'
import type { Question, QuestionEvent } from '../../wire/question.ts'
import type { Channel, Wait } from './channel.ts'
import { ChatAnswersDesk, type Answering, type ChatParts } from './chat-answers.ts'
import { Gathering } from './gathering.ts'
import { noticeOf, type NoticeOptions } from './notice.ts'
import { ntfyChannel } from './ntfy.ts'
import { said } from './poll.ts'
import { openPoster, type Poster, type ResolveSecret } from './post.ts'
import { commandChannel, desktopChannel } from './programs.ts'
import { readNotifySettings, type ChannelSettings } from './settings.ts'
import { slackChannel } from './slack.ts'
import { telegramChannel } from './telegram.ts'

export type NotifyParts = {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  /** `Approvals` has it. */
  readonly approvals: Answering & { watch(kind: 'notify', signal: AbortSignal): AsyncIterable<QuestionEvent> }
  /** Of the presence. */
  readonly attest: ChatParts['attest']
  /** The value of a `${secret:KEY}` of the settings. */
  readonly resolveSecret: ResolveSecret
  /** Takes the secrets of a session out of a text that leaves this machine. */
  readonly redact: NoticeOptions['redact']
  /** Where the operator's page is, where there is one. */
  readonly link?: string
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly system: System
  readonly log: Log
  /** In place of time that passes. */
  readonly wait?: Wait
}

/**
 * Tells the operator of questions by the ways of `notify.yaml`: that there are some, from whom, and where to answer. Without the file nothing
 * is watched. What cannot be told is logged; the question waits for its answer all the same.
 * @throws config_invalid for a file with errors
 */
export async function openNotify(parts: NotifyParts): Promise<AsyncDisposable & { readonly channels: readonly string[] }> {
  const settings = readNotifySettings(join(parts.home, 'notify.yaml'))
  if (settings === undefined) return { channels: [], [Symbol.asyncDispose]: () => Promise.resolve() }
  const { log, wait = pass } = parts
  const gone = new AbortController()
  const { signal } = gone
  const poster = openPoster(parts.resolveSecret)
  const options = { show: settings.show, link: settings.link ?? parts.link, redact: parts.redact }
  const ways = settings.channels.map((channel, index) => ({
    channel: openChannel(channel, index + 1, poster, { ...parts, wait }),
    gathering: new Gathering(),
  }))

  const tellBy =
    (channel: Channel) =>
    async (questions: readonly [Question, ...Question[]], more: number): Promise<void> => {
      try {
        await channel.send(noticeOf(questions, more, options), questions.length + more === 1 ? questions[0] : undefined, signal)
      } catch (error) {
        if (!signal.aborted)
          log.warn({ channel: channel.name, code: codeOfError(error), detail: said(error) }, 'a notice could not be given')
      }
    }

  const watch = async (): Promise<void> => {
    try {
      for await (const { kind, question } of parts.approvals.watch('notify', signal)) {
        for (const { channel, gathering } of ways) {
          if (kind === 'asked') gathering.add(question)
          if (kind !== 'settled') continue
          gathering.remove(question.id)
          channel.desk?.forget(question.id)
        }
      }
    } catch (error) {
      if (!signal.aborted) log.error({ code: codeOfError(error) }, 'questions are no longer told of')
    }
  }

  const running = Promise.all([
    watch(),
    ...ways.map(({ channel, gathering }) => gathering.run(tellBy(channel), wait, signal)),
    ...ways.map(({ channel }) => channel.listen?.(signal)),
  ])
  return {
    channels: ways.map(({ channel }) => channel.name),
    async [Symbol.asyncDispose]() {
      gone.abort()
      await running
      await poster[Symbol.asyncDispose]()
    },
  }
}

type ChannelParts = NotifyParts & { readonly wait: Wait }

function openChannel(settings: ChannelSettings, place: number, poster: Poster, parts: ChannelParts): Channel {
  const { command, webhook, ntfy, telegram, slack } = settings
  const [kind = ''] = Object.keys(settings)
  const name = `${kind} ${place}`
  if (command !== undefined) return commandChannel(name, command, parts.environment)
  if (webhook !== undefined)
    return { name, send: async (notice, _question, signal) => void (await poster.send(webhook, { body: notice, signal })) }
  if (ntfy !== undefined) return ntfyChannel(name, ntfy, poster, new ChatAnswersDesk('ntfy', ntfy.answers, parts), parts)
  if (telegram !== undefined)
    return telegramChannel(name, telegram, poster, new ChatAnswersDesk('telegram', telegram.answers, parts), parts)
  if (slack !== undefined) return slackChannel(name, slack.url, poster)
  return desktopChannel(name, parts.environment)
}

async function pass(ms: number, signal: AbortSignal): Promise<void> {
  await timer(ms, undefined, { signal }).catch(() => undefined)
}

function codeOfError(error: unknown): string {
  return error instanceof SallyportError ? error.code : codeOf(error)
}
