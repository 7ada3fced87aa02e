/** What a session has to know to set a harness up. */
export type HarnessSetting = {
  /** Where the agent sees its workspace. */
  readonly workspace: string
  /** The secrets that the session's policy names: they say how the harness logs in. */
  readonly secrets: readonly string[]
  /** Worthless values that the policy's placeholders already give the agent, by variable. */
  readonly placeholders: Readonly<Record<string, string>>
  /** Registered beside the gate's own. */
  readonly mcpServers: readonly McpServer[]
  /** Milliseconds since 1970. */
  readonly now: number
}

/** An MCP server that an agent's program is told of: one that it calls, or one that it starts itself. Nothing in it is secret. */
export type McpServer = CalledServer | StartedServer
export type CalledServer = { readonly name: string; readonly url: string }
export type StartedServer = {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** A file of the agent's HOME that is there before its first command. */
export type HomeFile = {
  /** From HOME, without a leading slash. */
  readonly path: string
  readonly content: string
  /** The program writes it anew all the time, by renaming over it: then it is a copy in a writable folder, never a mount of its own. */
  readonly isRewritten: boolean
}

export type Recipe = {
  /** Undefined where Sallyport can make none, as the program is in no public registry: the operator names one that has it. */
  readonly image: string | undefined
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
export type Login = { readonly secret: string; readonly variable: string | undefined; readonly value: string }

export const CLAUDE_KEY: Login = { secret: 'ANTHROPIC_API_KEY', variable: 'ANTHROPIC_API_KEY', value: 'sk-ant-api03-SALLYPORT-worthless' }
export const OPENAI_KEY: Login = { secret: 'OPENAI_API_KEY', variable: 'OPENAI_API_KEY', value: 'sk-proj-SALLYPORT-worthless' }
/** 39 characters, as keys of this kind have. */
export const GEMINI_KEY: Login = { secret: 'GEMINI_API_KEY', variable: 'GEMINI_API_KEY', value: 'AIzaSALLYPORT-worthless-000000000000000' }

/** What the agent's program finds where it looks for its credential: the policy's own placeholder, else ours. */
export function valueOf({ variable, value }: Login, placeholders: HarnessSetting['placeholders']): string {
  return (variable === undefined ? undefined : placeholders[variable]) ?? value
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
