import { LIMITS } from '../../../kernel/limits.ts'
import { CLAUDE_KEY, json, valueOf, type Recipe } from './recipe.ts'
import { OWN_SERVER, registrations } from './servers.ts'

/** It remembers which key it was allowed to use by the key's end. */
const KEY_TAIL_CHARS = 20

export const CLAUDE: Recipe = {
  image: 'agent-claude',
  policy: 'claude',
  command: ['claude'],
  environment: { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1', ENABLE_CLAUDEAI_MCP_SERVERS: 'false' },
  logins: [
    CLAUDE_KEY,
    // It has to believe that it holds a subscription token: only then it says so to the API.
    { secret: 'CLAUDE_CODE_OAUTH_TOKEN', variable: 'CLAUDE_CODE_OAUTH_TOKEN', value: 'sk-ant-oat01-SALLYPORT-worthless' },
  ],
  usesAllLogins: false,
  files: (setting, login) => [
    {
      path: '.claude.json',
      isRewritten: true,
      content: json({
        hasCompletedOnboarding: true,
        projects: { [setting.workspace]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true } },
        ...(login === CLAUDE_KEY && {
          customApiKeyResponses: { approved: [valueOf(login, setting.placeholders).slice(-KEY_TAIL_CHARS)], rejected: [] },
        }),
        mcpServers: registrations(setting, {
          lease: '${SALLYPORT_LEASE}',
          // It shows its model the names of tools alone, to be looked up first, unless it is told to load them.
          called: ({ url, headers, isOwn }) => ({
            type: 'http',
            url,
            headers,
            timeout: LIMITS.harnessToolMs,
            ...(isOwn && { alwaysLoad: true }),
          }),
          started: ({ command, args, env }) => ({ type: 'stdio', command, args, env, timeout: LIMITS.harnessToolMs }),
        }),
      }),
    },
    {
      path: '.claude/settings.json',
      isRewritten: false,
      content: json({ skipWebFetchPreflight: true, permissions: { allow: [`mcp__${OWN_SERVER.name}`] } }),
    },
  ],
}
