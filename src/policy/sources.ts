import { isAbsolute, normalize } from 'node:path'
import { nearest } from '../kernel/nearest.ts'
import { SECRET_KEY, SOURCE_KINDS, type SecretSource } from '../wire/secret-source.ts'

const CONTROL = /[^\x20-\x7e\u0080-\u{10ffff}]/u
/** What a shell would act on. There is no shell: a command that relies on one would do something else than it says. */
const SHELL = '|&;<>$`(){}\\*?~#!'
/** A part of a reference that becomes an argument of a program: never one that reads as an option, nor more than one word of `security -i`. */
const WORD = /^[A-Za-z0-9_.@:+=/~][A-Za-z0-9_.@:+=/~ -]*(?<! )$/

/** Reads a source as a policy writes it, `env:NAME` or `op:VAULT/ITEM/FIELD`. A string is why it is refused. */
export function parseSource(text: string): SecretSource | string {
  const colon = text.indexOf(':')
  const kind = SOURCE_KINDS.find((known) => known === text.slice(0, Math.max(colon, 0)))
  const rest = text.slice(colon + 1)
  // A value written here by mistake must not be printed.
  if (kind === undefined) return unknownKind(text.slice(0, Math.max(colon, 0)))
  if (CONTROL.test(text)) return `source "${kind}:" has a control character or line break`
  const source = PARSERS[kind](rest)
  return typeof source === 'string' ? `source "${text}"${source}` : source
}

/** A source for people. Arguments of a command may be private: its name is enough to find it. */
export function describeSource(source: SecretSource): string {
  switch (source.kind) {
    case 'vault':
      return `vault:${source.key}`
    case 'env':
      return `env:${source.variable}`
    case 'file':
      return `file:${source.path}`
    case 'exec':
      return `exec:${source.argv[0] ?? ''}${source.argv.length > 1 ? ' …' : ''}`
    case 'op':
    case 'pass':
      return `${source.kind}:${source.path}`
    case 'keychain':
      return `keychain:${source.service}${source.account === undefined ? '' : `/${source.account}`}`
    case 'libsecret':
      return `libsecret:${source.attributes.map((pair) => pair.join('=')).join(',')}`
    case 'vault-http':
      return `vault-http:${source.mount}/${source.path}${source.version === undefined ? '' : `?version=${source.version}`}#${source.field}`
    case 'mcp-config':
      return `mcp-config:${source.harness}/${[source.server, source.of, source.field].map(encodeURIComponent).join('/')}`
  }
}

function unknownKind(written: string): string {
  const near = /^[a-z-]{2,12}$/.test(written) ? nearest(written, SOURCE_KINDS) : undefined
  const kinds = SOURCE_KINDS.map((kind) => `${kind}:`)
  return `source must begin with ${kinds.slice(0, -1).join(', ')} or ${kinds.at(-1)}${near === undefined ? '' : `; did you mean "${near}:"?`} (a value itself is never written into a policy)`
}

