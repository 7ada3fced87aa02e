import { chmodSync, lstatSync, mkdirSync, readdirSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import type { System } from '../../kernel/system.ts'
import { loadPolicy, loadPolicyWithSources, type Policy, type PolicySources } from '../../policy/policy.ts'
import { inputsOf, type LayerKind, type SessionLayers } from './session-layers.ts'

/** A session's policy as its sidecar reads it: copies, in a folder that is mounted read-only. */
export type FrozenLayers = {
  /** What the copies say. */
  readonly policy: Policy
  /**
   * Paths below the folder, the same as long as the session has as many `--policy` files: a layer that is not there is an empty policy.
   * For SALLYPORT_POLICY, SALLYPORT_POLICY_RESTRICTED and SALLYPORT_POLICY_DIRS, each behind the folder's path in the sidecar.
   */
  readonly files: readonly string[]
  readonly restricted: readonly string[]
  readonly policyDirs: readonly string[]
  /** A message of the sidecar with the operator's own files in the place of the copies. `mount` is the folder's path in the sidecar. */
  readonly named: (message: string, mount: string) => string
}

/** What is swapped as a whole when the policy changes. A link, since a mount stays with the folder that it was made for. */
const CURRENT = 'current'
const SLOTS: readonly LayerKind[] = [
  'global',
  'role',
  'own',
  'workspace',
  'remembered',
  'timed',
  'timed-session',
  'servers',
  'user-servers',
]
const EMPTY = 'version: 1\n'

/**
 * Judges the layers and copies exactly what was judged, with all that it extends, to a new folder below `into`, which becomes `current` in
 * one step. When anything is wrong nothing is written, and what was there stays.
 * @throws policy_invalid, policy_not_found, policy_untrusted, workspace_refused
 */
export function freezeLayers(
  layers: SessionLayers,
  { policyDirs, into }: { readonly policyDirs: readonly string[]; readonly into: string },
  system: Pick<System, 'random'>,
): FrozenLayers {
  const inputs = inputsOf(layers)
  const { policy, sources } = loadPolicyWithSources(inputs.files, { policyDirs, restricted: inputs.restricted })
  const plan = planOf(layers, sources)
  const generation = `policy-${system.random(8).toString('hex')}`
  try {
    mkdirSync(into, { recursive: true, mode: 0o755 })
    write(join(into, generation), plan)
    swap(into, generation)
  } catch (cause) {
    rmSync(join(into, generation), { recursive: true, force: true })
    throw new SallyportError('policy_not_found', `${into}: the session's policy cannot be written (${codeOf(cause)})`, { cause })
  }
  return {
    policy,
    files: plan.slots.map((slot) => join(CURRENT, slot)),
    restricted: [join(CURRENT, RESTRICTED)],
    policyDirs: [join(CURRENT, 'extends')],
    named: (message, mount) =>
      // The longest first: one path may begin with another.
      [...plan.origins]
        .toSorted(([a], [b]) => b.length - a.length)
        .reduce((text, [copy, origin]) => text.replaceAll(join(mount, CURRENT, copy), origin), message),
  }
}

const RESTRICTED = 'restricted.yaml'

/**
 * A policy that was frozen before, as its sidecar has it.
 * @throws policy_not_found, policy_invalid
 */
export function frozenPolicy(into: string): Policy {
  const folder = join(into, CURRENT)
  let names: readonly string[]
  try {
    names = readdirSync(folder)
  } catch (cause) {
    throw new SallyportError('policy_not_found', `${into}: the session's policy cannot be read (${codeOf(cause)})`, { cause })
  }
  const slots = [...SLOTS.map((layer) => slotOf(layer, 0)), ...names.map((_, index) => slotOf('session', index))].filter((slot) =>
    names.includes(slot),
  )
  return loadPolicy(
    slots.map((slot) => join(folder, slot)),
    { policyDirs: [join(folder, 'extends')], restricted: [join(folder, RESTRICTED)] },
  )
}

type Plan = {
  /** Names of the files of the layers, in order. */
  readonly slots: readonly string[]
  readonly texts: ReadonlyMap<string, string>
  /** Names that lead to another file of the folder. */
  readonly links: ReadonlyMap<string, string>
  /** By copy, the file that it is of. */
  readonly origins: ReadonlyMap<string, string>
}

function planOf({ files, restricted }: SessionLayers, sources: PolicySources): Plan {
  const texts = new Map<string, string>()
  const links = new Map<string, string>()
  const origins = new Map<string, string>()
  const placed = new Map<string, string>()
  const put = (copy: string, origin: string, text: string): void => {
    texts.set(copy, text)
    origins.set(copy, origin)
  }
  const realOf = new Map(sources.files.map(({ file, real }) => [file, real]))
  const sessions = files.filter(({ layer }) => layer === 'session')
  const slots = [...SLOTS.map((layer) => slotOf(layer, 0)), ...sessions.map((_, index) => slotOf('session', index))]
  for (const slot of slots) texts.set(slot, EMPTY)
  for (const layer of files) {
    const slot = slotOf(layer.layer, sessions.indexOf(layer))
    const real = realOf.get(layer.file)
    const before = real === undefined ? undefined : placed.get(real)
    // A file that is named twice is read once: of two copies the second would say everything again.
    if (before !== undefined || real === undefined) continue
    put(slot, layer.file, layer.text)
    placed.set(real, slot)
  }
  const textOf = new Map(sources.files.map(({ real, file, text }) => [real, { file, text }]))
  for (const [name, real] of sources.names) {
    const copy = join('extends', `${name}.yaml`)
    const there = placed.get(real)
    const source = textOf.get(real)
    if (there !== undefined) links.set(copy, there)
    else if (source !== undefined) {
      put(copy, source.file, source.text)
      placed.set(real, copy)
    }
  }
  const [own] = restricted
  texts.set(RESTRICTED, own?.text ?? EMPTY)
  if (own !== undefined) origins.set(RESTRICTED, own.file)
  return { slots, texts, links, origins }
}

function slotOf(layer: LayerKind, index: number): string {
  return layer === 'session' ? `session-${index}.yaml` : `${layer}.yaml`
}

/** Readable to the sidecar's uid, whatever the operator's umask: nothing in a policy is a secret. */
function write(folder: string, { texts, links }: Plan): void {
  const folders = ['.', 'extends', ...[...texts.keys(), ...links.keys()].map((file) => dirname(file))]
  for (const name of new Set(folders)) mkdirSync(join(folder, name), { recursive: true })
  for (const [copy, text] of texts) {
    writeFileSync(join(folder, copy), text, { flag: 'wx' })
    chmodSync(join(folder, copy), 0o444)
  }
  for (const [copy, target] of links) symlinkSync(relative(dirname(copy), target), join(folder, copy))
  for (const entry of [folder, ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name))])
    if (lstatSync(entry).isDirectory()) chmodSync(entry, 0o755)
}

function swap(into: string, generation: string): void {
  const before = readdirSync(into).filter((name) => name.startsWith('policy-') && name !== generation)
  const last = currentOf(into)
  const temporary = join(into, `.${generation}`)
  symlinkSync(generation, temporary)
  renameSync(temporary, join(into, CURRENT))
  // The last one may be read in this moment: it goes with the next change.
  for (const name of before) if (name !== last) rmSync(join(into, name), { recursive: true, force: true })
}

function currentOf(into: string): string | undefined {
  try {
    return readlinkSync(join(into, CURRENT))
  } catch {
    return undefined
  }
}
