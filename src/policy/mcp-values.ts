import { foldName, isCredentialField } from '../wire/credential-fields.ts'
import { SECRET_KEY } from '../wire/secret-source.ts'

/** A piece of a value: text as it stands, or the name of a secret. */
export type ValuePart = { readonly text: string } | { readonly secret: string }

/**
 * Reads a value with `${secret:KEY}` in it. A string is why it is refused; what may be a value itself is not in it.
 */
export function readValue(value: string): readonly ValuePart[] | string {
  const parts: ValuePart[] = []
  let end = 0
  for (const { index, 0: whole, 1: key = '', 2: brace } of value.matchAll(/\$\{secret:([^}]*)(\}?)/g)) {
    if (brace !== '}') return 'a reference "${secret:" is not closed: write "${secret:KEY}"'
    if (!SECRET_KEY.test(key)) return 'a reference "${secret:…}" has no key in it: letters, digits, "_", "." and "-", 128 at most'
    if (index > end) parts.push({ text: value.slice(end, index) })
    parts.push({ secret: key })
    end = index + whole.length
  }
  if (end < value.length) parts.push({ text: value.slice(end) })
  return parts
}

/** Names of the secrets in a value, each once. None of one that cannot be read. */
export function secretsIn(value: string): string[] {
  const parts = readValue(value)
  return typeof parts === 'string' ? [] : [...new Set(parts.flatMap((part) => ('secret' in part ? [part.secret] : [])))]
}

/** The names under which people write credentials. A count or a path of one is none. */
const SECRET_NAME =
  /(?:^|[_-])(?:api[_-]?key|access[_-]?key|secret|secrets|token|pat|password|passwd|passphrase|pwd|pass|credential|credentials|key|auth|authorization|bearer|cookie|jwt|dsn)(?:$|[_-](?:id|value|v?[0-9]+)$)|apikey|accesskey|token$|secret$|password$/i
const HARMLESS_NAME = /(?:_|-)(?:file|path|dir|url|uri|endpoint|limit|max|min|count|ttl|type|name|length|budget)$/i
/** What services give out as keys, whatever it is called. */
const SECRET_VALUE =
  /(?:^|[^A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{30,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.)|:\/\/[^/\s:@]*:[^/\s@]+@|-----BEGIN [A-Z ]*PRIVATE KEY/
/** Texts that say nothing: switches and numbers. */
const PLAIN_VALUE = /^(?:|true|false|yes|no|on|off|none|null|[0-9]{1,5})$/i

/** Whether a value looks like a secret in clear text, by what it is called or by what it is. */
export function looksSecret(name: string, value: string): boolean {
  const clear = value.replaceAll(/\$\{secret:[^}]*\}/g, '')
  if (SECRET_VALUE.test(clear)) return true
  if (clear !== value) return false
  return (SECRET_NAME.test(name) || isCredentialField(name)) && !HARMLESS_NAME.test(name) && !PLAIN_VALUE.test(value)
}

/** `NAME=value`, as options, variables, queries and connection strings have it. */
const ASSIGNED = /(?:^|[\s;&?#'"])-{0,2}([A-Za-z][A-Za-z0-9_.-]*)=([^\s;&'"]+)/g
/** `Name: value`, a field of HTTP. */
const FIELD = /^([A-Za-z][A-Za-z0-9-]*):(?!\/\/)\s*([^]+)$/
const OPTION = /^-{1,2}([A-Za-z][A-Za-z0-9_-]*)(?:=([^]*))?$/
/** Shorter, a path, a variable or an expression: it says where a secret is, or what kind of it. */
const NO_SECRET = /^(?:[^]{0,7}|[$./~][^]*|[^]*[(){}[\]][^]*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)$/

/** Whether something in a text is named as a secret is. */
export function namesSecret(text: string): boolean {
  const named = [...text.matchAll(ASSIGNED)].map(([, name = '', value = '']) => [name, value] as const)
  const [, field = '', content = ''] = FIELD.exec(text) ?? []
  return [...named, [field, content] as const].some(([name, value]) => !NO_SECRET.test(value) && looksSecret(name, value))
}

/** Whether a text has letters and digits in a row as nobody writes them: a key may look so, and an address or a word does not. */
export function looksRandom(text: string): boolean {
  const runs = text.match(/[A-Za-z0-9]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi) ?? []
  return runs.some((run) => /[0-9]/.test(run) && /[A-Za-z]/.test(run))
}

/** Whether an argument of a program looks like a secret, or has one. @param before the argument before it, which may be an option */
export function looksSecretArgument(word: string, before = ''): boolean {
  const [, name, value] = OPTION.exec(word) ?? []
  if (SECRET_VALUE.test(word) || (name !== undefined && value !== undefined && looksSecret(name, value)) || namesSecret(word)) return true
  const [, option, given] = OPTION.exec(before) ?? []
  return option !== undefined && given === undefined && !word.startsWith('-') && !NO_SECRET.test(word) && looksSecret(option, word)
}

/** Variables that would make the program another one, or that say what is the gate's to say. */
export function isReserved(variable: string): boolean {
  return /^(?:SALLYPORT_.*|LD_.*|DYLD_.*)$/.test(variable)
}

/** Why an argument is refused. Arguments are in the container's configuration, which the engine keeps on its disk. */
export function argumentProblem(word: string, before?: string): string | undefined {
  if (word.includes('${secret:')) return 'a reference "${secret:…}" in an argument would stand in the list of processes: put it into env'
  if (word.includes('\0')) return 'an argument has a NUL in it'
  return looksSecretArgument(word, before) ? `an argument looks like a secret in clear text: ${STORE_IT}` : undefined
}

/** Why the value of a variable is refused. Never with the value. */
export function environmentValueProblem(name: string, value: string): string | undefined {
  const parts = readValue(value)
  if (typeof parts === 'string') return `${name}: ${parts}`
  if (value.includes('\0')) return `${name} has a NUL in it`
  return looksSecret(name, value) ? `${name} looks like a secret in clear text: ${STORE_IT}` : undefined
}

/** Fields that are the transport's own. */
const TRANSPORT_FIELDS: ReadonlySet<string> = new Set([
  'host',
  'connection',
  'content-length',
  'content-type',
  'content-encoding',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'keep-alive',
  'accept',
  'accept-encoding',
  'proxy-authorization',
  'proxy-connection',
  'last-event-id',
  'mcp-session-id',
  'mcp-protocol-version',
])

/** Why a field is refused. Never with its value. */
export function headerProblem(name: string, value: string): string | undefined {
  if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name)) return `"${name}" is no name of a header`
  if (TRANSPORT_FIELDS.has(foldName(name))) return `the header ${name} is the transport's own`
  if (/[^\t\x20-\x7e]/.test(value)) return `the header ${name} has a line break, control or non-ASCII character`
  const parts = readValue(value)
  if (typeof parts === 'string') return `${name}: ${parts}`
  const at = parts.findIndex((part) => 'secret' in part)
  if (at !== -1 && at !== parts.length - 1)
    return `the header ${name} may have one reference, at its end, as in "Bearer \${secret:KEY}": keep the whole value as the secret where it has more`
  return looksSecret(name, value) ? `the header ${name} looks like a secret in clear text: ${STORE_IT}` : undefined
}

const STORE_IT = 'keep it in the vault (sallyport secret set KEY) and write "${secret:KEY}"'
