import type { AuditEvent } from '../../audit/audit.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { createPrivateFile, replacePrivateFile } from '../../kernel/private-file.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import { PASSKEY_DOMAIN, type PasskeyCreation, type PasskeyRequest, type PasskeysView, type PasskeyView } from '../../wire/passkeys.ts'
import { createTurns } from '../turns.ts'
import { Challenges, worthless } from './challenges.ts'
import { checkAssertion, checkAttestation, PASSKEY_ALGORITHMS, readAssertion, readAttestation } from './passkey-response.ts'
import { PasskeysRecord, type PasskeyRecord } from './passkeys-file.ts'
import { readRecordFile, recordFileText } from './record-file.ts'
import type { ProofPurpose } from './proof.ts'

/** What an answer of a passkey is given for: a proof, or the log-in of a page. */
export type PasskeyPurpose = ProofPurpose | 'login'

export type Passkeys = {
  view(): PasskeysView
  /** At least one is registered and can be used. */
  isAny(): boolean
  /** There are some, or there may be: their file is damaged. */
  isThere(): boolean
  /** What a page at `origin` asks the authenticator for. */
  challenge(of: PasskeyPurpose, origin: string): PasskeyRequest
  /** The name of the passkey that gave the answer. @throws presence_failed */
  verify(response: unknown, of: PasskeyPurpose, signal: AbortSignal): Promise<string>
  /** For one login of a page. @throws presence_failed, config_invalid when there are as many as there may be */
  creation(login: string, origin: string): PasskeyCreation
  /** @throws presence_failed, config_invalid */
  register(login: string, name: string, response: unknown): Promise<PasskeyView>
  /** @throws presence_failed, passkey_not_found */
  rename(id: string, name: string): Promise<PasskeyView>
  /** @throws presence_failed, passkey_not_found */
  remove(id: string): Promise<PasskeyView>
}

export type PasskeysParts = {
  /** `passkeys.json` */
  readonly file: string
  readonly system: System
  readonly log: Log
  readonly audit: (event: AuditEvent) => Promise<void>
}

/**
 * I74: The operator's passkeys. What the file has is read once: whoever writes to it while the daemon runs changes nothing, and it is written
 * anew with the next use. A damaged one proves nothing and takes nothing, and is never taken for no passkey.
 */
export async function openPasskeys(parts: PasskeysParts): Promise<Passkeys> {
  const read = await readRecordFile(parts.file, PasskeysRecord, LIMITS.passkeysFileBytesMax)
  if (read !== undefined && 'problem' in read)
    parts.log.error({ file: parts.file, problem: read.problem }, 'the passkeys of the operator cannot be used')
  return new KeyRing(parts, read)
}

class KeyRing implements Passkeys {
  readonly #parts: PasskeysParts
  readonly #problem: string | undefined
  readonly #user: string
  readonly #turns = createTurns(1)
  // Apart, so that who only may log in takes no place of who proves something.
  readonly #challenges: Readonly<Record<'proof' | 'login' | 'creation', Challenges>>
  #record: PasskeysRecord | undefined

  constructor(parts: PasskeysParts, read: Awaited<ReturnType<typeof readRecordFile<PasskeysRecord>>>) {
    const { system } = parts
    this.#parts = parts
    this.#problem = read !== undefined && 'problem' in read ? read.problem : undefined
    this.#record = read === undefined || 'problem' in read ? undefined : read
    this.#user = this.#record?.user ?? system.random(32).toString('base64url')
    this.#challenges = { proof: new Challenges(system), login: new Challenges(system), creation: new Challenges(system) }
  }

