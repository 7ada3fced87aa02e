import { isIPv4 } from 'node:net'
import * as z from 'zod'
import { LIMITS } from '../../kernel/limits.ts'
import { checkReferences } from '../providers/references.ts'
import { parseSettings, readSettingsFile } from '../settings-file.ts'

/** A text that may have `${secret:KEY}` in it, which is resolved when it is used, and no other time. */
const Referring = z
  .string()
  .min(1)
  .max(4_096)
  .superRefine((text, context) => {
    // Which keys there are is known late: the vault may be locked.
    const keys = [...text.matchAll(/\$\{secret:([^}\r\n]*)\}/g)].map(([, key = '']) => key)
    for (const { message } of checkReferences(text, keys)) context.addIssue({ code: 'custom', message })
  })

/** As `Referring`, and looked at now where there is nothing to resolve in it. */
const ReferringUrl = Referring.superRefine((text, context) => {
  const problem = text.includes('${secret:') ? undefined : urlProblem(text)
  if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
})

const HeaderName = z.string().regex(/^[A-Za-z0-9-]{1,64}$/, 'is no name of a header')
const Command = z.array(z.string().min(1).max(4_096)).min(1).max(64)
const Webhook = z.strictObject({ url: ReferringUrl, headers: z.record(HeaderName, Referring).default({}) })

/** What may be answered from a chat: nothing, a no, or also a yes to a question of tier T0. */
const Answers = z.enum(['none', 'deny', 'T0']).default('none')
export type ChatAnswers = z.infer<typeof Answers>

const Ntfy = z
  .strictObject({
    url: ReferringUrl.default('https://ntfy.sh'),
    topic: Referring,
    token: Referring.exactOptional(),
    answers: Answers,
    answer_topic: Referring.exactOptional(),
  })
  .refine(({ answers, answer_topic }) => answers === 'none' || answer_topic !== undefined, {
    path: ['answers'],
    message: 'needs answer_topic, a topic of its own that the buttons write to',
  })
  .refine(({ topic, answer_topic }) => topic !== answer_topic, {
    path: ['answer_topic'],
    message: 'must be another topic than that of the notices',
  })

const ChatId = z.int()
const Telegram = z
  .strictObject({
    url: ReferringUrl.default('https://api.telegram.org'),
    token: Referring,
    chat: ChatId,
    answers: Answers,
    /** Ids of those who may answer. */
    users: z.array(ChatId.min(1)).min(1).max(64).exactOptional(),
  })
  .refine(({ answers, chat, users }) => answers === 'none' || chat > 0 || users !== undefined, {
    path: ['chat'],
    message: 'is a group: name the users who may answer',
  })

const Slack = z.strictObject({ url: ReferringUrl })

const KINDS = ['command', 'webhook', 'ntfy', 'telegram', 'slack', 'desktop'] as const

const Channel = z
  .strictObject({
    command: Command.exactOptional(),
    webhook: Webhook.exactOptional(),
    ntfy: Ntfy.exactOptional(),
    telegram: Telegram.exactOptional(),
    slack: Slack.exactOptional(),
    desktop: z.literal(true).exactOptional(),
  })
  .refine((channel) => Object.keys(channel).length === 1, `must be one of ${KINDS.join(', ')}, and no more`)
export type ChannelSettings = z.infer<typeof Channel>

const NotifyFile = z
  .strictObject({
    version: z.literal(1),
    /** How much of what is asked leaves this machine: who asks and what kind it is, or also what exactly. */
    show: z.enum(['kind', 'subject']).default('kind'),
    /** Where the operator answers, in place of the daemon's own page. */
    link: z
      .url({ protocol: /^https?$/ })
      .max(1_024)
      .exactOptional(),
    channels: z.array(Channel).min(1).max(LIMITS.notifyChannelsMax),
  })
  .superRefine(({ show, channels }, context) => {
    for (const [index, { ntfy, telegram }] of channels.entries())
      if ((ntfy?.answers === 'T0' || telegram?.answers === 'T0') && show !== 'subject')
        context.addIssue({
          code: 'custom',
          path: ['channels', index],
          message: 'answers: T0 needs show: subject: nobody says yes to what is not shown',
        })
  })
export type NotifySettings = z.infer<typeof NotifyFile>

/** The operator's ways of notice; `undefined` where there is no such file. @throws config_invalid with file and line of every error */
export function readNotifySettings(file: string): NotifySettings | undefined {
  return readSettingsFile(file, NotifyFile, READING)
}

/** The same of a text that is in no file yet. @throws config_invalid */
export function parseNotifySettings(text: string, file: string): NotifySettings {
  return parseSettings(text, file, NotifyFile, READING)
}

const READING = { bytesMax: LIMITS.notifyFileBytesMax, hint: 'docs/PRESENCE.md shows the file' }

/** What is wrong with where a notice would go, or nothing: it says who works here on what. Never with the URL, which may be a secret. */
export function urlProblem(text: string): string | undefined {
  const url = URL.parse(text)
  if (url === null) return 'is no URL'
  if (url.username !== '' || url.password !== '') return 'must not have a user in it: use a header'
  if (url.protocol === 'https:') return undefined
  const { hostname } = url
  const isHere = hostname === 'localhost' || hostname === '[::1]' || (isIPv4(hostname) && hostname.startsWith('127.'))
  return url.protocol === 'http:' && isHere ? undefined : 'must begin with https://, or lead to this machine'
}
