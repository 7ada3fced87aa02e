import { isForbiddenVariable } from '../../wire/variables.ts'

/** Why a rule may not set this variable, or `undefined`. Case is nothing: some programs read a name in either. */
export function environmentProblem(name: string, value: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name)) return `the variable "${name.slice(0, 80)}" may have letters, digits and "_" only`
  if (isForbiddenVariable(name)) return `the variable "${name}" decides what programs run, load or trust: no rule sets it`
  if (value.length > 4_096 || /\p{Cc}/u.test(value))
    return `the value of "${name}" may have 4096 characters at most, and no control characters`
  return undefined
}