  view(): PasskeysView {
    const { file } = this.#parts
    return { passkeys: this.#all().map(viewOf), ...(this.#problem !== undefined && { problem: damaged(file, this.#problem).message }) }
  }

  isAny(): boolean {
    return this.#all().length > 0
  }

  isThere(): boolean {
    return this.#problem !== undefined || this.isAny()
  }

  challenge(of: PasskeyPurpose, origin: string): PasskeyRequest {
    return {
      challenge: this.#challenges[of === 'login' ? 'login' : 'proof'].issue(signedOf(of), origin),
      rpId: PASSKEY_DOMAIN,
      // Who is not let in yet is told of none: the authenticator shows what it has.
      ...(of !== 'login' && { allowCredentials: this.#all().map(descriptorOf) }),
      userVerification: 'required',
      timeout: LIMITS.passkeyChallengeMs,
    }
  }

  async verify(response: unknown, of: PasskeyPurpose, signal: AbortSignal): Promise<string> {
    this.#refuseDamaged()
    const { said, challenge } = readAssertion(response)
    const origin = this.#challenges[of === 'login' ? 'login' : 'proof'].take(challenge, signedOf(of))
    const { userHandle } = said.response
    if (userHandle !== undefined && userHandle !== this.#user) throw worthless('its passkey was made for somebody else')
    const { publicKey } = this.#registered(said.id)
    const counter = await checkAssertion(said, { challenge, origin, publicKey })
    return await this.#turns.take(signal, async () => {
      // It may have been used, or removed, meanwhile.
      const found = this.#registered(said.id)
      await this.#refuseCopied(found, counter)
      const used = { ...found, counter, usedAt: this.#parts.system.now() }
      // On disk before it counts as proven: what was used is not used again after a restart.
      await this.#write(this.#all().map((one) => (one === found ? used : one)))
      return found.name
    })
  }

  creation(login: string, origin: string): PasskeyCreation {
    this.#refuseDamaged()
    this.#refuseFull()
    return {
      rp: { id: PASSKEY_DOMAIN, name: 'Sallyport' },
      user: { id: this.#user, name: 'operator', displayName: 'Operator of Sallyport' },
      challenge: this.#challenges.creation.issue({ for: 'creation', login }, origin),
      pubKeyCredParams: PASSKEY_ALGORITHMS.map((alg) => ({ type: 'public-key', alg })),
      excludeCredentials: this.#all().map(descriptorOf),
      authenticatorSelection: { residentKey: 'preferred', requireResidentKey: false, userVerification: 'required' },
      attestation: 'none',
      timeout: LIMITS.passkeyChallengeMs,
    }
  }

  async register(login: string, name: string, response: unknown): Promise<PasskeyView> {
    this.#refuseDamaged()
    const { said, challenge } = readAttestation(response)
    const origin = this.#challenges.creation.take(challenge, { for: 'creation', login })
    const isFirst = !this.isAny()
    const made = await checkAttestation(said, { challenge, origin })
    return await this.#turns.take(never, async () => {
      this.#refuseFull()
      // What let in the first lets in no second.
      if (isFirst && this.isAny()) throw worthless('another passkey was registered meanwhile')
      if (this.#all().some(({ id }) => id === made.id)) throw invalid('this passkey is registered already', 'rename it, or use another')
      const fresh: PasskeyRecord = { ...made, name, createdAt: this.#parts.system.now(), transports: said.response.transports }
      await this.#write([...this.#all(), fresh])
      return viewOf(fresh)
    })
  }

  rename(id: string, name: string): Promise<PasskeyView> {
    return this.#change(id, (found) => ({ ...found, name }))
  }

  remove(id: string): Promise<PasskeyView> {
    return this.#change(id, () => undefined)
  }

  #all(): readonly PasskeyRecord[] {
    return this.#record?.passkeys ?? []
  }

  #registered(id: string): PasskeyRecord {
    const found = this.#all().find((one) => one.id === id)
    if (found === undefined) throw worthless('its passkey is not registered')
    return found
  }

  #change(id: string, to: (found: PasskeyRecord) => PasskeyRecord | undefined): Promise<PasskeyView> {
    return this.#turns.take(never, async () => {
      this.#refuseDamaged()
      const found = this.#all().find((one) => one.id === id)
      if (found === undefined) throw notFound(id)
      const after = to(found)
      await this.#write(this.#all().flatMap((one) => (one !== found ? [one] : after === undefined ? [] : [after])))
      return viewOf(after ?? found)
    })
  }

  async #write(passkeys: readonly PasskeyRecord[]): Promise<void> {
    const { file, system } = this.#parts
    const next: PasskeysRecord = { version: 1, user: this.#user, passkeys: [...passkeys] }
    let isWritten = true
    try {
      if (this.#record === undefined) isWritten = await createPrivateFile(file, recordFileText(next), system)
      else await replacePrivateFile(file, recordFileText(next), system)
    } catch (cause) {
      throw failed(`${file} cannot be written (${codeOf(cause)})`, 'make room on the disk, or look at who may write there', cause)
    }
    // Never over one that came after this daemon began: it could be the operator's own, put back.
    if (!isWritten) throw failed(`${file} is there now, and was not when the daemon began`, 'start the daemon anew')
    this.#record = next
  }

  /** WebAuthn Level 3 §7.2, step 22. */
  async #refuseCopied(found: PasskeyRecord, counter: number): Promise<void> {
    if ((counter === 0 && found.counter === 0) || counter > found.counter) return
    const details = `passkey "${found.name}": its counter is ${counter}, and was ${found.counter} before`
    await this.#parts.audit({ event: 'operator', did: 'passkey_refused', details })
    throw worthless(`the counter of "${shown(found.name)}" does not rise (${counter} after ${found.counter}): it may have been copied`)
  }

  #refuseDamaged(): void {
    if (this.#problem !== undefined) throw damaged(this.#parts.file, this.#problem)
  }

  #refuseFull(): void {
    const { length } = this.#all()
    if (length >= LIMITS.passkeysMax)
      throw invalid(`${length} passkeys are registered, and no more are taken`, 'remove one that is not used any more')
  }
}

const never = new AbortController().signal

function signedOf(of: PasskeyPurpose): object {
  return of === 'login' ? { for: 'login' } : { for: 'proof', ...of }
}

function viewOf({ id, name, createdAt, usedAt, isCopied }: PasskeyRecord): PasskeyView {
  return { id, name, createdAt, ...(usedAt !== undefined && { usedAt }), isCopied }
}

type Descriptor = NonNullable<PasskeyRequest['allowCredentials']>[number]

function descriptorOf({ id, transports }: PasskeyRecord): Descriptor {
  return { id, type: 'public-key', ...(transports.length > 0 && { transports }) }
}

function damaged(file: string, problem: string): SallyportError {
  return failed(
    `${file} cannot be used: ${problem}`,
    'put the file back from a copy and start the daemon anew; if there is none, remove it, start the daemon and register passkeys anew',
  )
}

function failed(message: string, hint: string, cause?: unknown): SallyportError {
  return new SallyportError('presence_failed', message, { hint, ...(cause !== undefined && { cause }) })
}

function invalid(message: string, hint: string): SallyportError {
  return new SallyportError('config_invalid', message, { hint })
}

function notFound(id: string): SallyportError {
  return new SallyportError('passkey_not_found', `no passkey "${shown(id)}" is registered`, { hint: 'the view "Access" lists them' })
}
