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
  return `check_for_update_on_startup = false
cli_auth_credentials_store = "file"
sandbox_mode = "danger-full-access"

[analytics]
enabled = false

[otel]
metrics_exporter = "none"

# It would write its whole environment into a file, the lease as well.
[features]
shell_snapshot = false

[projects.${toml(workspace)}]
trust_level = "trusted"
${[OWN_SERVER, ...mcpServers].map(serverTable).join('')}`
}

function serverTable(server: McpServer): string {
  const lines = [
    ...('url' in server
      ? [`url = ${toml(server.url)}`, ...(isAtGate(server) ? ['bearer_token_env_var = "SALLYPORT_LEASE"'] : [])]
      : [`command = ${toml(server.command)}`, `args = [${server.args.map(toml).join(', ')}]`]),
    `startup_timeout_sec = ${LIMITS.harnessToolStartMs / 1_000}`,
    `tool_timeout_sec = ${LIMITS.harnessToolMs / 1_000}`,
    ...(server === OWN_SERVER ? ['default_tools_approval_mode = "approve"'] : []),
    ...('env' in server && Object.keys(server.env).length > 0
      ? [
          `env = { ${Object.entries(server.env)
            .map(([name, value]) => `${toml(name)} = ${toml(value)}`)
            .join(', ')} }`,
        ]
      : []),
  ]
  return `\n[mcp_servers.${toml(server.name)}]\n${lines.join('\n')}\n`
}

/** A basic string of TOML 1.0 has the escapes of JSON, and wants U+007F escaped as well. */
function toml(text: string): string {
  return JSON.stringify(text).replaceAll('\u007F', String.raw`\u007F`)
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
