import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { shown } from '../kernel/shown.ts'
import { visible } from '../kernel/visible.ts'
import type { SecretHolder } from '../wire/secret-holder.ts'

/** Digits of SHA-256 of the workspace's real path. */
const WORKSPACE_DIGITS = 16
const SCOPES = [/^global$/, new RegExp(`^workspace:[0-9a-f]{${WORKSPACE_DIGITS}}$`), /^role:[a-z0-9-]{1,58}$/]

/** The scope of the sessions of a workspace. @param workspace its real path */
export function scopeOfWorkspace(workspace: string): string {
  return `workspace:${createHash('sha256').update(workspace).digest('hex').slice(0, WORKSPACE_DIGITS)}`
}

/**
 * A scope as the operator writes it: a folder is easier to write than what the vault keeps of it, `workspace:FOLDER`. Any other text is
 * given back as it is.
 * @throws config_invalid for a folder that is not there
 */
export function scopeOfFolder(text: string): string {
  const folder = /^workspace:(.*[/.].*)$/.exec(text)?.[1]
  if (folder === undefined) return text
  try {
    return scopeOfWorkspace(realpathSync(folder))
  } catch (cause) {
    throw new SallyportError('config_invalid', `scope "${visible(text)}": there is no such folder (${codeOf(cause)})`, {
      hint: 'name the workspace as "up" does',
      cause,
    })
  }
}

/** @throws config_invalid for a scope that would let nobody have the secret */
export function checkScope(scope: string): void {
  if (SCOPES.some((known) => known.test(scope))) return
  throw new SallyportError('config_invalid', `scope "${shown(scope)}" is none`, {
    hint: 'write "global", "workspace:FOLDER" or "role:NAME"',
  })
}

/** Whether a secret with this scope is for this holder. One that nobody knows, as a file of before may have it, is for nobody. */
export function isInScope(scope: string, { workspace, role }: SecretHolder): boolean {
  if (scope === 'global') return true
  return (workspace !== undefined && scope === scopeOfWorkspace(workspace)) || (role !== undefined && scope === `role:${role}`)
}

export function outOfScope(key: string, scope: string): SallyportError {
  return new SallyportError(
    'secret_not_permitted',
    `the secret "${key}" of the vault is not for this session: its scope is "${shown(scope)}"`,
    {
      hint: `where it should be: sallyport secret set ${key} --scope global|workspace:FOLDER|role:NAME`,
    },
  )
}
