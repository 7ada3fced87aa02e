import * as z from 'zod'

export type DoctorOutcome = { readonly state: 'ok' | 'warning' | 'failure'; readonly found: string; readonly todo?: string }
/** What the doctor found of one thing. */
export type DoctorRow = DoctorOutcome & { readonly id: string; readonly what: string }
/** Lines of `GET /v1/doctor`: each row as it is known, then how many there are. */
export type DoctorLine = { readonly row: DoctorRow } | { readonly rows: number }

export type StartView = {
  /** No session of this home has run yet. */
  readonly isFirst: boolean
  /** Names that a policy or a session may have as its harness, without one that means none. */
  readonly harnesses: readonly string[]
}

const Workspace = z.string().min(1).max(4_096).startsWith('/', 'is no path from the root')
const Harness = z.string().min(1).max(64).exactOptional()

export const PlanRequest = z.strictObject({ workspace: Workspace, harness: Harness })

/** A policy that was planned is written: exactly the text that was shown. */
export const PolicyRequest = PlanRequest.extend({
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  /** Another one that is there is replaced, and kept beside. */
  replace: z.boolean(),
})

/** The policy that a workspace would get. */
export type PlanView = {
  readonly workspace: string
  /** Where the policy is written. */
  readonly file: string
  readonly text: string
  /** SHA-256 of the text, hex. */
  readonly digest: string
  /** What is there now: nothing, the same, or another policy, with its text. */
  readonly before: { readonly state: 'none' | 'same' } | { readonly state: 'other'; readonly text: string }
  readonly kinds: readonly { readonly what: string; readonly evidence: readonly string[] }[]
  readonly gitHost: string | null
  readonly harness: string | null
  /** Secrets that the vault should have. */
  readonly secrets: readonly string[]
  /** The look ended at a limit: there may be more. */
  readonly isCut: boolean
}
