import { SallyportError } from '../../kernel/errors.ts'
import { nearest } from '../../kernel/nearest.ts'
import { VERSION } from '../../kernel/version.ts'
import { CLAUDE } from './harnesses/claude.ts'
import { CODEX } from './harnesses/codex.ts'
import { COPILOT } from './harnesses/copilot.ts'
import { CURSOR } from './harnesses/cursor.ts'
import { GEMINI } from './harnesses/gemini.ts'
import { OPENCODE } from './harnesses/opencode.ts'
import { valueOf, type HarnessSetting, type HomeFile, type Recipe } from './harnesses/recipe.ts'

export type { HarnessSetting, HomeFile, McpServer } from './harnesses/recipe.ts'

/** An agent's program: what it runs in, and what it finds there. Nothing in it is secret. */
export type Harness = {
  readonly name: string
  /** Undefined where the operator has to name one. */
  readonly image: string | undefined
  /** For `network.harness` of the policy; undefined for none. */
  readonly policy: string | undefined
  /** Run when the operator names no command. */
  readonly command: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** Each belongs to the agent's user, mode 0600. Folders on the way are the agent's too. */
  readonly homeFiles: readonly HomeFile[]
}

const PLAIN: Recipe = {
  image: 'agent',
  policy: undefined,
  command: ['bash'],
  environment: {},
  logins: [],
  usesAllLogins: false,
  files: () => [],
}

const RECIPES: Readonly<Record<string, Recipe>> = {
  plain: PLAIN,
  claude: CLAUDE,
  codex: CODEX,
  gemini: GEMINI,
  opencode: OPENCODE,
  copilot: COPILOT,
  cursor: CURSOR,
}

/** `plain` is no harness: the tools of the others' images, and a shell. */
export const HARNESS_NAMES: readonly string[] = Object.keys(RECIPES)

/**
 * Image, environment and first files of a harness, so that it starts without asking who it is, what it may send home, or whether the
 * workspace is to be trusted (the jail is what it is trusted to), and knows the gate's tools. Where the policy names no secret that it
 * can log in by, it asks.
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
    image: imageOfHarness(name),
    policy: recipe.policy,
    command: recipe.command,
    environment: { ...recipe.environment, ...Object.fromEntries(worthless) },
    homeFiles: recipe.files(setting, logins[0]),
  }
}

/** What its image is called; undefined where there is none of ours. @throws SallyportError usage for a name that is none */
export function imageOfHarness(name: string): string | undefined {
  const { image } = recipeOf(name)
  return image === undefined ? undefined : `sallyport/${image}:${VERSION}`
}

/** How its image is made, from the folder of Sallyport: for the hint where it is missing. */
export function buildCommandOf(name: string): string {
  return `docker build --file docker/agent.Dockerfile --target ${name} --tag ${imageOfHarness(name) ?? name} .`
}

function recipeOf(name: string): Recipe {
  const recipe = Object.hasOwn(RECIPES, name) ? RECIPES[name] : undefined
  if (recipe !== undefined) return recipe
  const near = nearest(name, HARNESS_NAMES)
  throw new SallyportError('usage', `there is no harness "${name}"${near === undefined ? '' : `: did you mean "${near}"?`}`, {
    hint: `there are ${HARNESS_NAMES.join(', ')}; any other program runs in an image of your own: --image REF`,
  })
}
