import { homedir } from 'node:os'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import {
  describeAlso,
  describePlace,
  formatPlace,
  secretsOfServer,
  showPolicy,
  type EffectiveCredential,
  type EffectivePolicy,
  type EffectiveRule,
} from '../../policy/policy.ts'
import type { SessionPreview } from '../../wire/session-facts.ts'
import { WORKSPACE } from './agent-environment.ts'
import type { EngineInfo, ImageFacts } from './engine.ts'
import { readHidePatterns } from './hide-patterns.ts'
import { checkedSource, guardedPlaces } from './mount-sources.ts'
import { ownerOf } from './owner.ts'
import { engineWarnings, howMade, realFolder, refuseRuntime } from './plan-session.ts'
import { newSessionId, sessionName } from './session-names.ts'
import type { Foreseen, SessionParts, UpRequest } from './session-parts.ts'
import { refuseUnsafe } from './specs.ts'
import type { Filesystem } from './workspace.ts'
import { checkWorkspacePlace, isCaseBlind } from './workspace-place.ts'
import { pathText, surveyWorkspace, type FoundPath } from './workspace-survey.ts'

/**
 * What the session of a request would be, by the same code that plans it. Nothing is made, written or fetched.
 * @throws policy_invalid and its kin, config_invalid, config_prohibited, image_missing, workspace_refused, engine_unavailable
 */
export async function previewSession(parts: SessionParts, request: UpRequest): Promise<SessionPreview> {
  const workspace = realFolder(request.workspace)
  const id = newSessionId(parts.system)
  // Without a wish it ends in a piece of an id, which is another one when it starts.
  const name = sessionName(request.name, workspace, id)
  if (request.name !== undefined && parts.state.live().some((row) => row.name === name))
    throw new SallyportError('config_invalid', `there is a session "${name}" already`, { hint: 'end it, or choose another name' })
  const foreseen = await parts.foresee(request, { id, workspace })
  const { plan, policy, layers } = foreseen
  const [info, image] = await Promise.all([parts.engine.info(), imageFacts(parts, plan.agent.image, plan.agent.imageHint)])
  await imageFacts(parts, plan.sidecar.image)
  const places = guardedPlaces({ home: parts.home, socket: info.socket, rootFolder: info.isLocal ? info.rootFolder : undefined })
  if (plan.filesystem.workspace !== 'none') checkedSource(workspace, places)
  refuseUnsafe(plan, request, image ?? NOT_FETCHED, places)
  refuseRuntime(plan.agent.runtime ?? info.defaultRuntime, info)
  const effective = showPolicy(policy)
  return {
    name: request.name === undefined ? `${name.slice(0, -4)}…` : name,
    workspace,
    harness: plan.harness ?? null,
    image: { name: plan.agent.image, state: image === undefined ? 'fetched' : 'present' },
    command: plan.agent.command,
    limits: limitsOf(plan, ownerOf(workspace), info),
    mode: effective.mode.value,
    layers: layers.files.map(({ layer, file }) => ({ layer, file })),
    trust: layers.restricted.length > 0 ? 'restricted' : layers.files.some(({ layer }) => layer === 'own') ? 'trusted' : 'none',
    ...policyInWords(effective),
    mounts: [
      ...(plan.filesystem.workspace === 'none'
        ? []
        : [{ source: workspace, target: WORKSPACE, readOnly: plan.filesystem.workspace === 'ro' }]),
      ...plan.agent.mounts,
    ],
    filesystem: plan.filesystem,
    ...(await coversOf(parts, workspace, plan.filesystem)),
    variables: [...new Set([...Object.keys(plan.agent.environment), ...Object.keys(request.environment ?? {})])],
    warnings: [
      ...foreseen.missing,
      ...layers.problems.map(({ file, message }) => `${file}: ${message}`),
      ...plan.warnings,
      ...engineWarnings(info, plan.agent),
    ],
  }
}

/** What is known of an image that is not there yet: it is looked at once it is. */
const NOT_FETCHED: ImageFacts = { id: '', environment: [], volumes: [], labels: {}, user: '', entrypoint: [], command: [] }

/** Undefined for one that is fetched at the start. @throws image_missing for one that nobody publishes */
async function imageFacts(parts: SessionParts, name: string, made?: string): Promise<ImageFacts | undefined> {
  const found = await parts.engine.image(name)
  const hint = howMade(name, made)
  if (found === undefined && hint !== undefined) throw new SallyportError('image_missing', `the engine has no image ${name}`, { hint })
  return found
}

