import { stringify } from 'smol-toml'
import { LIMITS } from '../../../kernel/limits.ts'
import { json, OPENAI_KEY, type HarnessSetting, type Login, type McpServer, type Recipe } from './recipe.ts'
import { isAtGate, OWN_SERVER } from './servers.ts'

/** 2100-01-01: a login that seems to end soon is renewed at once. */
const FAR_EXPIRY_S = 4_102_444_800

const KEY: Login = { ...OPENAI_KEY, variable: undefined }

export const CODEX: Recipe = {
  image: 'agent-codex',
  policy: 'codex',
  command: ['codex'],
  environment: {},
  logins: [KEY, { secret: 'CODEX_ACCESS_TOKEN', variable: undefined, value: unsignedToken() }],
  usesAllLogins: false,
  files: (setting, login) => [
    { path: '.codex/config.toml', isRewritten: false, content: config(setting) },
    ...(login === undefined ? [] : [{ path: '.codex/auth.json', isRewritten: true, content: loginFile(login, setting) }]),
  ],
}

/** Its own sandbox needs namespaces, which the jail does not give: the jail is the sandbox. */
function config({ workspace, mcpServers }: HarnessSetting): string {
  return `${stringify({
    check_for_update_on_startup: false,
    cli_auth_credentials_store: 'file',
    sandbox_mode: 'danger-full-access',
    analytics: { enabled: false },
    otel: { metrics_exporter: 'none' },
    // It would write its whole environment into a file, the lease as well.
    features: { shell_snapshot: false },
    projects: { [workspace]: { trust_level: 'trusted' } },
    mcp_servers: Object.fromEntries([OWN_SERVER, ...mcpServers].map((server) => [server.name, registration(server)])),
  })}\n`
}

function registration(server: McpServer): Record<string, unknown> {
  const waits = { startup_timeout_sec: LIMITS.harnessToolStartMs / 1_000, tool_timeout_sec: LIMITS.harnessToolMs / 1_000 }
  if (!('url' in server)) return { command: server.command, args: [...server.args], env: { ...server.env }, ...waits }
  return {
    url: server.url,
    ...(isAtGate(server) && { bearer_token_env_var: 'SALLYPORT_LEASE' }),
    ...waits,
    // It waits for what it cannot do without; else its first turn may begin before it knows the tools.
    ...(server === OWN_SERVER && { required: true, default_tools_approval_mode: 'approve' }),
  }
}

/** As `codex login` writes it. */
function loginFile({ secret, value }: Login, { placeholders, now }: HarnessSetting): string {
  if (secret === KEY.secret) return json({ auth_mode: 'apikey', OPENAI_API_KEY: placeholders['OPENAI_API_KEY'] ?? value })
  const token = placeholders['CODEX_ACCESS_TOKEN'] ?? value
  return json({
    auth_mode: 'chatgpt',
    OPENAI_API_KEY: null,
    tokens: { id_token: unsignedToken(), access_token: token, refresh_token: 'sallyport-worthless', account_id: 'sallyport-worthless' },
    last_refresh: new Date(now).toISOString(),
  })
}

/** Well-formed and unsigned (RFC 7519 §6): it is decoded by the program and worth nothing to anybody. */
function unsignedToken(): string {
  const claims = {
    exp: FAR_EXPIRY_S,
    email: 'agent@sallyport.invalid',
    'https://api.openai.com/auth': {
      chatgpt_account_id: 'sallyport-worthless',
      chatgpt_user_id: 'sallyport-worthless',
      chatgpt_plan_type: 'plus',
    },
  }
  return `${tokenPart({ alg: 'none', typ: 'JWT' })}.${tokenPart(claims)}.${Buffer.from('sallyport').toString('base64url')}`
}

function tokenPart(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
