import { SallyportError, type Refusal } from '../kernel/errors.ts'
import type { Secret } from '../kernel/secret.ts'
import { checkedSecret } from './read-source.ts'
import type { Secrets } from './secrets.ts'

/** Values that somebody else resolved, by the name of their secret. */
export type HeldSecrets = {
  /** Why there are none any more. */
  readonly ended: Refusal | undefined
  /**
   * Those that a policy declares, wherever it says that they come from; of `values`, or else of those in force. When they were taken
   * back, `get` refuses with the reason. @throws secret_missing, secret_invalid
   */
  open(declarations: readonly { readonly name: string }[], values?: Values): Secrets
  /** These are in force from here on. */
  replace(values: Values): void
  /** Forgets all values, also those of `Secrets` that were opened before: every `get` refuses with the reason. I1 */
  wipe(reason: Refusal): void
}

type Values = Readonly<Record<string, string>>

const NONE: readonly Secret[] = []

export function createHeldSecrets(initial: Values): HeldSecrets {
  let current = initial
  let ended: Refusal | undefined
  const opened = new Set<WeakRef<Map<string, readonly Secret[]>>>()

  function read(declarations: readonly { readonly name: string }[], values: Values): Map<string, readonly Secret[]> {
    const secrets = new Map<string, readonly Secret[]>()
    for (const { name } of declarations) {
      const value = Object.hasOwn(values, name) ? values[name] : undefined
      if (value === undefined) {
        throw new SallyportError('secret_missing', `secret ${name}: the controller has sent no value of this name`, {
          hint: 'declare it where the controller reads the policy too',
        })
      }
      secrets.set(name, [checkedSecret(name, value)])
    }
    return secrets
  }

  return {
    get ended() {
      return ended
    },
    open(declarations, values) {
      const isOver = ended !== undefined && values === undefined
      const secrets = isOver ? new Map<string, readonly Secret[]>() : read(declarations, values ?? current)
      for (const reference of opened) if (reference.deref() === undefined) opened.delete(reference)
      opened.add(new WeakRef(secrets))
      return {
        get(name) {
          const [secret] = secrets.get(name) ?? NONE
          if (secret) return Promise.resolve(secret)
          const { code, message, hint } = ended ?? { code: 'secret_unavailable', message: `the secret ${name} is not declared` }
          return Promise.reject(new SallyportError(code, message, hint === undefined ? {} : { hint }))
        },
        atHand: (name) => secrets.get(name)?.[0],
        known: (name) => secrets.get(name) ?? NONE,
      }
    },
    replace(values) {
      current = values
      ended = undefined
    },
    wipe(reason) {
      current = {}
      ended = reason
      for (const reference of opened) reference.deref()?.clear()
      opened.clear()
    },
  }
}
