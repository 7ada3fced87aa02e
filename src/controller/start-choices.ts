import { LIMITS } from '../kernel/limits.ts'
import type { StartChoices } from '../wire/session-facts.ts'
import { rolesOfHome, workspacesOfHome } from './home-policies.ts'
import { HARNESS_NAMES } from './sessions/harness.ts'
import type { StateFile } from './state.ts'

/** What a form can offer for a new session: folders of earlier sessions, then those that the operator has a policy for. */
export function startChoices(home: string, state: Pick<StateFile, 'leases'>): StartChoices {
  const used = state.leases().map(({ workspace }) => workspace)
  return {
    workspaces: [...new Set([...used, ...workspacesOfHome(home)])]
      .filter((folder) => folder.startsWith('/'))
      .slice(0, LIMITS.startChoicesMax),
    harnesses: HARNESS_NAMES,
    roles: rolesOfHome(home).slice(0, LIMITS.startChoicesMax),
  }
}
