import { shown } from '../../kernel/shown.ts'
import type { Detected } from './detect.ts'
import { GIT_HOSTS } from './kinds.ts'

/** What the text is made from. */
export type TextSetting = {
  readonly workspace: string
  readonly detected: Detected
  readonly harness: string | undefined
  /** Declared by the operator's global policy already: a second declaration would be an error. */
  readonly taken: { readonly secrets: ReadonlySet<string>; readonly credentials: ReadonlySet<string>; readonly harness: string | undefined }
}

type Login = { readonly secret: string; readonly credential: string; readonly inject: string; readonly note: string }

/** As policies/harness/*.yaml have them, for the way to log in that most have; the file tells of the others. */
const LOGINS: Readonly<Record<string, Login>> = {
  claude: {
    secret: 'ANTHROPIC_API_KEY',
    credential: 'claude-key',
    inject: '{domains: [api.anthropic.com], methods: [GET, POST], header: X-Api-Key}',
    note: 'With a subscription instead: CLAUDE_CODE_OAUTH_TOKEN, header Authorization, prefix "Bearer " (policies/harness/claude.yaml).',
  },
  codex: {
    secret: 'OPENAI_API_KEY',
    credential: 'codex-key',
    inject: '{domains: [api.openai.com], methods: [GET, POST], paths: ["/v1/**"], header: Authorization, prefix: "Bearer "}',
    note: 'With a ChatGPT login instead: CODEX_ACCESS_TOKEN for chatgpt.com (policies/harness/codex.yaml).',
  },
  gemini: {
    secret: 'GEMINI_API_KEY',
    credential: 'gemini-key',
    inject: '{domains: [generativelanguage.googleapis.com], methods: [GET, POST], header: X-Goog-Api-Key}',
    note: 'With Vertex AI instead: GOOGLE_API_KEY for aiplatform.googleapis.com (policies/harness/gemini.yaml).',
  },
  opencode: {
    secret: 'ANTHROPIC_API_KEY',
    credential: 'opencode-anthropic',
    inject: '{domains: [api.anthropic.com], methods: [GET, POST], header: X-Api-Key}',
    note: 'Other providers: OPENAI_API_KEY, GEMINI_API_KEY (policies/harness/opencode.yaml).',
  },
  copilot: {
    secret: 'COPILOT_GITHUB_TOKEN',
    credential: 'copilot-token',
    inject:
      '{domains: [api.github.com, api.githubcopilot.com, api.individual.githubcopilot.com], methods: [GET, POST], header: Authorization, prefix: "Bearer "}',
    note: 'For a business: api.business.githubcopilot.com as well (policies/harness/copilot.yaml).',
  },
  cursor: {
    secret: 'CURSOR_API_KEY',
    credential: 'cursor-key',
    inject:
      '{domains: [api2.cursor.sh], methods: [POST], paths: ["/auth/exchange_user_api_key"], header: Authorization, prefix: "Bearer "}',
    note: 'What it is given for the key it holds itself (policies/harness/cursor.yaml).',
  },
}

/** The policy, and the secrets that it wants in the vault. Names of the workspace stand in comments only, as printable ASCII on one line. */
export function policyText(setting: TextSetting): { readonly text: string; readonly secrets: readonly string[] } {
  const { detected, taken } = setting
  const git = GIT_HOSTS.find(({ host }) => host === detected.gitHost)
  const login = setting.harness === undefined ? undefined : LOGINS[setting.harness]
  const ownLogin = login !== undefined && !taken.credentials.has(login.credential) ? login : undefined
  const wanted = [
    ...(git === undefined ? [] : [{ secret: git.secret, note: `The token for ${git.host}: ${git.token}.` }]),
    ...(ownLogin === undefined ? [] : [{ secret: ownLogin.secret, note: 'The key of the model.' }]),
  ]
  const text = [
    ...head(setting),
    'version: 1',
    '',
    ...extendsLines(detected, git?.extends),
    ...networkLines(setting),
    ...credentialLines(ownLogin),
    ...secretLines(wanted, taken.secrets),
  ].join('\n')
  return { text: `${text.trimEnd()}\n`, secrets: wanted.map(({ secret }) => secret) }
}

