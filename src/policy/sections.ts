import { entriesOf, valueAt } from './entries.ts'
import type { Layer } from './layers.ts'
import type {
  EffectiveFilesystem,
  EffectivePolicy,
  EffectiveSession,
  FilesystemPolicy,
  Place,
  Said,
  SessionPolicySection,
} from './model.ts'
import { Filesystem, Session } from './schema-session.ts'
import { parseCpus, parseMemory, parseUser } from './session-values.ts'

type Parser<T> = { safeParse(value: unknown): { data?: T | undefined } }

/** `filesystem` of all layers: patterns add up, of the rest the last word counts. */
export function assembleFilesystem(layers: readonly Layer[]): EffectiveFilesystem {
  const { workspace, hide, git_metadata: git } = Filesystem.shape
  const seen = new Set<string>()
  const hidden = layers
    .flatMap((layer) => entriesOf(layer, ['filesystem', 'hide']))
    .flatMap(({ raw, from }): { value: string; from: Place }[] => {
      const value = hide.unwrap().safeParse([raw]).data?.[0]
      if (value === undefined || seen.has(value)) return []
      seen.add(value)
      return [{ value, from }]
    })
  return {
    workspace: lastSaid(layers, ['filesystem', 'workspace'], workspace) ?? { value: 'rw' },
    hide: hidden,
    gitMetadata: lastSaid(layers, ['filesystem', 'git_metadata'], git) ?? { value: 'protected' },
  }
}

/** `session` of all layers: of each field the last word counts. */
export function assembleSession(layers: readonly Layer[]): EffectiveSession {
  const said = <K extends keyof typeof Session.shape>(key: K) => lastSaid(layers, ['session', key], Session.shape[key] as Parser<Of<K>>)
  const [memory, cpus, user] = [said('memory'), said('cpus'), said('user')]
  const parsed = user && parseUser(user.value)
  return {
    ...optional('image', said('image')),
    ...optional('memoryBytes', memory && number({ ...memory, value: parseMemory(memory.value) })),
    ...optional('cpus', cpus && number({ ...cpus, value: parseCpus(String(cpus.value)) })),
    ...optional('pids', said('pids')),
    ...optional('runtime', said('runtime')),
    user:
      user === undefined || parsed === undefined || typeof parsed === 'string' ? { value: 'operator' } : { ...user, value: parsed.user },
    ...optional('seccomp', said('seccomp')),
  }
}

/** The values alone, for whoever makes a session. */
export function filesystemOf({ filesystem }: Pick<EffectivePolicy, 'filesystem'>): FilesystemPolicy {
  const { workspace, hide, gitMetadata } = filesystem
  return { workspace: workspace.value, hide: hide.map(({ value }) => value), gitMetadata: gitMetadata.value }
}

/** The values alone. */
export function sessionOf({ session }: Pick<EffectivePolicy, 'session'>): SessionPolicySection {
  const { image, memoryBytes, cpus, pids, runtime, user, seccomp } = session
  return {
    ...optional('image', image?.value),
    ...optional('memoryBytes', memoryBytes?.value),
    ...optional('cpus', cpus?.value),
    ...optional('pids', pids?.value),
    ...optional('runtime', runtime?.value),
    user: user.value,
    ...optional('seccomp', seccomp?.value),
  }
}

type Of<K extends keyof typeof Session.shape> = NonNullable<ReturnType<(typeof Session.shape)[K]['parse']>>

/** The value of the last layer that says one, and where. What is not well-formed is left out: its error is known. */
function lastSaid<T>(
  layers: readonly Layer[],
  path: readonly string[],
  schema: Parser<T>,
): (Said<NonNullable<T>> & { readonly from: Place }) | undefined {
  for (const { document } of layers.toReversed()) {
    const value = schema.safeParse(valueAt(document.data, path)).data
    if (value !== undefined && value !== null) return { value, from: document.placeOf(path) }
  }
  return undefined
}

function number({ value, from }: { value: number | string; from: Place }): Said<number> {
  if (typeof value === 'string') throw new Error(value) // the schema has refused it before
  return { value, from }
}

function optional<K extends string, T>(key: K, value: T | undefined): { readonly [P in K]?: T } {
  return value === undefined ? {} : ({ [key]: value } as { readonly [P in K]?: T })
}
