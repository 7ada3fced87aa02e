import { timingSafeEqual } from 'node:crypto'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { createPrivateFile, replacePrivateFile } from '../../kernel/private-file.ts'
import type { Secret } from '../../kernel/secret.ts'
import { newStretching, stretch } from '../../kernel/stretch.ts'
import type { System } from '../../kernel/system.ts'
import { createTurns } from '../turns.ts'
import { PasswordRecord } from './password-file.ts'
import { readRecordFile, recordFileText } from './record-file.ts'

export type Password = {
  isSet(): boolean
  /** There is one, or there may be: its file is damaged. */
  isThere(): boolean
  /** Resolves for the right one. @throws presence_failed */
  verify(password: Secret, signal: AbortSignal): Promise<void>
  /** The same from a stranger, with waits of its own, in memory: anybody on this machine may try, and must hold up nobody. @throws presence_failed */
  knock(password: Secret): Promise<void>
  /** @throws presence_failed, config_invalid */
  set(old: Secret | undefined, next: Secret, signal: AbortSignal): Promise<void>
}

/**
 * The operator's password. One at a time is looked at. What the file has is read once: whoever writes to it while the daemon runs changes
 * nothing, and it is written anew with the next attempt.
 */
export async function openPassword(file: string, system: System, log: Log): Promise<Password> {
  const read = await readRecordFile(file, PasswordRecord, LIMITS.approverFileBytesMax)
  const problem = read !== undefined && 'problem' in read ? read.problem : undefined
  let record = read === undefined || 'problem' in read ? undefined : read
  if (problem !== undefined) log.error({ file, problem }, 'the password of the operator cannot be used')
  // From here on by the monotonic clock: turning the other one ends no wait.
  let openAt = system.elapsed() + (record === undefined ? 0 : remainingMs(record, system.now()))
  const turns = createTurns(1)
  let underWay = 0
  const door = openDoor(system)

  const inTurn = async <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
    if (underWay >= LIMITS.approverAttemptsMax) throw failed('too many passwords wait to be looked at', 'try again in a moment')
    underWay += 1
    try {
      return await turns.take(signal, work)
    } catch (error) {
      throw error instanceof SallyportError ? error : failed('the password was not looked at: the call was broken off', 'try again', error)
    } finally {
      underWay -= 1
    }
  }

  const write = async (next: PasswordRecord): Promise<void> => {
    try {
      await replacePrivateFile(file, recordFileText(next), system)
    } catch (cause) {
      throw unwritable(file, cause)
    }
  }

  const usable = (): PasswordRecord => {
    if (problem !== undefined) throw damaged(file, problem)
    if (record === undefined) throw failed('no password of the operator is set', 'set one: sallyport approver password')
    return record
  }

  const attempt = async (password: Secret): Promise<PasswordRecord> => {
    const known = usable()
    const waitMs = openAt - system.elapsed()
    // Not looked at, so not counted: it says nothing of the password, be it right or wrong.
    if (waitMs > 0) throw failed(`after a wrong password the next is looked at in ${seconds(waitMs)}`, 'wait, then give the right one')
    const counted = { ...known, failures: known.failures + 1, attemptAt: system.now() }
    // On disk before it is looked at: ending the daemon in the middle gives no guess for free.
    await write(counted)
    record = counted
    openAt = system.elapsed() + waitOf(counted.failures)
    if (!(await isRight(password, known)))
      throw failed('the password is wrong', `the next is looked at in ${seconds(openAt - system.elapsed())}`)
    record = { ...counted, failures: 0 }
    openAt = system.elapsed()
    return record
  }

  return {
    isSet: () => record !== undefined,
    isThere: () => record !== undefined || problem !== undefined,
    knock: async (given) => door.knock(given, usable()),
    verify: (password, signal) =>
      inTurn(signal, async () => {
        const right = await attempt(password)
        // It was right, whatever becomes of the file: there an attempt too many stays counted.
        await write(right).catch((error: unknown) => log.warn({ file, code: codeOf(error) }, 'the right password could not be recorded'))
      }),
    set: (old, next, signal) =>
      inTurn(signal, async () => {
        checkChosen(next)
        if (problem !== undefined || record !== undefined) {
          usable()
          if (old === undefined) throw failed('a password is set already', 'give the old one too: sallyport approver password asks for it')
          await attempt(old)
        }
        const fresh = { version: 1, ...newStretching(system), key: '', failures: 0, attemptAt: system.now() } as const
        const made: PasswordRecord = { ...fresh, key: (await stretch(next, fresh)).toString('hex') }
        await (record === undefined ? create(file, made, system) : write(made))
        record = made
      }),
  }
}

