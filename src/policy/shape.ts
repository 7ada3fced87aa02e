import type * as z from 'zod'
import type { PolicyDocument } from './document.ts'
import type { Diagnostic } from './model.ts'
import { nearest } from '../kernel/nearest.ts'
import { Also, Aws, Budget, Credential, Inject, OAuth2 } from './schema-credentials.ts'
import { CredentialFile, FILE_KINDS } from './schema-files.ts'
import { McpSection, McpServerEntry } from './schema-mcp.ts'
import { Filesystem, Session } from './schema-session.ts'
import { CommandRule, HostCommands, PresenceSection } from './host-commands/schema.ts'
import { Gateway } from './gateway-section.ts'
import { Network, NOT_YET, PolicyFile, RouteEntry, Rule, SecretEntry } from './schema.ts'

type Path = readonly PropertyKey[]

/** Keys that the format has at each place, for "did you mean". */
const KEYS: Readonly<Record<string, readonly string[]>> = {
  '': Object.keys(PolicyFile.shape),
  network: Object.keys(Network.shape),
  'network.rules[]': Object.keys(Rule.shape),
  'routes[]': Object.keys(RouteEntry.shape),
  'credentials[]': Object.keys(Credential.shape),
  'credentials[].inject': Object.keys(Inject.shape),
  'credentials[].inject.basic': ['username'],
  'credentials[].inject.aws': Object.keys(Aws.shape),
  'credentials[].inject.also[]': Object.keys(Also.shape),
  'credentials[].inject.file': Object.keys(CredentialFile.shape),
  ...Object.fromEntries(
    FILE_KINDS.map((kind) => [`credentials[].inject.file.${kind}`, Object.keys(CredentialFile.shape[kind].unwrap().shape)]),
  ),
  'credentials[].oauth2': Object.keys(OAuth2.shape),
  'credentials[].budget': Object.keys(Budget.shape),
  'secrets[]': Object.keys(SecretEntry.shape),
  filesystem: Object.keys(Filesystem.shape),
  session: Object.keys(Session.shape),
  host_commands: Object.keys(HostCommands.shape),
  ...Object.fromEntries(
    ['allow', 'always_allow', 'ask', 'deny'].map((list) => [`host_commands.${list}[]`, Object.keys(CommandRule.shape)]),
  ),
  presence: Object.keys(PresenceSection.shape),
  gateway: Object.keys(Gateway.shape),
  'mcp_servers[]': Object.keys(McpServerEntry.shape),
  mcp: Object.keys(McpSection.shape),
}

/** What other systems call the actions. */
const ACTION_ALIASES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(['block', 'drop', 'reject', 'forbid', 'disallow', 'refuse'].map((word) => [word, 'deny'])),
  ...Object.fromEntries(['permit', 'accept', 'pass'].map((word) => [word, 'allow'])),
  ...Object.fromEntries(['prompt', 'confirm'].map((word) => [word, 'ask'])),
}

/** Everything that is wrong with the shape of one file, each with its place and the right spelling where there is one. An unknown key is the last of its path. */
export function shapeProblems(document: PolicyDocument): { diagnostic: Diagnostic; path: Path }[] {
  const result = PolicyFile.safeParse(document.data)
  if (result.success) return []
  const { issues } = result.error
  const unknown = new Set(issues.filter((issue) => issue.code === 'unrecognized_keys').map((issue) => JSON.stringify(issue.path)))
  // A map with an unknown key lacks what that key was meant to be: one complaint is enough.
  const told = issues.filter((issue) => issue.code !== 'custom' || !unknown.has(JSON.stringify(issue.path)))
  return told.flatMap((issue) => {
    const keys: Path = issue.code === 'unrecognized_keys' ? issue.keys : []
    return describe(document, issue).map((diagnostic, index) => ({
      diagnostic,
      path: keys.length === 0 ? issue.path : [...issue.path, keys[index] ?? ''],
    }))
  })
}

