import * as z from 'zod'
import { LIMITS } from '../../kernel/limits.ts'
import { readWords } from '../../kernel/words.ts'
import { Tier } from '../../wire/question.ts'
import { environmentProblem } from './environment.ts'
import { workspaceFolder } from './folders.ts'
import { readPattern } from './tokens.ts'

const Pattern = checked(LIMITS.commandPatternCharsMax, (value) => {
  const read = readPattern(value)
  return typeof read === 'string' ? read : undefined
})
const Example = z
  .union([
    checked(LIMITS.commandPatternCharsMax, (value) => {
      const read = readWords(value, '*<>?[]{}~#!')
      return typeof read === 'string' ? `the command "${value.slice(0, 200)}" has ${read}: write it as a list of arguments` : undefined
    }),
    z.array(z.string().max(LIMITS.commandPatternCharsMax)).min(1).max(256),
  ])
  .describe('A command, as a line without anything for a shell, or as a list of arguments.')
const Folder = checked(1_024, (value) =>
  workspaceFolder(value) === value ? undefined : `cwd "${value}" must be a folder of the workspace from its top, as "packages/api", or "."`,
)
const Variables = z
  .record(z.string(), z.string())
  .superRefine((values, context) => {
    for (const [name, value] of Object.entries(values)) {
      const message = environmentProblem(name, value)
      if (message !== undefined) context.addIssue({ code: 'custom', path: [name], message })
    }
  })
  .describe('What the command gets in its environment. Never what could make it run something else.')
export const Expiry = checked(40, (value) =>
  parseExpiry(value) === undefined ? `expires "${value}" must be a day as "2030-01-31" or a moment as "2030-01-31T12:00:00Z"` : undefined,
)

/** A rule of any of the lists. */
export const CommandRule = z.strictObject({
  pattern: Pattern.describe('Words: "*" is one argument, "**" any at the end, and there are <int>, <sha>, <name> and <relpath>.'),
  cwd: Folder.optional().describe('Only in this folder of the workspace and below.'),
  env: Variables.optional(),
  open_tail: z.literal('accept').optional().describe('An allowance that ends in "**" is meant: its arguments may be anything.'),
  workspace_code: z.literal('accept').optional().describe('It may run code of the workspace, inside a sandbox of its own.'),
  presence: Tier.optional().describe('At least so much presence when somebody is asked.'),
  expires: Expiry.optional().describe('From this day or moment on the rule is none.'),
  match: z.array(Example).min(1).max(64).optional().describe('Commands that the pattern must match: checked when the file is loaded.'),
  not_match: z.array(Example).min(1).max(64).optional().describe('Commands that it must not match.'),
})

const Rules = z.array(z.union([Pattern, CommandRule])).max(LIMITS.commandRulesMax)

/** What becomes of commands that an agent asks the host to run. */
export const HostCommands = z.strictObject({
  mode: z
    .enum(['always-prompt', 'allowlist', 'blocklist', 'disabled'])
    .optional()
    .describe(
      'always-prompt (default): what no rule denies is asked about. allowlist: what a rule allows runs. blocklist: as always-prompt, in which only denials count. disabled: nothing, unasked.',
    ),
  allow: Rules.optional(),
  always_allow: Rules.optional().describe('The same as allow.'),
  ask: Rules.optional(),
  deny: Rules.optional(),
})

/** The lowest tier of presence for each class of risk. */
export const PresenceSection = z.strictObject({
  safe: Tier.optional().describe('Default: T0, a key or click.'),
  caution: Tier.optional().describe('Default: T0.'),
  dangerous: Tier.optional().describe("Default: T1, the operator's password."),
})

export type CommandRuleEntry = z.infer<typeof CommandRule>
export const LISTS = ['allow', 'always_allow', 'ask', 'deny'] as const

/** The moment that a rule ends, milliseconds since 1970: of a day its end in UTC. */
export function parseExpiry(text: string): number | undefined {
  const day = /^(\d{4}-\d{2}-\d{2})$/.exec(text)
  if (day === null && !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?Z$/.test(text)) return undefined
  const moment = Date.parse(day === null ? text : `${text}T00:00:00Z`)
  // The 31st of February would be a day of March.
  if (Number.isNaN(moment) || !new Date(moment).toISOString().startsWith(text.slice(0, 10))) return undefined
  return day === null ? moment : moment + DAY_MS
}

const DAY_MS = 86_400_000

function checked(max: number, check: (value: string) => string | undefined) {
  return z
    .string()
    .min(1)
    .max(max)
    .superRefine((value, context) => {
      const message = check(value)
      if (message !== undefined) context.addIssue({ code: 'custom', message })
    })
}
