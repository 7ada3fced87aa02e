import type { CalledServer, HarnessSetting, StartedServer } from './recipe.ts'

const GATE = 'http://sallyport:7070/'
/** The gate's own, as every harness knows it. */
export const OWN_SERVER: CalledServer = { name: 'sallyport', url: `${GATE}mcp` }

/** How a program has its servers registered. */
export type Spelling = {
  /** The variable with the lease, as the program writes one in a header: it fills in the value itself, and the lease is in no file. */
  readonly lease: string
  readonly called: (server: CalledServer & { readonly headers: Readonly<Record<string, string>>; readonly isOwn: boolean }) => unknown
  readonly started: (server: StartedServer) => unknown
}

/** The gate's own server and those of the session, by name. */
export function registrations(
  { mcpServers }: Pick<HarnessSetting, 'mcpServers'>,
  { lease, called, started }: Spelling,
): Record<string, unknown> {
  const entries = [OWN_SERVER, ...mcpServers].map((server) => {
    if (!('url' in server)) return [server.name, started(server)] as const
    const headers = isAtGate(server) ? { Authorization: `Bearer ${lease}` } : {}
    return [server.name, called({ ...server, headers, isOwn: server === OWN_SERVER })] as const
  })
  return Object.fromEntries(entries)
}

/** I68: Nobody else is shown the lease. */
export function isAtGate({ url }: CalledServer): boolean {
  return url.startsWith(GATE)
}