function limitsOf({ agent }: Foreseen['plan'], owner: { readonly uid: number; readonly gid: number }, info: EngineInfo) {
  const { uid, gid } = agent.user ?? owner
  return {
    memoryBytes: agent.memoryBytes ?? LIMITS.agentMemoryBytes,
    cpus: Math.min(agent.cpus ?? LIMITS.agentCpusMax, info.cpus),
    pids: agent.processes ?? LIMITS.agentProcessesMax,
    user: `${uid}:${gid}`,
  }
}

/** What lies over parts of the workspace, by its names: nothing of it is opened. */
async function coversOf(
  { home, system }: SessionParts,
  workspace: string,
  { workspace: mode, hide, git_metadata }: Filesystem,
): Promise<Pick<SessionPreview, 'hidden' | 'hiddenMore' | 'git' | 'gitMore'>> {
  if (mode === 'none') return { hidden: [], hiddenMore: 0, git: [], gitMore: 0 }
  const patterns = readHidePatterns(hide)
  const owners = [ownerOf(workspace).uid, ...(process.getuid === undefined ? [] : [process.getuid()])]
  const root = await checkWorkspacePlace(workspace, { home, userHome: homedir(), engineFolders: [], owners })
  const { hidden, gitNames, bare } = await surveyWorkspace(root, patterns, system, patterns.length > 0 && (await isCaseBlind(root)))
  const isProtected = mode === 'rw' && git_metadata === 'protected'
  const git = isProtected ? [...gitNames.map(pathOf), ...bare.map((path) => pathText(path) || '.')] : []
  const max = LIMITS.previewPathsMax
  return {
    hidden: hidden.slice(0, max).map(pathOf),
    hiddenMore: Math.max(0, hidden.length - max),
    git: git.slice(0, max),
    gitMore: Math.max(0, git.length - max),
  }
}

function pathOf({ path, kind }: FoundPath): string {
  return `${pathText(path)}${kind === 'folder' ? '/' : ''}`
}

type InWords = Pick<SessionPreview, 'rules' | 'credentials' | 'routes' | 'servers' | 'commands'>

function policyInWords({ rules, credentials, routes, mcpServers, hostCommands }: EffectivePolicy): InWords {
  const linesOf = (action: EffectiveRule['action']) =>
    rules
      .filter((rule) => rule.action === action)
      .map((rule) => ({ id: rule.id, text: ruleInWords(rule), from: formatPlace(rule.from), isOfHarness: rule.plane === 'control_plane' }))
  return {
    rules: { allow: linesOf('allow'), ask: linesOf('ask'), deny: linesOf('deny') },
    credentials: credentials.map((credential) => ({
      id: credential.id,
      secret: credential.secret,
      text: credentialInWords(credential),
      from: formatPlace(credential.from),
    })),
    routes: routes.map(({ name, upstream, from }) => ({ name, upstream, from: formatPlace(from) })),
    servers: mcpServers.map((server) => {
      const secrets = secretsOfServer(server)
      const where = server.kind === 'http' ? server.url : server.command.join(' ')
      return { name: server.name, text: `${where}${secrets.length === 0 ? '' : `, secrets ${secrets.join(', ')}`}` }
    }),
    commands: {
      mode: hostCommands.mode.value,
      rules: hostCommands.rules.map(({ list, pattern, from }) => ({ list, pattern, from: formatPlace(from) })),
    },
  }
}

function ruleInWords({ host, ports, methods, paths, protocol, tls, addresses, plaintext }: EffectiveRule): string {
  return [
    `${host}:${ports.join(',')}`,
    methods?.join(' '),
    paths?.join(' '),
    protocol === 'tcp' ? 'any bytes (tcp)' : tls === 'passthrough' ? 'not looked into (passthrough)' : undefined,
    plaintext === 'accept' ? 'credentials over plain http too' : undefined,
    addresses.length > 0 ? `also at ${addresses.join(' ')}` : undefined,
  ]
    .filter((part) => part !== undefined)
    .join(' ')
}

function credentialInWords({ domains, methods, paths, place, also }: EffectiveCredential): string {
  return [
    domains.join(' '),
    methods?.join(' '),
    paths?.join(' '),
    describePlace(place),
    ...also.map((field) => `also ${describeAlso(field)}`),
  ]
    .filter((part) => part !== undefined)
    .join(' · ')
}
