import { LIMITS } from '../../../kernel/limits.ts'
import { json, type Recipe } from './recipe.ts'
import { OWN_SERVER, registrations } from './servers.ts'

/** A fine-grained token has 93 characters. A classic one (ghp_) is refused by its shape. */
const TOKEN = `github_pat_${'SALLYPORTworthless'.padEnd(22, '0')}_${'0'.repeat(59)}`

export const COPILOT: Recipe = {
  image: 'agent-copilot',
  policy: 'copilot',
  command: ['copilot'],
  environment: { COPILOT_AUTO_UPDATE: 'false' },
  logins: [{ secret: 'COPILOT_GITHUB_TOKEN', variable: 'COPILOT_GITHUB_TOKEN', value: TOKEN }],
  usesAllLogins: false,
  files: (setting) => [
    {
      path: '.copilot/config.json',
      isRewritten: true,
      content: json({ trustedFolders: [setting.workspace], banner: 'never', autoUpdate: false, ide: { autoConnect: false } }),
    },
    {
      path: '.copilot/permissions-config.json',
      isRewritten: true,
      content: json({
        locations: { [setting.workspace]: { tool_approvals: [{ kind: 'mcp', serverName: OWN_SERVER.name, toolName: null }] } },
      }),
    },
    {
      path: '.copilot/mcp-config.json',
      isRewritten: false,
      content: json({
        mcpServers: registrations(setting, {
          lease: '${SALLYPORT_LEASE}',
          called: ({ url, headers }) => ({ type: 'http', url, headers, tools: ['*'], timeout: LIMITS.harnessToolMs }),
          started: ({ command, args, env }) => ({ type: 'local', command, args, env, tools: ['*'], timeout: LIMITS.harnessToolMs }),
        }),
      }),
    },
  ],
}
