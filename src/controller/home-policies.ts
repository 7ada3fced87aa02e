import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { readText } from '../policy/policy.ts'
import { workspacePolicyDir } from './sessions/session-layers.ts'

const ROLE_FILE = /^([a-z0-9-]{1,64})\.yaml$/
const WORKSPACE_FOLDER = /^[0-9a-f]{64}$/

/** Roles that the operator has a policy for. @throws config_invalid */
export function rolesOfHome(home: string): string[] {
  return namesIn(join(home, 'policies', 'roles')).flatMap((name) => ROLE_FILE.exec(name)?.[1] ?? [])
}

/**
 * Workspaces that the operator has a policy for, by the files that say whose a folder is: where one is for another workspace than its
 * name says, it is none.
 * @throws config_invalid
 */
export function workspacesOfHome(home: string): string[] {
  const folder = join(home, 'policies', 'workspaces')
  return namesIn(folder)
    .filter((name) => WORKSPACE_FOLDER.test(name))
    .slice(0, LIMITS.policyWorkspacesMax)
    .flatMap((name) => {
      const text = readText(join(folder, name, 'workspace'), LIMITS.policyFileBytesMax)
      const workspace = typeof text === 'string' ? text.replace(/\n$/, '') : ''
      return workspace !== '' && workspacePolicyDir(home, workspace) === join(folder, name) ? [workspace] : []
    })
}

/** What is in a folder, by name; nothing where there is no such folder. @throws config_invalid when it cannot be read */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).toSorted()
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return []
    throw new SallyportError('config_invalid', `${folder} cannot be read (${codeOf(cause)})`, { hint: 'look at its owner and mode', cause })
  }
}
