/** One event of the audit for the page. Its texts may be an agent's: the page shows them escaped. */
export type AuditEntryView = {
  /** `controller`, or the chain of a session. */
  readonly chain: string
  readonly seq: number
  /** ISO 8601; empty for a line that has none. */
  readonly time: string
  readonly event: string
  /** What it says besides, in one line, escaped. */
  readonly summary: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** `next` is what `before` of the following call is: older events. Absent at the end. */
export type AuditPage = { readonly entries: readonly AuditEntryView[]; readonly next?: string }

/** One event with all that belongs to it, oldest first, and the lines that sign them. */
export type AuditStory = { readonly entries: readonly AuditEntryView[]; readonly signedBy: readonly AuditEntryView[] }

/** Whether the audit as a whole holds: its chain, its signatures, and those of the sessions' chains. */
export type AuditStanding =
  | { readonly state: 'checking' }
  | {
      readonly state: 'holds'
      /** When it was looked at, milliseconds since 1970. */
      readonly at: number
      readonly events: number
      readonly sessionEvents: number
      readonly chains: number
      readonly checkpoints: number
      /** Lines behind the last checkpoint, and lines of sessions that are not countersigned yet. */
      readonly unsigned: number
      readonly uncountersigned: number
      /** Hash of the last line, and thumbprint of the key: to compare with what was noted elsewhere. */
      readonly head: string
      readonly key?: string
    }
  | { readonly state: 'broken'; readonly at: number; readonly code: string; readonly message: string }
