/** The part of what the engine says about a container that decides what it may do. Field names are the engine's. */
export type InspectedContainer = {
  readonly Config: { readonly User?: string; readonly Image?: string }
  readonly HostConfig: Readonly<Record<string, unknown>>
  readonly Mounts: readonly { readonly Type: string; readonly Source?: string; readonly Destination: string; readonly RW: boolean }[]
  readonly NetworkSettings: { readonly Networks: Readonly<Record<string, unknown>> | null }
}

/** How a container ends, is named and logged: none of it gives a process anything. */
const ANOTHER_MATTER = new Set(['AutoRemove', 'RestartPolicy', 'LogConfig', 'ConsoleSize', 'ContainerIDFile', 'Annotations', 'OomScoreAdj'])

/** What one container may and the other may not, by field. Empty: what was tried in the one holds for the other. */
export function differences(one: InspectedContainer, other: InspectedContainer): string[] {
  const names = new Set([...Object.keys(one.HostConfig), ...Object.keys(other.HostConfig)])
  const differing = [...names]
    .filter((name) => !ANOTHER_MATTER.has(name) && canonical(one.HostConfig[name]) !== canonical(other.HostConfig[name]))
    .map((name) => `HostConfig.${name}`)
  if ((one.Config.User ?? '') !== (other.Config.User ?? '')) differing.push('Config.User')
  if (mountsOf(one) !== mountsOf(other)) differing.push('Mounts')
  if (networksOf(one) !== networksOf(other)) differing.push('Networks')
  return differing.toSorted()
}

function mountsOf({ Mounts }: InspectedContainer): string {
  return canonical(Mounts.map(({ Type, Source, Destination, RW }) => [Destination, Type, Source ?? '', RW]).toSorted(byText))
}

function networksOf({ NetworkSettings }: InspectedContainer): string {
  return canonical(Object.keys(NetworkSettings.Networks ?? {}).toSorted())
}

function byText(a: readonly unknown[], b: readonly unknown[]): number {
  return String(a[0]) < String(b[0]) ? -1 : 1
}

/** The engine writes an unset list as null, as an empty one, or leaves it out; the order of keys, and that of binds, says nothing. */
function canonical(value: unknown): string {
  return JSON.stringify(normal(value)) ?? ''
}

function normal(value: unknown): unknown {
  if (value === null || value === undefined || value === '' || value === false || value === 0) return null
  if (Array.isArray(value)) {
    if (value.length === 0) return null
    const items = value.map(normal)
    return items.every((item) => typeof item === 'string') ? items.toSorted() : items
  }
  if (typeof value !== 'object') return value
  const entries = Object.entries(value)
    .map(([key, item]) => [key, normal(item)] as const)
    .filter(([, item]) => item !== null)
  return entries.length === 0 ? null : Object.fromEntries(entries.toSorted(byText))
}
