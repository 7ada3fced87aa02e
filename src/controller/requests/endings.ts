import { codeOf, SallyportError } from '../../kernel/errors.ts'
import type { RequestStatus } from '../../wire/agent-requests.ts'
import type { Outcome } from '../../wire/question.ts'
import type { Ending } from './request-book.ts'

const WORDS = {
  approval_denied: 'the operator said no',
  approval_expired: 'nobody answered in time, which is a no',
  approval_cancelled: 'it was withdrawn before it was answered',
} as const

/** A question that ended with a no, as the agent is told. */
export function denialOf({ code, message }: Outcome & { readonly decision: 'deny' }): SallyportError {
  return new SallyportError(code, message === undefined || message === '' ? WORDS[code] : `${WORDS[code]}: ${message}`)
}

const STATUS: Readonly<Record<string, RequestStatus>> = {
  approval_denied: 'denied',
  approval_expired: 'expired',
  approval_cancelled: 'cancelled',
  approver_absent: 'denied',
  command_not_allowed: 'denied',
  command_disabled: 'denied',
  command_cancelled: 'cancelled',
}

/** What a request ends with that failed. Faults without a code are ours: their text stays here. */
export function faultEnding(error: unknown): Ending {
  if (!(error instanceof SallyportError))
    return { status: 'failed', error: { code: 'internal', message: `it could not be done (${codeOf(error)})` } }
  const { code, message, hint } = error
  return { status: STATUS[code] ?? 'failed', error: { code, message, ...(hint !== undefined && { hint }) } }
}