function head({ workspace, detected, harness }: TextSetting): string[] {
  const found = detected.kinds.map(({ kind, evidence }) => `${kind.what} (${evidence.map(shown).join(', ')})`)
  const why = harness !== undefined && detected.harness?.name === harness ? ` (${detected.harness.evidence})` : ''
  return [
    '# What agents may do in one workspace. "sallyport init" wrote it, and changes it no more: it is yours.',
    '#',
    `#   workspace  ${shown(workspace)}`,
    `#   found      ${found.join(', ') || 'no language that there is a preset for'}${detected.isCut ? '; it was too large to see all of it' : ''}`,
    `#   git        ${detected.gitHost ?? 'no remote with a host'}`,
    `#   harness    ${harness === undefined ? 'none' : `${harness}${why}`}`,
    '#',
    '# sallyport policy check FILE                       after each change',
    '# sallyport policy explain URL --policy FILE        what would become of a request, and why',
    '#',
    '# What is not allowed below is refused, and the log and the audit say what was: start with little, and add what is missing.',
    '',
  ]
}

function extendsLines({ kinds, gitHost }: Detected, git: string | undefined): string[] {
  const lines = kinds.flatMap(({ kind, evidence }) => {
    const about = `${kind.what} (${evidence.map(shown).join(', ')}): ${kind.note}.`
    return kind.extends.length === 0 ? [`  # ${about}`] : [`  # ${about}`, ...kind.extends.map((name) => `  - ${name}`)]
  })
  if (git !== undefined) {
    lines.push(
      `  # The repository is at ${gitHost}: clone, fetch and read. ${git}-write would add pushing; better: push yourself.`,
      `  - ${git}`,
    )
  } else if (gitHost !== undefined) {
    lines.push(`  # The repository is at ${gitHost}, for which there is no preset: see the rule below.`)
  }
  const isEmpty = lines.every((line) => line.startsWith('  #'))
  return [
    '# Presets of Sallyport, each commented in its own file (policies/service/NAME.yaml). More of them: docs/SERVICES.md.',
    ...(isEmpty ? ['# extends: [service/npm, service/github]', ...lines] : ['extends:', ...lines]),
    '',
  ]
}

function networkLines({ harness, detected, taken }: TextSetting): string[] {
  const isKnown = GIT_HOSTS.some(({ host }) => host === detected.gitHost)
  return [
    'network:',
    '  # restricted: what no rule allows is refused. open: any public host. none: the harness alone.',
    '  mode: restricted',
    '',
    ...(harness === undefined
      ? [
          '  # What the agent’s own program needs passes in every mode: claude, codex, gemini, opencode, copilot, cursor.',
          '  # harness: claude',
        ]
      : taken.harness === harness
        ? [`  # harness: ${harness} is in the global policy.`]
        : ['  # What the agent’s own program needs. It passes in every mode, and the log counts it apart.', `  harness: ${harness}`]),
    '',
    '  # Rules of your own. The strictest that matches decides: deny over ask over allow.',
    '  rules: []',
    ...(detected.gitHost !== undefined && !isKnown
      ? [
          '    # Clone and fetch from where the repository is (in the place of "rules: []"):',
          `    # - {id: git-read, host: ${detected.gitHost}, ports: [443], methods: [GET, HEAD], action: allow}`,
          `    # - {id: git-fetch, host: ${detected.gitHost}, ports: [443], methods: [POST], paths: ["/*/*/git-upload-pack"], action: allow}`,
        ]
      : []),
    '    # - {id: docs, host: docs.example.com, ports: [443], methods: [GET, HEAD], action: allow}',
    '    # - {id: deploys, host: api.example.com, ports: [443], methods: [POST], paths: ["/v1/deploys"], action: ask}',
    '    # - {id: never, host: "*.example.com", action: deny}',
    '',
  ]
}

function credentialLines(login: Login | undefined): string[] {
  if (login === undefined) return []
  return [
    '# The gate writes the key into the harness’s requests; the agent holds a worthless value in its place.',
    `# ${login.note}`,
    'credentials:',
    `  - {id: ${login.credential}, secret: ${login.secret}, inject: ${login.inject}}`,
    '',
  ]
}

function secretLines(wanted: readonly { secret: string; note: string }[], taken: ReadonlySet<string>): string[] {
  const own = wanted.filter(({ secret }) => !taken.has(secret))
  if (own.length === 0) return wanted.map(({ secret }) => `# The secret ${secret} is declared in the global policy.`)
  return [
    '# Where values come from. A value itself never stands here: "sallyport secret set NAME" puts it into the vault.',
    'secrets:',
    ...own.flatMap(({ secret, note }) => [`  # ${note}`, `  - {name: ${secret}, source: "vault:${secret}", resources: [inject]}`]),
  ]
}