function describe(document: PolicyDocument, issue: z.core.$ZodIssue): Diagnostic[] {
  const path = issue.path
  const place = document.placeOf(path)
  const name = spell(path)
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => ({ ...document.placeOfKey(path, key), message: unknownKey(path, key) }))
    case 'custom':
      return [{ ...place, message: issue.message }]
    case 'invalid_value': {
      const value = valueAt(document.data, path)
      return [{ ...place, message: wrongValue(path, name, value, issue.values.map(String)) }]
    }
    case 'invalid_type': {
      const value = valueAt(document.data, path)
      if (value === undefined) return [{ ...document.placeOf(path.slice(0, -1)), message: `${name} is missing` }]
      const empty = value === null && issue.expected === 'array' ? ': write [] for an empty list' : ''
      return [{ ...place, message: `${name} must be ${article(issue.expected)}, not ${typeName(value)}${empty}` }]
    }
    case 'too_small':
      return [
        {
          ...place,
          message:
            issue.origin === 'number'
              ? `${name} must be ${issue.minimum} at least`
              : `${name} must not be empty: leave it out for the default`,
        },
      ]
    case 'too_big':
      return [
        {
          ...place,
          message: `${name} must be ${issue.maximum} ${issue.origin === 'number' ? '' : issue.origin === 'string' ? 'characters ' : 'entries '}at most`,
        },
      ]
    default:
      return [{ ...place, message: `${name}: ${issue.message}` }]
  }
}

function unknownKey(path: Path, key: string): string {
  const place = generalize(path)
  if (NOT_YET[place]?.includes(key) === true) return `"${key}" is known but not enforced by this version: remove it`
  const owner = Object.entries(KEYS).find(([other, keys]) => other !== place && keys.includes(key))?.[0]
  const near = nearest(key, KEYS[place] ?? [])
  if (near !== undefined) return `unknown key "${key}": did you mean "${near}"?`
  const later = nearest(key, NOT_YET[place] ?? [])
  if (later !== undefined) return `unknown key "${key}" ("${later}" is known but not enforced by this version)`
  if (owner !== undefined)
    return `unknown key "${key}" here: it belongs ${owner === '' ? 'at the top of the file' : `under ${owner.replaceAll('[]', '')}`}`
  return `unknown key "${key}": one of ${(KEYS[place] ?? []).join(', ')} is expected`
}

function wrongValue(path: Path, name: string, value: unknown, allowed: readonly string[]): string {
  if (value === undefined) return `${name} is missing: write ${path.at(-1)?.toString() ?? name}: ${allowed.join(' or ')}`
  const near = typeof value === 'string' && allowed.length > 1 ? meant(path, value, allowed) : undefined
  const shown = typeof value === 'string' ? `"${value.slice(0, 80)}"` : typeof value === 'number' ? String(value) : typeName(value)
  return `${name} must be ${allowed.join(' or ')}, not ${shown}${near === undefined ? '' : `: did you mean "${near}"?`}`
}

function meant(path: Path, value: string, allowed: readonly string[]): string | undefined {
  const word = value.toLowerCase()
  const alias = path.at(-1) === 'action' && Object.hasOwn(ACTION_ALIASES, word) ? ACTION_ALIASES[word] : undefined
  return alias ?? nearest(value, allowed)
}

function valueAt(data: unknown, path: Path): unknown {
  let value = data
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<PropertyKey, unknown>)[key]
  }
  return value
}

/** `network.rules[]` for any rule. */
function generalize(path: Path): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[]` : text === '' ? String(key) : `${text}.${String(key)}`),
    '',
  )
}

/** `network.rules[2].ports` for messages; the file itself has no name in it. */
function spell(path: Path): string {
  const text = path.reduce<string>(
    (before, key) => (typeof key === 'number' ? `${before}[${key}]` : before === '' ? String(key) : `${before}.${String(key)}`),
    '',
  )
  return text === '' ? 'the file' : text
}

function article(expected: string): string {
  const words: Readonly<Record<string, string>> = {
    array: 'a list',
    object: 'a map',
    string: 'a text',
    number: 'a number',
    int: 'a whole number',
  }
  return words[expected] ?? expected
}

function typeName(value: unknown): string {
  if (value === null) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  return article(typeof value)
}
