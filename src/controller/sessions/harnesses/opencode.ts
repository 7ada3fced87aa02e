import { LIMITS } from '../../../kernel/limits.ts'
import { CLAUDE_KEY, GEMINI_KEY, json, OPENAI_KEY, type Recipe } from './recipe.ts'
import { OWN_SERVER, registrations } from './servers.ts'

export const OPENCODE: Recipe = {
  image: 'agent-opencode',
  policy: 'opencode',
  command: ['opencode'],
  environment: {
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
  },
  logins: [CLAUDE_KEY, OPENAI_KEY, GEMINI_KEY],
  usesAllLogins: true,
  files: (setting) => [
    {
      path: '.config/opencode/opencode.json',
      isRewritten: false,
      content: json({
        share: 'disabled',
        autoupdate: false,
        permission: { [`${OWN_SERVER.name}_*`]: 'allow' },
        mcp: registrations(setting, {
          lease: '{env:SALLYPORT_LEASE}',
          // A 401 would start a login of its own.
          called: ({ url, headers }) => ({ type: 'remote', url, headers, oauth: false, enabled: true, timeout: LIMITS.harnessToolMs }),
          started: ({ command, args, env }) => ({
            type: 'local',
            command: [command, ...args],
            environment: env,
            enabled: true,
            timeout: LIMITS.harnessToolMs,
          }),
        }),
      }),
    },
  ],
}
