import { join } from 'node:path'
import type { AuditEvent } from '../../audit/audit.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import type { PresenceEvidence, PresenceProof, Tier } from '../../wire/question.ts'
import { canonicalJson } from '../approvals/canonical.ts'
import { openPasskeys, type Passkeys } from './passkeys.ts'
import { openPassword } from './password.ts'
import type { ProofPurpose, SystemPrompt } from './proof.ts'
import { openSystemPrompt } from './system-prompt.ts'

export type { ProofPurpose, SystemPrompt } from './proof.ts'
export { identityOf } from './process-identity.ts'

export type Presence = {
  /**
   * Looks at a proof. `tier` is the question's, from the one who asks, never from the one who answers; a denial needs T0 alone.
   * @throws presence_failed for a proof that is wrong, of a lower tier, or cannot be looked at now
   */
  prove(tier: Tier, proof: PresenceProof, of: ProofPurpose, signal: AbortSignal): Promise<PresenceEvidence>
  /**
   * Evidence of T0, for an answer that came by a way whose settings of the operator's say that it may: `means` is its name, as `telegram`.
   * Nothing was proven but that.
   */
  attest(means: string, of: ProofPurpose): PresenceEvidence
  /**
   * Uses evidence up: it is good once, for the purpose and tier that it was made for, within `LIMITS.presenceEvidenceMs`, and only as the
   * object that `prove` gave.
   * @throws presence_failed
   */
  redeem(evidence: PresenceEvidence, tier: Tier, of: ProofPurpose): void
  /**
   * Sets the operator's password, or changes it: then with the one before, which waits like every guess.
   * @throws presence_failed when the old one is wrong or missing, or the file cannot be written; config_invalid for a new one of a wrong length
   */
  setPassword(old: Secret | undefined, next: Secret): Promise<void>
  /** The password, from who is not let in yet: such guesses wait for themselves, and hold up no proof. @throws presence_failed */
  knock(password: Secret): Promise<void>
  readonly passkeys: Passkeys
  /** Tiers that could be proven here now. */
  readonly available: readonly Tier[]
  /** What the operator has set up, also where it cannot be used now: a damaged file is not taken for none. */
  readonly has: { readonly password: boolean; readonly passkey: boolean }
}

type Means = { readonly tier: Tier; readonly name: string }
type Issued = { readonly purpose: string; readonly until: number }

const RANK: Readonly<Record<Tier, number>> = { T0: 0, T1: 1, T2: 2, T3: 3 }
/** What each kind of proof can prove. A higher one is good for every lower tier: each of them is given for one question by one person. */
const TIER_OF: Readonly<Record<PresenceProof['kind'], Tier>> = { key: 'T0', password: 'T1', system: 'T2', passkey: 'T3' }

export type PresenceParts = {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  readonly system: System
  readonly log: Log
  /** What a passkey did that it should not. */
  readonly audit: (event: AuditEvent) => Promise<void>
  /** In place of that of the operating system. */
  readonly systemPrompt?: SystemPrompt
}

/** Who is at the keyboard, by tier: a key, the operator's password, the operating system, a passkey. */
export async function openPresence({ home, system, log, audit, systemPrompt = openSystemPrompt() }: PresenceParts): Promise<Presence> {
  const password = await openPassword(join(home, 'approver.json'), system, log)
  const passkeys = await openPasskeys({ file: join(home, 'passkeys.json'), system, log, audit })
  // Not by what is in it: evidence that was copied, or made up, is none.
  const issued = new WeakMap<PresenceEvidence, Issued>()

  const meansOf = async (proof: PresenceProof, of: ProofPurpose, signal: AbortSignal): Promise<Means> => {
    switch (proof.kind) {
      case 'key':
        return { tier: 'T0', name: 'key' }
      case 'password':
        await password.verify(new Secret('approver password', proof.password), signal)
        return { tier: 'T1', name: 'password' }
      case 'system':
        return { tier: 'T2', name: await systemPrompt.confirm({ pid: proof.pid, startTime: proof.startTime }, of, signal) }
      case 'passkey':
        return { tier: 'T3', name: `passkey "${await passkeys.verify(proof.response, of, signal)}"` }
    }
  }

  const issue = ({ tier, name }: Means, of: ProofPurpose): PresenceEvidence => {
    const evidence = Object.freeze({ tier, means: name, at: system.now(), digest: of.digest })
    issued.set(evidence, { purpose: canonicalJson(of), until: system.elapsed() + LIMITS.presenceEvidenceMs })
    return evidence
  }

  return {
    async prove(tier, proof, of, signal) {
      const needed = neededFor(tier, of)
      // I49: before anything is asked of anybody.
      refuseLower(needed, TIER_OF[proof.kind])
      // A no is taken from whoever can say it, without a look at more.
      const means = of.decision === 'deny' ? ({ tier: 'T0', name: 'key' } as const) : await meansOf(proof, of, signal)
      return issue(means, of)
    },
    attest: (means, of) => issue({ tier: 'T0', name: means }, of),
    redeem(evidence, tier, of) {
      const made = issued.get(evidence)
      issued.delete(evidence)
      if (made === undefined) throw worthless('it was used before, or is not of this daemon')
      if (system.elapsed() > made.until) throw worthless('it is too old')
      if (made.purpose !== canonicalJson(of)) throw worthless('it was given for another question or another answer')
      refuseLower(neededFor(tier, of), evidence.tier)
    },
    knock: (given) => password.knock(given),
    passkeys,
    setPassword: (old, next) => password.set(old, next, AbortSignal.timeout(LIMITS.daemonRequestMs)),
    get available() {
      return [
        'T0' as const,
        ...(password.isSet() ? (['T1'] as const) : []),
        ...(systemPrompt.problem() === undefined ? (['T2'] as const) : []),
        ...(passkeys.isAny() ? (['T3'] as const) : []),
      ]
    },
    get has() {
      return { password: password.isThere(), passkey: passkeys.isThere() }
    },
  }
}

function neededFor(tier: Tier, { decision }: ProofPurpose): Tier {
  return decision === 'deny' ? 'T0' : tier
}

/** A tier that is none of ours has no rank, and nothing is high enough for it. */
function refuseLower(needed: Tier, given: Tier): void {
  if (RANK[given] >= RANK[needed]) return
  throw new SallyportError('presence_failed', `the question wants a proof of ${needed}, and ${given} was shown`, {
    hint: {
      T0: 'press the key',
      T1: 'give the operator’s password',
      T2: 'confirm it at the prompt of the operating system',
      T3: 'confirm it with a passkey',
    }[needed],
  })
}

function worthless(why: string): SallyportError {
  return new SallyportError('presence_failed', `the proof of presence is worth nothing: ${why}`, {
    hint: 'look at the question once more and answer it',
  })
}
