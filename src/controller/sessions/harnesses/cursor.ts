import { json, type Recipe } from './recipe.ts'
import { OWN_SERVER, registrations } from './servers.ts'

export const CURSOR: Recipe = {
  image: undefined,
  policy: 'cursor',
  command: ['agent'],
  environment: {},
  // What it is given for the key it sends itself: the gate lets that answer pass.
  logins: [{ secret: 'CURSOR_API_KEY', variable: 'CURSOR_API_KEY', value: 'key_SALLYPORT-worthless' }],
  usesAllLogins: false,
  files: (setting) => [
    {
      path: '.cursor/mcp.json',
      isRewritten: false,
      content: json({
        mcpServers: registrations(setting, {
          lease: '${env:SALLYPORT_LEASE}',
          called: ({ url, headers }) => ({ url, headers }),
          started: ({ command, args, env }) => ({ command, args, env }),
        }),
      }),
    },
    {
      path: '.cursor/cli-config.json',
      isRewritten: true,
      // Its stream in both directions at once is what an inspecting proxy holds up (HTTP/2, Connect).
      content: json({
        version: 1,
        permissions: { allow: [`Mcp(${OWN_SERVER.name}:*)`], deny: [] },
        network: { useHttp1ForAgent: true },
      }),
    },
  ],
}
