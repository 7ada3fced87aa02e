import { SallyportError } from '../kernel/errors.ts'
import { shown } from '../kernel/shown.ts'
import type { CredentialFile, CredentialPlace } from '../wire/credential.ts'

/** Where each kind of file is looked for by its programs, below HOME. */
export const FILE_PATHS = {
  npmrc: '.npmrc',
  netrc: '.netrc',
  pypirc: '.pypirc',
  docker: '.docker/config.json',
} as const satisfies Record<CredentialFile['kind'], string>

/** A file that a program of the agent reads its credential from. It holds worthless values only. */
export type ReadyFile = {
  readonly name: CredentialFile['kind']
  /** Below HOME. */
  readonly path: (typeof FILE_PATHS)[CredentialFile['kind']]
  readonly content: string
}

/** One credential's part of a file, checked. `value` is the placeholder. */
type Entry = { readonly server: string; readonly login: string | undefined; readonly value: string }

type Format = {
  /** What a server is called in this kind of file; all else would be read differently, or as more than a name. */
  readonly server: RegExp
  readonly serverIs: string
  /** `none`: programs read a token alone. Else the login that is written when the policy says none, if there is a usual one. */
  readonly login: 'none' | { readonly usual?: string }
  write(entries: readonly Entry[]): string
}

const NAME = String.raw`[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?`
const PORT = String.raw`(?::[1-9][0-9]{0,4})?`
const PATH = String.raw`(?:/[A-Za-z0-9._~-]+)*/?`

const FORMATS: Readonly<Record<CredentialFile['kind'], Format>> = {
  npmrc: {
    server: new RegExp(`^${NAME}${PORT}${PATH}$`),
    serverIs: 'a host, or a host and a path, as registry.example.com',
    login: 'none',
    // npm finds the token of a registry by its URL without the scheme, down to a slash.
    write: (entries) => lines(entries.map(({ server, value }) => `//${server.replace(/\/$/, '')}/:_authToken=${value}`)),
  },
  netrc: {
    server: new RegExp(`^${NAME}$`),
    serverIs: 'a host without a port, as github.com',
    login: {},
    write: (entries) => lines(entries.map(({ server, login = '', value }) => `machine ${server} login ${login} password ${value}`)),
  },
  pypirc: {
    server: new RegExp(`^https?://${NAME}${PORT}${PATH}$`),
    serverIs: 'the URL that is uploaded to, as https://upload.example.com/legacy/',
    // What PyPI and those who speak its language take for "the password is a token".
    login: { usual: '__token__' },
    write: writePypirc,
  },
  docker: {
    server: new RegExp(`^(?:https?://)?${NAME}${PORT}${PATH}$`),
    serverIs: 'a registry, as registry.example.com, with the scheme and path that the program keeps',
    login: {},
    write: (entries) =>
      `${JSON.stringify(
        { auths: Object.fromEntries(entries.map(({ server, login = '', value }) => [server, { auth: base64(`${login}:${value}`) }])) },
        null,
        2,
      )}\n`,
  },
}

const KINDS = Object.keys(FORMATS) as CredentialFile['kind'][]

/** No white space, quote, comment sign, backslash, percent sign (interpolation) or colon (RFC 7617 §2): one word in every format. */
const LOGIN = /^[A-Za-z0-9_][A-Za-z0-9._~@+|$/=-]{0,254}$/
/** What placeholders are made of. */
const VALUE = /^[A-Za-z0-9._~:-]+$/
/** The section that lists the others. */
const INDEX = 'distutils'
/** What twine and others call the public index and the one for tries without being told. */
const USUAL_SECTIONS = [
  { host: /^upload\.pypi\./, name: 'pypi' },
  { host: /^test\.pypi\./, name: 'testpypi' },
] as const

/**
 * The files of all credentials that have one, each kind once, with the placeholders of `values` (by the name of their
 * variable) in them. The order is that of the kinds, and in a file that of the bindings.
 * @throws SallyportError policy_invalid when a server or login would be read as something else in its file, when one is missing
 *   that the kind needs, and when two credentials are for one server of a file
 */
export function credentialFiles(
  bindings: readonly { readonly place: CredentialPlace; readonly file?: CredentialFile }[],
  values: Readonly<Record<string, string>>,
): readonly ReadyFile[] {
  const entries = new Map(KINDS.map((kind) => [kind, new Map<string, Entry>()]))
  for (const { place, file } of bindings) {
    if (file === undefined) continue
    const entry = entryOf(file, place, values)
    const known = entries.get(file.kind)?.get(entry.server)
    if (known !== undefined && (known.value !== entry.value || known.login !== entry.login)) {
      throw complaint(file, 'has two credentials in it', 'a program would read one of them: leave the other out')
    }
    entries.get(file.kind)?.set(entry.server, entry)
  }
  return KINDS.flatMap((name) => {
    const list = [...(entries.get(name)?.values() ?? [])]
    return list.length === 0 ? [] : [{ name, path: FILE_PATHS[name], content: FORMATS[name].write(list) }]
  })
}

function entryOf(file: CredentialFile, place: CredentialPlace, values: Readonly<Record<string, string>>): Entry {
  const format = FORMATS[file.kind]
  if (place.kind !== 'placeholder')
    throw complaint(file, 'is for a credential without a placeholder', 'only a placeholder can stand in a file')
  const value = Object.hasOwn(values, place.name) ? values[place.name] : undefined
  if (value === undefined || !VALUE.test(value)) throw complaint(file, `has no placeholder ${place.name} that could stand in it`)
  if (!format.server.test(file.server))
    throw complaint(file, 'names its server in another way than such a file does', `write ${format.serverIs}`)
  return { server: file.server, login: loginOf(file, format), value }
}

function loginOf(file: CredentialFile, { login }: Format): string | undefined {
  if (login === 'none') {
    if (file.login === undefined) return undefined
    throw complaint(file, 'has a login, and such a file holds a token alone', 'leave the login out')
  }
  const name = file.login ?? login.usual
  if (name === undefined) throw complaint(file, 'has no login', 'add login: NAME, as services want it: x-access-token, oauth2, a user')
  if (LOGIN.test(name)) return name
  throw complaint(
    file,
    `has a login "${shown(name)}" that would be read as something else there`,
    'use letters, digits and . _ ~ @ + | $ / = -',
  )
}

function complaint(file: CredentialFile, problem: string, hint?: string): SallyportError {
  return new SallyportError(
    'policy_invalid',
    `the file ${file.kind} for "${shown(file.server)}" ${problem}`,
    hint === undefined ? {} : { hint },
  )
}

/** Sections are called as the usual indexes are, the others by their host, and where that is taken by a number too. */
function writePypirc(entries: readonly Entry[]): string {
  const sections = new Map<string, Entry>()
  for (const entry of entries) {
    const host = /^https?:\/\/([^/:]+)/.exec(entry.server)?.[1]?.toLowerCase() ?? ''
    const name = USUAL_SECTIONS.find((usual) => usual.host.test(host))?.name ?? host
    let free = name
    for (let n = 2; sections.has(free) || free === INDEX; n += 1) free = `${name}-${n}`
    sections.set(free, entry)
  }
  const indexes = [`[${INDEX}]`, 'index-servers =', ...[...sections.keys()].map((name) => `    ${name}`)]
  const details = [...sections].flatMap(([name, { server, login = '', value }]) => [
    '',
    `[${name}]`,
    `repository = ${server}`,
    `username = ${login}`,
    `password = ${value}`,
  ])
  return lines([...indexes, ...details])
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

function lines(list: readonly string[]): string {
  return `${list.join('\n')}\n`
}
