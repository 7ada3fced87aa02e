import { join } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { inspectRestricted, loadPolicy, readText, type Diagnostic } from '../../policy/policy.ts'
import type { LayerRef, OwnPolicyView, PolicyFileView, PolicyListing, ProblemView, RememberedView } from '../../wire/policies.ts'
import type { RememberedRule } from '../approvals/approvals.ts'
import { timedFile, workspacePolicyDir } from '../sessions/session-layers.ts'
import type { SessionRecord } from '../sessions/sessions.ts'
import { isSessionId } from '../sessions/session-names.ts'
import { readWorkspaceFile } from '../sessions/workspace-file.ts'
import { namesIn, rolesOfHome, workspacesOfHome } from '../home-policies.ts'
import { contentDigest, type TrustStore } from '../sessions/workspace-trust.ts'
import type { StateFile } from '../state.ts'
import { currentText, type PolicyChanges } from './policy-changes.ts'

export type ListingParts = {
  readonly home: string
  /** Policies of the installation. */
  readonly presets: string
  readonly state: Pick<StateFile, 'live'>
  readonly changes: Pick<PolicyChanges, 'reached'>
  readonly approvals: { remembered(): readonly RememberedRule[] }
  readonly trust: Pick<TrustStore, 'isTrusted'>
}

/** Every file of policies of this home by its layer, what workspaces bring, and what holds for a time. */
export async function listPolicies(parts: ListingParts): Promise<PolicyListing> {
  const { home, presets, state, approvals } = parts
  const running = state.live().flatMap(({ id, name, state: at, record }) => {
    const { workspace, role, project } = record as SessionRecord
    return at !== 'running' || project !== undefined ? [] : [{ id, name, workspace, ...(role !== undefined && { role }) }]
  })
  const workspaces = [...new Set([...workspacesOfHome(home), ...running.map(({ workspace }) => workspace)])].toSorted()
  const layers: LayerRef[] = [
    { kind: 'global' },
    ...rolesOfHome(home).map((role): LayerRef => ({ kind: 'role', role })),
    ...workspaces.map((workspace): LayerRef => ({ kind: 'workspace', workspace })),
  ]
  return {
    files: await Promise.all(layers.map((layer) => fileOf(parts, layer))),
    own: (await Promise.all(workspaces.map((workspace) => ownOf(parts, workspace)))).flat(),
    remembered: [...approvals.remembered().map(rememberedOf), ...(await timedRules(home, workspaces, running))],
    presets: presetsIn(presets),
    sessions: running,
  }
}

async function fileOf({ home, changes }: ListingParts, layer: LayerRef): Promise<PolicyFileView> {
  const { file, of } = placeOf(home, layer)
  const sessions = changes.reached(of).map(({ id, name }) => ({ id, name }))
  try {
    const text = await currentText(home, file)
    return { layer, file, sessions, ...(text !== undefined && { text }) }
  } catch (error) {
    return { layer, file, sessions, problem: error instanceof SallyportError ? error.message : codeOf(error) }
  }
}

function placeOf(home: string, layer: LayerRef): { readonly file: string; readonly of: Parameters<PolicyChanges['reached']>[0] } {
  switch (layer.kind) {
    case 'global':
      return { file: join(home, 'policies', 'global.yaml'), of: {} }
    case 'role':
      return { file: join(home, 'policies', 'roles', `${layer.role}.yaml`), of: { role: layer.role } }
    case 'workspace':
      return { file: join(workspacePolicyDir(home, layer.workspace), 'policy.yaml'), of: { workspace: layer.workspace } }
    case 'session':
      return { file: timedFile(home, { session: layer.session }), of: { session: layer.session } }
  }
}

async function ownOf({ trust }: ListingParts, workspace: string): Promise<OwnPolicyView[]> {
  let own: ReturnType<typeof readWorkspaceFile>
  try {
    own = readWorkspaceFile(workspace)
  } catch (error) {
    return [{ workspace, file: workspace, problem: codeOf(error), isTrusted: false, errors: [], allows: [] }]
  }
  if (own === undefined) return []
  const { file } = own
  if ('problem' in own) return [{ workspace, file, problem: own.problem, isTrusted: false, errors: [], allows: [] }]
  const { errors, allows } = inspectRestricted(own)
  const isTrusted = await trust.isTrusted(workspace, own.text).catch(() => false)
  const digest = contentDigest(own.text)
  return [{ workspace, file, text: own.text, digest, isTrusted, errors: errors.map(problem), allows: allows.map(problem) }]
}

function problem(one: Diagnostic): ProblemView {
  return { severity: 'error', ...one }
}

function rememberedOf({ id, kind, rule, workspace, createdAt, expiresAt }: RememberedRule): RememberedView {
  return { id, kind, rule, workspace, createdAt, expiresAt }
}

/** What is allowed for a time, of workspaces that are known and sessions that run. */
async function timedRules(
  home: string,
  workspaces: readonly string[],
  running: readonly { readonly id: string; readonly name: string }[],
): Promise<RememberedView[]> {
  const of = [
    ...workspaces.map((workspace) => ({
      file: timedFile(home, { workspace }),
      about: { workspace, layer: { kind: 'workspace', workspace } as const },
    })),
    ...running
      .filter(({ id }) => isSessionId(id))
      .map(({ id, name }) => ({
        file: timedFile(home, { session: id }),
        about: { session: { id, name }, layer: { kind: 'session', session: id } as const },
      })),
  ]
  const found = of.map(async ({ file, about }): Promise<RememberedView[]> => {
    const text = await currentText(home, file).catch(() => undefined)
    if (text === undefined) return []
    return rulesOf(file, text).map(({ id, expiresAt, from: _from, plane: _plane, ...rule }) => ({
      id,
      kind: 'timed' as const,
      rule: [rule.action, rule.host, `ports ${rule.ports.join(',')}`, rule.methods?.join(' '), rule.paths?.join(' ')]
        .filter(Boolean)
        .join('  '),
      ...(expiresAt !== undefined && { expiresAt }),
      ...about,
    }))
  })
  return (await Promise.all(found)).flat()
}

function rulesOf(file: string, text: string) {
  try {
    return loadPolicy([{ file, text }], { policyDirs: [] }).effective.rules
  } catch {
    // One that is damaged is shown by what it breaks: sessions name its line.
    return []
  }
}

function presetsIn(folder: string): PolicyListing['presets'] {
  const kinds = ['harness', 'service'] as const
  return kinds.flatMap((kind) =>
    namesIn(join(folder, kind))
      .filter((name) => name.endsWith('.yaml'))
      .map((name) => ({ name: `${kind}/${name.slice(0, -'.yaml'.length)}`, file: join(kind, name) })),
  )
}

/** The text of a policy of the installation. @throws policy_not_found */
export function presetText(presets: string, name: string): string {
  const known = presetsIn(presets).find((one) => one.name === name)
  const text = known && readText(join(presets, known.file), LIMITS.policyFileBytesMax)
  if (typeof text === 'string') return text
  throw new SallyportError('policy_not_found', 'there is no policy of this name in the installation')
}
