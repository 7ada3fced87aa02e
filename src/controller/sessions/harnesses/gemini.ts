import { LIMITS } from '../../../kernel/limits.ts'
import { GEMINI_KEY, json, type Recipe } from './recipe.ts'
import { registrations } from './servers.ts'

export const GEMINI: Recipe = {
  image: 'agent-gemini',
  policy: 'gemini',
  command: ['gemini'],
  // Its own sandbox wants what a container without capabilities does not give.
  environment: { GEMINI_SANDBOX: 'false' },
  logins: [GEMINI_KEY, { secret: 'GOOGLE_API_KEY', variable: 'GOOGLE_API_KEY', value: GEMINI_KEY.value }],
  usesAllLogins: false,
  files: (setting, login) => [
    {
      path: '.gemini/settings.json',
      isRewritten: false,
      content: json({
        privacy: { usageStatisticsEnabled: false },
        telemetry: { enabled: false },
        general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
        ...(login !== undefined && { security: { auth: { selectedType: login === GEMINI_KEY ? 'gemini-api-key' : 'vertex-ai' } } }),
        mcpServers: registrations(setting, {
          lease: '$SALLYPORT_LEASE',
          called: ({ url, headers, isOwn }) => ({
            url,
            type: 'http',
            headers,
            timeout: LIMITS.harnessToolMs,
            ...(isOwn && { trust: true }),
          }),
          started: ({ command, args, env }) => ({ command, args, env, timeout: LIMITS.harnessToolMs }),
        }),
      }),
    },
    { path: '.gemini/trustedFolders.json', isRewritten: true, content: json({ [setting.workspace]: 'TRUST_FOLDER' }) },
  ],
}
