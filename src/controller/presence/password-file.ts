import * as z from 'zod'
import { Stretching } from '../../kernel/stretch.ts'

/** `approver.json`: what the password is looked at with, and how often it was wrong since it was right. */
export const PasswordRecord = z.strictObject({
  version: z.literal(1),
  ...Stretching.shape,
  key: z.string().regex(/^[0-9a-f]{64}$/),
  /** Attempts since the last right one, each counted before it was looked at. */
  failures: z.int().min(0),
  /** Of the last attempt, milliseconds since 1970. */
  attemptAt: z.int().min(0),
})
export type PasswordRecord = z.infer<typeof PasswordRecord>