/** Each gives the source, or what is wrong with it, to stand behind its text. */
const PARSERS: { readonly [K in SecretSource['kind']]: (rest: string) => Extract<SecretSource, { kind: K }> | string } = {
  vault: (key) =>
    SECRET_KEY.test(key)
      ? { kind: 'vault', key }
      : ' must name a key of the vault: letters, digits, "_", "." and "-", 128 at most, as in "vault:GITHUB_TOKEN"',
  env: (variable) =>
    /^[A-Za-z_][A-Za-z0-9_]*$/.test(variable) ? { kind: 'env', variable } : ' must name an environment variable, as in "env:GITHUB_TOKEN"',
  file: parseFile,
  exec(rest) {
    const argv = splitCommand(rest)
    return typeof argv === 'string' ? `: ${argv}` : { kind: 'exec', argv }
  },
  op(rest) {
    const path = rest.replace(/^\/\//, '')
    const parts = path.split('/')
    if (
      !(parts.length === 3 || parts.length === 4) ||
      !parts.every((part) => /^[A-Za-z0-9_.-](?:[A-Za-z0-9_. -]*[A-Za-z0-9_.-])?$/.test(part))
    )
      return ' must be VAULT/ITEM/FIELD or VAULT/ITEM/SECTION/FIELD of letters, digits, spaces, "_", "." and "-" (an id for a name with others), as in "op:Private/GitHub/token"'
    return path === rest ? { kind: 'op', path } : ` is not canonical; write "op:${path}"`
  },
  keychain(rest) {
    const [, service = '', account] = /^([^/]*)(?:\/([^]*))?$/.exec(rest) ?? []
    if (!WORD.test(service) || (account !== undefined && !WORD.test(account)))
      return ' must be SERVICE or SERVICE/ACCOUNT of letters, digits, spaces and "_.@:+=~-", as in "keychain:github.com/octocat"'
    return { kind: 'keychain', service, ...(account !== undefined && { account }) }
  },
  libsecret: parseAttributes,
  pass(path) {
    const isFit = path.split('/').every((part) => WORD.test(part) && part !== '.' && part !== '..')
    return isFit
      ? { kind: 'pass', path }
      : ' must be a name of the store: parts of letters, digits, spaces and "_.@:+=~-", joined by "/", as in "pass:work/github"'
  },
  'vault-http': parseVaultHttp,
  'mcp-config': parseMcpConfig,
}

function parseMcpConfig(rest: string): (SecretSource & { kind: 'mcp-config' }) | string {
  const [harness = '', ...parts] = rest.split('/')
  const [server = '', of, field = ''] = parts.map(decoded)
  const isFit = /^[a-z0-9-]{1,64}$/.test(harness) && parts.length === 3 && server !== '' && field !== '' && !CONTROL.test(server + field)
  if (!isFit || (of !== 'env' && of !== 'headers'))
    return ' must be HARNESS/SERVER/env/VARIABLE or HARNESS/SERVER/headers/FIELD, each percent-encoded, as in "mcp-config:claude/github/env/GITHUB_TOKEN"'
  const right = `${harness}/${[server, of, field].map(encodeURIComponent).join('/')}`
  return right === rest ? { kind: 'mcp-config', harness, server, of, field } : ` is not canonical; write "mcp-config:${right}"`
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}

function parseFile(path: string): (SecretSource & { kind: 'file' }) | string {
  if (!isAbsolute(path)) return ' must be an absolute path, as in "file:/run/secrets/NAME"'
  const right = normalize(path)
  if (right !== path || path.endsWith('/')) return ` is not canonical; write "file:${right.replace(/(?<=.)\/$/, '')}"`
  return { kind: 'file', path }
}

function parseAttributes(rest: string): (SecretSource & { kind: 'libsecret' }) | string {
  const attributes: [string, string][] = []
  for (const pair of rest.split(',')) {
    const [, name = '', value = ''] = /^([A-Za-z0-9_][A-Za-z0-9_:.-]*)=([^]*)$/.exec(pair) ?? []
    if (name === '' || !WORD.test(value))
      return ' must be ATTRIBUTE=VALUE pairs joined by ",", values of letters, digits, spaces and "_.@:+=/~-", as in "libsecret:service=github,user=octocat"'
    if (attributes.some(([before]) => before === name)) return ` has the attribute "${name}" twice`
    attributes.push([name, value])
  }
  return { kind: 'libsecret', attributes }
}

function parseVaultHttp(rest: string): (SecretSource & { kind: 'vault-http' }) | string {
  const [, where = '', query, field = ''] = /^([^?#]*)(?:\?([^#]*))?#([^#]*)$/.exec(rest) ?? []
  const [mount = '', ...parts] = where.split('/')
  const isFit = [mount, ...parts].every((part) => WORD.test(part) && part !== '.' && part !== '..')
  if (parts.length === 0 || !isFit || !/^[A-Za-z0-9_.@:+=/~ -]+$/.test(field))
    return ' must be MOUNT/PATH#FIELD, without the "data/" of the API, as in "vault-http:secret/ci/github#token"'
  const [, digits] = /^version=([1-9][0-9]{0,8})$/.exec(query ?? '') ?? []
  if (query !== undefined && digits === undefined) return ': behind the "?" only version=NUMBER may stand'
  return { kind: 'vault-http', mount, path: parts.join('/'), field, ...(digits !== undefined && { version: Number(digits) }) }
}

/** Splits a command at spaces; '…' and "…" keep them. A string is why it is refused. */
function splitCommand(text: string): readonly string[] | string {
  const argv: string[] = []
  let word: string | undefined
  let quote: string | undefined
  for (const char of text) {
    if (quote !== undefined) {
      if (char === quote) quote = undefined
      // A shell would act on these inside "…" as well.
      else if (quote === '"' && '$`\\'.includes(char)) return `"${char}" inside "…" means nothing here, as no shell reads it: use '…'`
      else word = `${word ?? ''}${char}`
    } else if (char === "'" || char === '"') {
      quote = char
      word ??= ''
    } else if (char === ' ') {
      if (word !== undefined) argv.push(word)
      word = undefined
    } else if (SHELL.includes(char)) {
      return `"${char}" outside quotes means nothing here, as no shell reads it: quote it, or put the command into a script`
    } else word = `${word ?? ''}${char}`
  }
  if (quote !== undefined) return `a ${quote} is not closed`
  if (word !== undefined) argv.push(word)
  const [command = ''] = argv
  if (command === '') return 'it names no command'
  // Relative to what is an accident of where the gate was started, and that may be a folder of the agent's.
  if (command.includes('/') && !isAbsolute(command)) return `the command "${command}" is relative: write its whole path, or its name alone`
  return argv
}
