import { Desk } from './desk.ts'
import type { Approvals, ApprovalsParts } from './model.ts'
import { openQuestionsFile, type QuestionsFile } from './questions-file.ts'
import { finishedRecord, settledRecord } from './records.ts'

export { canonicalJson } from './canonical.ts'
export { digestOf } from './digest.ts'
export { expiryOf } from './asked.ts'
export type { Approvals, ApprovalsParts, WatchKind } from './model.ts'
export { readNetworkRule } from './network-rule.ts'
export type { RememberedRule } from './questions-file.ts'
export { rememberedFile, type RememberDoor } from './remembered.ts'

/** @throws approvals_invalid, approvals_write_failed, audit_unavailable */
export async function openApprovals(parts: ApprovalsParts): Promise<Approvals> {
  const file = openQuestionsFile(parts.file, parts.system)
  try {
    await settleLeftOver(file, parts)
    const desk = new Desk(file, parts)
    await desk.open()
    return desk
  } catch (error) {
    file[Symbol.dispose]()
    throw error
  }
}

const WAITED = 'the controller ended while it waited'
const UNUSED = 'the controller ended before the approval was used: it never ran, and never will'

/** Who asked is gone with the controller that was asked: nothing of it runs any more. */
async function settleLeftOver(file: QuestionsFile, { audit, system }: ApprovalsParts): Promise<void> {
  const { waiting, unused, running } = file.leftOver()
  for (const [questions, note] of [
    [waiting, WAITED],
    [unused, UNUSED],
  ] as const) {
    for (const question of questions) {
      const { answer } = question
      const settlement = { state: 'cancelled', at: system.now(), note, ...(answer && { answer }) } as const
      await audit(settledRecord(question, settlement))
      file.settle(question.id, settlement)
    }
  }
  for (const question of running) {
    const result = { code: 'interrupted' }
    await audit(finishedRecord(question, result))
    file.finish(question.id, system.now(), result)
  }
}
