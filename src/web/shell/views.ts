import type { FunctionComponent } from 'preact'

export type ViewName = 'inbox' | 'sessions' | 'activity' | 'vault' | 'servers' | 'policies' | 'audit' | 'start' | 'settings'
export type View = { readonly label: string; readonly load: () => Promise<FunctionComponent> }

/** Every view, in the order of the menu. Each is loaded when it is first looked at. */
export const VIEWS: Readonly<Record<ViewName, View>> = {
  inbox: { label: 'Inbox', load: async () => (await import('../inbox/inbox.tsx')).Inbox },
  sessions: { label: 'Sessions', load: async () => (await import('../sessions/sessions.tsx')).Sessions },
  activity: { label: 'Activity', load: async () => (await import('../activity/activity.tsx')).Activity },
  vault: { label: 'Vault', load: async () => (await import('../vault/vault.tsx')).Vault },
  servers: { label: 'MCP servers', load: async () => (await import('../servers/servers.tsx')).Servers },
  policies: { label: 'Policies', load: async () => (await import('../policies/policies.tsx')).Policies },
  audit: { label: 'Audit', load: async () => (await import('../audit/audit.tsx')).Audit },
  start: { label: 'Start', load: async () => (await import('../start/start.tsx')).Start },
  settings: { label: 'Access', load: async () => (await import('../presence/settings.tsx')).Settings },
}
