import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { LIMITS } from '../kernel/limits.ts'
import type { StartChoices } from '../wire/session-facts.ts'
import { HARNESS_NAMES } from './sessions/harness.ts'
import type { StateFile } from './state.ts'

const ROLE_FILE = /^([a-z0-9-]{1,64})\.yaml$/

/** What a form can offer for a new session: folders of earlier sessions, then those that the operator has a policy for. */
export function startChoices(home: string, state: Pick<StateFile, 'leases'>): StartChoices {
  const policies = join(home, 'policies')
  const used = state.leases().map(({ workspace }) => workspace)
  const withPolicy = namesIn(join(policies, 'workspaces')).flatMap((name) => textOf(join(policies, 'workspaces', name, 'workspace')))
  return {
    workspaces: [...new Set([...used, ...withPolicy])].filter((folder) => folder.startsWith('/')).slice(0, LIMITS.startChoicesMax),
    harnesses: HARNESS_NAMES,
    roles: namesIn(join(policies, 'roles'))
      .flatMap((name) => ROLE_FILE.exec(name)?.[1] ?? [])
      .slice(0, LIMITS.startChoicesMax),
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).toSorted()
  } catch {
    return []
  }
}

function textOf(file: string): string[] {
  try {
    return [readFileSync(file, 'utf8').replace(/\n$/, '')]
  } catch {
    return []
  }
}
