import { SallyportError } from '../../kernel/errors.ts'
import { nearest } from '../../kernel/nearest.ts'
import { VERSION } from '../../kernel/version.ts'

/** What a session has to know to set a harness up. */
export type HarnessSetting = {
  /** Where the agent sees its workspace. */
  readonly workspace: string
  /** The secrets that the session's policy names: they say how the harness logs in. */
  readonly secrets: readonly string[]
  /** Worthless values that the policy's placeholders already give the agent, by variable. */
  readonly placeholders: Readonly<Record<string, string>>
  /** Milliseconds since 1970. */
  readonly now: number
}

/** A file of the agent's HOME that is there before its first command. */
export type HomeFile = {
  /** From HOME, without a leading slash. */
  readonly path: string
  readonly content: string
  /** The program writes it anew all the time, by renaming over it: then it is a copy in a writable folder, never a mount of its own. */
  readonly isRewritten: boolean
}

/** An agent's program: what it runs in, and what it finds there. Nothing in it is secret. */
export type Harness = {
  readonly name: string
  /** Target of docker/agent.Dockerfile. */
  readonly target: string
  readonly image: string
  /** For `network.harness` of the policy; undefined for none. */
  readonly policy: string | undefined
  /** Run when the operator names no command. */
  readonly command: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** Each belongs to the agent's user, mode 0600. Folders on the way are the agent's too. */
  readonly homeFiles: readonly HomeFile[]
}

type Recipe = {
  readonly image: string
  readonly policy: string | undefined
  readonly command: readonly string[]
  /** What it does by itself, off; and what the jail does for it. */
  readonly environment: Readonly<Record<string, string>>
  /** Ways to log in, the first whose secret the policy has is taken (all of them where a program talks to several). */
  readonly logins: readonly Login[]
  readonly usesAllLogins: boolean
  files(setting: HarnessSetting, login: Login | undefined): readonly HomeFile[]
}

/** `value` stands where the program looks for the credential: it starts, and the gate writes the real one. */
type Login = { readonly secret: string; readonly variable: string | undefined; readonly value: string }

const CLAUDE_KEY = { secret: 'ANTHROPIC_API_KEY', variable: 'ANTHROPIC_API_KEY', value: 'sk-ant-api03-SALLYPORT-worthless' } as const
const OPENAI_KEY = { secret: 'OPENAI_API_KEY', variable: 'OPENAI_API_KEY', value: 'sk-proj-SALLYPORT-worthless' } as const
/** 39 characters, as keys of this kind have. */
const GEMINI_KEY = { secret: 'GEMINI_API_KEY', variable: 'GEMINI_API_KEY', value: 'AIzaSALLYPORT-worthless-000000000000000' } as const
/** Claude Code remembers which key it was allowed to use by its end. */
const KEY_TAIL_CHARS = 20
/** 2100-01-01: a login that seems to end soon is renewed at once. */
const FAR_EXPIRY_S = 4_102_444_800

const RECIPES: Readonly<Record<string, Recipe>> = {
  plain: { image: 'agent', policy: undefined, command: ['bash'], environment: {}, logins: [], usesAllLogins: false, files: () => [] },
  claude: {
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
    files: ({ workspace, placeholders }, login) => [
      {
        path: '.claude.json',
        isRewritten: true,
        content: json({
          hasCompletedOnboarding: true,
          projects: { [workspace]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true } },
          ...(login === CLAUDE_KEY && {
            customApiKeyResponses: { approved: [valueOf(login, placeholders).slice(-KEY_TAIL_CHARS)], rejected: [] },
          }),
        }),
      },
      { path: '.claude/settings.json', isRewritten: false, content: json({ skipWebFetchPreflight: true }) },
    ],
  },
  codex: {
    image: 'agent-codex',
    policy: 'codex',
    command: ['codex'],
    environment: {},
    logins: [
      { ...OPENAI_KEY, variable: undefined },
      { secret: 'CODEX_ACCESS_TOKEN', variable: undefined, value: unsignedToken() },
    ],
    usesAllLogins: false,
    files: (setting, login) => [
      { path: '.codex/config.toml', isRewritten: false, content: codexConfig(setting.workspace) },
      ...(login === undefined ? [] : [{ path: '.codex/auth.json', isRewritten: true, content: codexLogin(login, setting) }]),
    ],
  },
  gemini: {
    image: 'agent-gemini',
    policy: 'gemini',
    command: ['gemini'],
    // Its own sandbox wants what a container without capabilities does not give.
    environment: { GEMINI_SANDBOX: 'false' },
    logins: [GEMINI_KEY, { secret: 'GOOGLE_API_KEY', variable: 'GOOGLE_API_KEY', value: GEMINI_KEY.value }],
    usesAllLogins: false,
    files: ({ workspace }, login) => [
      {
        path: '.gemini/settings.json',
        isRewritten: false,
        content: json({
          privacy: { usageStatisticsEnabled: false },
          telemetry: { enabled: false },
          general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
          ...(login !== undefined && { security: { auth: { selectedType: login === GEMINI_KEY ? 'gemini-api-key' : 'vertex-ai' } } }),
        }),
      },
      { path: '.gemini/trustedFolders.json', isRewritten: true, content: json({ [workspace]: 'TRUST_FOLDER' }) },
    ],
  },
  opencode: {
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
    files: () => [{ path: '.config/opencode/opencode.json', isRewritten: false, content: json({ share: 'disabled', autoupdate: false }) }],
  },
}

