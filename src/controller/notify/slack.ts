import type { Channel } from './channel.ts'
import type { Poster } from './post.ts'

/**
 * An incoming webhook: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks. Nothing is answered from there. What an agent
 * wrote stands in plain text, where no markup is read; everywhere else the three characters that Slack reads are escaped.
 */
export function slackChannel(name: string, url: string, poster: Poster): Channel {
  return {
    name,
    async send({ title, text, subject, link }, _question, signal) {
      const plain = (words: string): object => ({ type: 'section', text: { type: 'plain_text', text: escaped(words), emoji: false } })
      const open = { type: 'section', text: { type: 'mrkdwn', text: `<${escaped(link ?? '')}|Answer>`, verbatim: true } }
      const blocks = [plain(title), plain(text), ...(subject === undefined ? [] : [plain(subject)]), ...(link === undefined ? [] : [open])]
      // The words of the notification itself: no markup in them, and nothing that the agent wrote.
      await poster.send({ url }, { body: { text: escaped(`${title}. ${text}`), mrkdwn: false, blocks }, signal })
    },
  }
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
