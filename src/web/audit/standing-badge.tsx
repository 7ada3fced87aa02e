import { Badge } from '../parts/badge.tsx'
import { hrefOf } from '../shell/route.ts'
import { standing } from './standing.ts'

const WORDS = {
  checking: { tone: 'quiet', text: 'audit: checking' },
  holds: { tone: 'ok', text: 'audit holds' },
  broken: { tone: 'bad', text: 'audit is broken' },
} as const

/** In the menu at all times. */
export function StandingBadge() {
  const { tone, text } = WORDS[standing.value.state]
  return (
    <a href={hrefOf('audit')} aria-label={`${text}: open the audit`}>
      <Badge tone={tone}>{text}</Badge>
    </a>
  )
}
