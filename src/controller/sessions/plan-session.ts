import { realpathSync, statSync } from 'node:fs'
import { SallyportError } from '../../kernel/errors.ts'
import type { EngineInfo, ImageFacts } from './engine.ts'
import type { Bind } from './hardening.ts'
import { checkedSource, guardedPlaces } from './mount-sources.ts'
import { ownerOf } from './owner.ts'
import { createPullProgress } from './pull-progress.ts'
import type { OnPull, SessionParts, SessionPlan, SessionRecord, UpRequest } from './session-parts.ts'
import { policyFolder } from './session-names.ts'
import { refuseUnsafe } from './specs.ts'

/** What a session will be, before anything of it is made. */
export type PlannedSession = {
  readonly id: string
  readonly name: string
  readonly request: UpRequest
  readonly plan: SessionPlan
  readonly binds: readonly Bind[]
  readonly info: EngineInfo
  readonly agentImage: ImageFacts
  readonly sidecarImage: ImageFacts
  readonly record: SessionRecord
}

type PullWatch = { readonly signal: AbortSignal; readonly onPull: OnPull }

/**
 * Everything that can be refused, before anything is made: images, settings, mounts, the place of the workspace.
 * @throws SallyportError config_prohibited, config_invalid, image_missing, engine_unavailable and whatever `prepare` throws
 */
export async function planSession(
  parts: SessionParts,
  request: UpRequest,
  names: { readonly id: string; readonly name: string },
  watching: PullWatch,
): Promise<PlannedSession> {
  const workspace = realFolder(request.workspace)
  const plan = await parts.prepare(request, { id: names.id, workspace, policyFolder: policyFolder(parts.home, names.id) })
  const [info, agentImage, sidecarImage] = await Promise.all([
    parts.engine.info(),
    imageOf(parts, plan.agent.image, watching, plan.agent.imageHint),
    imageOf(parts, plan.sidecar.image, watching),
  ])
  const places = guardedPlaces({ home: parts.home, socket: info.socket, rootFolder: info.isLocal ? info.rootFolder : undefined })
  if (plan.filesystem.workspace !== 'none') checkedSource(workspace, places)
  const binds = refuseUnsafe(plan, request, agentImage, places)
  refuseRuntime(plan.agent.runtime ?? info.defaultRuntime, info)
  const record: SessionRecord = {
    workspace,
    policy: request.policy,
    ...(request.harness !== undefined && { harness: request.harness }),
    ...(plan.harness !== undefined && { harnessInUse: plan.harness }),
    ...(request.role !== undefined && { role: request.role }),
    image: plan.agent.image,
    owner: ownerOf(workspace),
    tty: request.tty,
    control: controlWay(info),
    filesystem: plan.filesystem,
    warnings: [...plan.warnings, ...engineWarnings(info, plan.agent)],
    agentLeases: [],
    ids: {},
  }
  return { ...names, request, plan, binds, info, agentImage, sidecarImage, record }
}

/** @throws config_invalid */
export function refuseRuntime(runtime: string, { runtimes }: Pick<EngineInfo, 'runtimes'>): void {
  if (runtimes.includes(runtime)) return
  throw new SallyportError('config_invalid', `the engine has no runtime "${runtime}"`, { hint: `it has ${runtimes.join(', ')}` })
}

/** Nobody publishes images of these names: a registry's would be a stranger's. */
const OWN_IMAGES = 'sallyport/'

/** How an image is made that is never pulled; undefined for one that is. `made`: what is known of it besides its name. */
export function howMade(name: string, made?: string): string | undefined {
  return made ?? (name.startsWith(OWN_IMAGES) ? 'make it, in the folder of Sallyport: npm start' : undefined)
}

/** `made`: how one that is never pulled is made. */
async function imageOf(parts: SessionParts, name: string, { signal, onPull }: PullWatch, made?: string): Promise<ImageFacts> {
  const found = await parts.engine.image(name)
  if (found !== undefined) return found
  const hint = howMade(name, made)
  if (hint !== undefined) throw new SallyportError('image_missing', `the engine has no image ${name}`, { hint })
  const progress = createPullProgress(name, onPull, parts.system)
  await parts.engine.pull(name, (step) => progress.step(step), signal)
  progress.end()
  const pulled = await parts.engine.image(name)
  if (pulled !== undefined) return pulled
  throw new SallyportError('image_missing', `the engine has no image ${name} after it was pulled`)
}

/** Runtimes whose containers share this machine's kernel. To a container in a machine of its own, or in gVisor, a socket of the host is a file. */
const SHARE_KERNEL: ReadonlySet<string> = new Set(['runc', 'crun', 'io.containerd.runc.v2', 'nvidia'])

/** Else the control channel goes over the engine's own streams. */
export function canMountSocket(info: EngineInfo): boolean {
  return info.isLocal && !info.isRootless && !info.isRemapped && SHARE_KERNEL.has(info.defaultRuntime)
}

/** How gate and controller talk: by a socket that the gate mounts, or, where it could not use one, over the engine's own streams. */
export function controlWay(info: EngineInfo): SessionRecord['control'] {
  return canMountSocket(info) ? 'unix' : 'stdio'
}

/** What of this engine the operator should know. */
export function engineWarnings(info: EngineInfo, { user }: Pick<SessionPlan['agent'], 'user'>): string[] {
  return [
    ...(user?.uid === 0 ? ['the policy makes the agent root in its container'] : []),
    ...(info.hasSeccomp || info.isRootless ? [] : ['the engine filters no system calls (seccomp is off)']),
    ...(info.isRemapped ? ['the engine moves uids (userns-remap): files that the agent makes belong to another uid of the host'] : []),
    ...(info.isRootless ? ['the engine is rootless: files that the agent makes belong to a uid of your subordinate range'] : []),
  ]
}

/** The real path of a workspace. @throws config_invalid */
export function realFolder(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isDirectory() !== true)
    throw new SallyportError('config_invalid', `the workspace "${path}" is not a folder`, {
      hint: 'name the folder that the agent works on',
    })
  return realpathSync(path)
}
