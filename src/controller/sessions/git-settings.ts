/** One setting of a git config file. `key` is as `git config --list` prints it: section and name in lower case. */
export type GitSetting = { readonly key: string; readonly value: string }

/**
 * Reads a config file as git does (git-config(1), "Syntax").
 * @returns undefined where git would refuse the file; then nothing can be said about it.
 */
export function readGitSettings(text: string): GitSetting[] | undefined {
  const settings: GitSetting[] = []
  // git drops a byte order mark, and a carriage return before a line feed.
  const source = text.replace(/^\uFEFF/, '').replace(/\r\n/g, '\n')
  // git ends texts there, and goes on reading the file.
  if (source.includes('\0')) return undefined
  let [at, section] = [0, '']
  while (at < source.length) {
    const space = /[ \t\n\r]+|[#;][^\n]*/y
    space.lastIndex = at
    if (space.test(source)) {
      at = space.lastIndex
      continue
    }
    const header = /\[([A-Za-z0-9.-]*)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]/y
    header.lastIndex = at
    const named = header.exec(source)
    if (named !== null) {
      section = `${sectionOf(named[1] ?? '', named[2])}.`
      at = header.lastIndex
      continue
    }
    const name = /([A-Za-z][A-Za-z0-9-]*)[ \t]*/y
    name.lastIndex = at
    const key = name.exec(source)?.[1]
    if (key === undefined) return undefined
    const value = readValue(source, name.lastIndex)
    if (value === undefined) return undefined
    settings.push({ key: `${section}${key.toLowerCase()}`, value: value.text })
    at = value.end
  }
  return settings
}

/** Whether git neither runs, nor follows, nor sends anything to what a setting says. Known ones only: git and its helpers learn new ones that run programs. */
export function isHarmless({ key, value }: GitSetting): boolean {
  if (/^branch\..*\.(?:merge|rebase|description|vscode-merge-base)$/s.test(key)) return true
  if (/^branch\..*\.(?:remote|pushremote)$/s.test(key)) return /^[A-Za-z0-9_.][\w.-]*$/.test(value)
  return /^(?:user\.(?:name|email)|core\.(?:bare|filemode|ignorecase|precomposeunicode|logallrefupdates|symlinks))$/.test(key)
}

/** Settings whose value is a command, or the name of one. */
const COMMANDS =
  /^(?:core\.(?:fsmonitor|sshcommand|pager|editor|askpass|gitproxy|alternaterefscommand)|sequence\.editor|alias\..+|filter\..+\.(?:clean|smudge|process)|diff\.external|diff\..+\.(?:command|textconv)|merge\..+\.driver|(?:merge|diff)tool\..+\.(?:cmd|path)|credential(?:\..+)?\.helper|gpg(?:\..+)?\.program|gpg\.ssh\.defaultkeycommand|pager\..+|interactive\.difffilter|trailer\..+\.(?:command|cmd)|uploadpack\.packobjectshook|remote\..+\.(?:uploadpack|receivepack)|submodule\..+\.update|sendemail\..*(?:cmd|smtpserver)|browser\..+\.cmd|man\..+\.(?:cmd|path)|web\.browser|instaweb\..+|imap\.tunnel)$/s

/** The program that a setting names by a path (not one that is searched in PATH), as written; undefined for any other setting. */
export function programOf({ key, value }: GitSetting): string | undefined {
  if (!COMMANDS.test(key)) return undefined
  const word = /^!?\s*(?:"([^"]+)"|'([^']+)'|([^\s"'|;&<>()$`]+))/.exec(value)
  const program = word?.[1] ?? word?.[2] ?? word?.[3]
  return program?.includes('/') === true ? program : undefined
}

/** `[a "B"]` is `a.B`; `[A.B]`, which is old, `a.b`. */
function sectionOf(name: string, subsection: string | undefined): string {
  const section = name.toLowerCase()
  return subsection === undefined ? section : `${section}.${subsection.replace(/\\([^])/g, '$1')}`
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', b: '\b', '\\': '\\', '"': '"' }

/** From behind a name. A name alone is true. */
function readValue(source: string, from: number): { text: string; end: number } | undefined {
  if (source[from] !== '=') {
    return source[from] === '\n' || from >= source.length ? { text: 'true', end: from + 1 } : undefined
  }
  let [text, spaces, isQuoted, isComment] = ['', 0, false, false]
  for (let at = from + 1; ; at++) {
    // The end of the file ends a line.
    const char = source[at] ?? '\n'
    if (char === '\n') return isQuoted ? undefined : { text, end: at + 1 }
    if (isComment) continue
    if (!isQuoted && (char === ' ' || char === '\t' || char === '\r')) {
      // Spaces at the beginning and at the end don't count, so they wait for what follows.
      if (text !== '') spaces++
    } else if (!isQuoted && (char === '#' || char === ';')) isComment = true
    else {
      text += ' '.repeat(spaces)
      spaces = 0
      if (char === '"') isQuoted = !isQuoted
      else if (char !== '\\') text += char
      else {
        const escaped = source[++at] ?? '\n'
        const plain = escaped === '\n' ? '' : ESCAPES[escaped]
        if (plain === undefined) return undefined
        text += plain
      }
    }
  }
}
