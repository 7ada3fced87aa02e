import type { AuditStanding } from './audit-views.ts'
import type { ActivityBatch } from './activity.ts'
import type { SessionView } from './operator.ts'
import type { QuestionNews } from './question-card.ts'

/** What the page is told as it happens, by topic. */
export type FeedTopics = {
  /** What waits at the beginning, then what becomes of it. */
  readonly questions: QuestionNews
  /** All of them, whenever one changed. */
  readonly sessions: readonly SessionView[]
  /** Whether the audit holds. */
  readonly audit: AuditStanding
  /** What sessions do in the network. */
  readonly activity: ActivityBatch
}

export type FeedTopic = keyof FeedTopics

export type FeedLine = { readonly [T in FeedTopic]: { readonly topic: T; readonly data: FeedTopics[T] } }[FeedTopic]
