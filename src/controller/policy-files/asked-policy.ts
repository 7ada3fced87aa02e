import { SallyportError } from '../../kernel/errors.ts'
import type { System } from '../../kernel/system.ts'
import { describeEffective, explainRequest, loadPolicy, type Policy } from '../../policy/policy.ts'
import type { EffectiveView, ExplainedView, ExplainRequest, PolicyQuery } from '../../wire/policies.ts'
import type { LayersQuery, Planning } from '../planning.ts'
import { inputsOf, type LayerKind, type SessionLayers } from '../sessions/session-layers.ts'
import type { SessionRecord } from '../sessions/sessions.ts'
import type { StateFile } from '../state.ts'
import { explainCommand } from './explain-command.ts'
import { explainedCommand, explainedRequest } from './explained-rows.ts'

export type AskedParts = {
  readonly home: string
  readonly policyDirs: readonly string[]
  readonly state: Pick<StateFile, 'find'>
  readonly planning: Pick<Planning, 'layers'>
  /** Where the operator is answered: no command of an agent's may reach it. */
  readonly operatorPorts: () => readonly number[]
  readonly system: Pick<System, 'now'>
}

/** Whose word each layer is, for people. */
const LAYERS: Readonly<Record<LayerKind, string>> = {
  global: 'global',
  role: 'role',
  own: "the workspace's own, trusted",
  workspace: 'workspace',
  remembered: 'remembered',
  timed: 'allowed for a time',
  'timed-session': 'allowed for this session',
  servers: 'MCP servers',
  'user-servers': 'MCP servers of the harness',
  session: 'session',
}

/** The policy that is asked about, with where each part is written. @throws policy_invalid and its kin, session_not_found, usage */
export async function effectivePolicy(parts: AskedParts, query: PolicyQuery): Promise<EffectiveView> {
  const { policy, layers } = await askedPolicy(parts, query)
  const kinds = new Map<string, string>([
    ...layers.files.map(({ layer, file }) => [file, LAYERS[layer]] as const),
    ...layers.restricted.map(({ file }) => [file, "the workspace's own, which may only deny or ask"] as const),
  ])
  return {
    digest: policy.digest,
    files: policy.effective.files.map((file) => ({ file, ...(kinds.has(file) && { layer: kinds.get(file) ?? '' }) })),
    lines: describeEffective(policy.effective).map(({ text, depth, from, isSetting }) => ({
      text,
      depth,
      ...(from ? { file: from.file, line: from.line } : isSetting && { isDefault: true as const }),
    })),
    warnings: policy.warnings.map((one) => ({ severity: 'warning' as const, ...one })),
  }
}

/** What would become of a request or a command. Nothing is sent, run or looked up. @throws usage, command_invalid and the same */
export async function explainAsked(
  parts: AskedParts,
  { url, method = 'GET', command, argv, cwd = '.', ...query }: ExplainRequest,
): Promise<ExplainedView> {
  if ([url, command, argv].filter((one) => one !== undefined).length !== 1)
    throw new SallyportError('usage', 'it is asked about a URL, a command line or the words of a command: exactly one of them')
  const { policy, workspace } = await askedPolicy(parts, query)
  const now = parts.system.now()
  if (url !== undefined) return explainedRequest(explainRequest(policy.asOf(now), url, method))
  const wish = argv === undefined ? { command: command ?? '' } : { argv }
  const around = { home: parts.home, workspace, operatorPorts: [...parts.operatorPorts()] }
  return explainedCommand(await explainCommand(policy.hostCommands, wish, cwd, around, now))
}

async function askedPolicy(
  { home: _home, policyDirs, state, planning }: AskedParts,
  query: PolicyQuery,
): Promise<{ readonly policy: Policy; readonly layers: SessionLayers; readonly workspace: string }> {
  const asked = layersQuery(state, query)
  const layers = await planning.layers(asked)
  const { files, restricted } = inputsOf(layers)
  return { policy: loadPolicy(files, { policyDirs, restricted }), layers, workspace: asked.workspace }
}

function layersQuery(state: AskedParts['state'], { session, workspace, role, harness }: PolicyQuery): LayersQuery {
  if (session === undefined) {
    if (workspace === undefined) throw new SallyportError('usage', 'a session or a workspace is to be named')
    return { workspace, policy: [], ...(role !== undefined && { role }), ...(harness !== undefined && { harness }) }
  }
  const row = state.find(session)
  if (row === undefined) throw new SallyportError('session_not_found', `there is no session "${session}"`)
  const record = row.record as SessionRecord
  return {
    workspace: record.workspace,
    policy: record.policy,
    session: row.id,
    ...(record.role !== undefined && { role: record.role }),
    ...(record.harness !== undefined && { harness: record.harness }),
  }
}