/** Where strangers try the password: one at a time, each wait twice the one before. */
function openDoor(system: Pick<System, 'elapsed'>) {
  let failures = 0
  let openAt = 0
  let isBusy = false
  return {
    async knock(given: Secret, record: PasswordRecord): Promise<void> {
      const waitMs = openAt - system.elapsed()
      if (waitMs > 0) throw failed(`after a wrong password the next is looked at in ${seconds(waitMs)}`, 'wait, or log in with a link')
      if (isBusy) throw failed('another password is being looked at', 'try again in a moment')
      isBusy = true
      try {
        failures = (await isRight(given, record)) ? 0 : failures + 1
        openAt = system.elapsed() + waitOf(failures)
      } finally {
        isBusy = false
      }
      if (failures > 0) throw failed('the password is wrong', `the next is looked at in ${seconds(waitOf(failures))}`)
    },
  }
}

async function isRight(given: Secret, record: PasswordRecord): Promise<boolean> {
  return timingSafeEqual(await stretch(given, record), Buffer.from(record.key, 'hex'))
}

/** Never over one that came after this daemon began: it could be the operator's own, put back. */
async function create(file: string, made: PasswordRecord, system: System): Promise<void> {
  let isMade
  try {
    isMade = await createPrivateFile(file, recordFileText(made), system)
  } catch (cause) {
    throw unwritable(file, cause)
  }
  if (!isMade) throw failed(`${file} is there now, and was not when the daemon began`, 'start the daemon anew')
}

/** RFC 8265 §4.2: keyboards differ in how they compose characters. */
function waitOf(failures: number): number {
  return failures === 0 ? 0 : Math.min(LIMITS.approverWaitMinMs * 2 ** (failures - 1), LIMITS.approverWaitMaxMs)
}

/** A clock that was turned back lengthens no wait beyond its whole. */
function remainingMs({ failures, attemptAt }: PasswordRecord, now: number): number {
  const whole = waitOf(failures)
  return Math.min(whole, Math.max(0, whole - (now - attemptAt)))
}

function checkChosen(password: Secret): void {
  const { length } = password.reveal()
  const [min, max] = [LIMITS.approverPasswordCharsMin, LIMITS.approverPasswordCharsMax]
  if (length >= min && length <= max) return
  throw new SallyportError('config_invalid', `the new password has ${length} characters: at least ${min} and at most ${max} are taken`, {
    hint: 'nothing was changed',
  })
}

function seconds(ms: number): string {
  return `${Math.ceil(ms / 1_000)} s`
}

function damaged(file: string, problem: string): SallyportError {
  return failed(
    `${file} cannot be used: ${problem}`,
    'put the file back from a copy and start the daemon anew; if there is none, remove it, start the daemon and set a new password',
  )
}

function unwritable(file: string, cause: unknown): SallyportError {
  return failed(`${file} cannot be written (${codeOf(cause)})`, 'make room on the disk, or look at who may write there', cause)
}

function failed(message: string, hint: string, cause?: unknown): SallyportError {
  return new SallyportError('presence_failed', message, { hint, ...(cause !== undefined && { cause }) })
}