/** `plain` is no harness: the tools of the others' images, and a shell. */
export const HARNESS_NAMES: readonly string[] = Object.keys(RECIPES)

/**
 * Image, environment and first files of a harness, so that it starts without asking who it is, what it may send home, or whether the
 * workspace is to be trusted (the jail is what it is trusted to). Where the policy names no secret that it can log in by, it asks.
 * @throws SallyportError usage for a name that is none
 */
export function harnessOf(name: string, setting: HarnessSetting): Harness {
  const recipe = recipeOf(name)
  const found = recipe.logins.filter(({ secret, variable }) => {
    return setting.secrets.includes(secret) || (variable !== undefined && setting.placeholders[variable] !== undefined)
  })
  const logins = recipe.usesAllLogins ? found : found.slice(0, 1)
  const worthless = logins.flatMap((login) =>
    login.variable === undefined ? [] : [[login.variable, valueOf(login, setting.placeholders)] as const],
  )
  return {
    name,
    target: name,
    image: imageOfHarness(name),
    policy: recipe.policy,
    command: recipe.command,
    environment: { ...recipe.environment, ...Object.fromEntries(worthless) },
    homeFiles: recipe.files(setting, logins[0]),
  }
}

/** What its image is called. @throws SallyportError usage for a name that is none */
export function imageOfHarness(name: string): string {
  return `sallyport/${recipeOf(name).image}:${VERSION}`
}

/** How its image is made, from the folder of Sallyport: for the hint where it is missing. */
export function buildCommandOf(name: string): string {
  return `docker build --file docker/agent.Dockerfile --target ${name} --tag ${imageOfHarness(name)} .`
}

function recipeOf(name: string): Recipe {
  const recipe = Object.hasOwn(RECIPES, name) ? RECIPES[name] : undefined
  if (recipe !== undefined) return recipe
  const near = nearest(name, HARNESS_NAMES)
  throw new SallyportError('usage', `there is no harness "${name}"${near === undefined ? '' : `: did you mean "${near}"?`}`, {
    hint: `there are ${HARNESS_NAMES.join(', ')}; any other program runs in an image of your own: --image REF`,
  })
}

function valueOf({ variable, value }: Login, placeholders: HarnessSetting['placeholders']): string {
  return (variable === undefined ? undefined : placeholders[variable]) ?? value
}

/** Its own sandbox needs namespaces, which the jail does not give: the jail is the sandbox. */
function codexConfig(workspace: string): string {
  return `check_for_update_on_startup = false
cli_auth_credentials_store = "file"
sandbox_mode = "danger-full-access"

[analytics]
enabled = false

[otel]
metrics_exporter = "none"

[projects.${JSON.stringify(workspace)}]
trust_level = "trusted"
`
}

/** As `codex login` writes it. */
function codexLogin({ secret, value }: Login, { placeholders, now }: HarnessSetting): string {
  if (secret === OPENAI_KEY.secret) return json({ auth_mode: 'apikey', OPENAI_API_KEY: placeholders['OPENAI_API_KEY'] ?? value })
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

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
