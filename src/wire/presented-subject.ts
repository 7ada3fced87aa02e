import { hash } from 'node:crypto'
import { LIMITS } from '../kernel/limits.ts'
import { showExact, type ShownText } from '../kernel/shown-text.ts'
import type { CommandSubject, DomainSubject, FileIdentity, ProposalSubject, SecretSubject, Subject } from './question.ts'
import { plain, shown, type Section } from './section.ts'

/** What every command gets; the rest of its environment is an addition. */
const BASE: ReadonlySet<string> = new Set(['PATH', 'HOME', 'LANG', 'LC_ALL', 'TERM', 'USER', 'LOGNAME', 'TMPDIR', 'TZ', 'SHELL'])

type Labelled = readonly [before: string, text: ShownText]

/** All that the digest is over, of what is asked for. */
export function subjectSections(subject: Subject): Section[] {
  switch (subject.kind) {
    case 'command':
      return commandSections(subject)
    case 'secret':
      return secretSections(subject)
    case 'domain':
      return domainSections(subject)
    case 'proposal':
      return proposalSections(subject)
  }
}

function commandSections({ argv, executable, scripts, cwd, environment, secrets, sandbox }: CommandSubject): Section[] {
  const variables = Object.entries(environment).map(([name, value]): readonly [string, Labelled] => [
    name,
    ['', showExact(`${name}=${value}`)],
  ])
  const additions = variables.filter(([name]) => !BASE.has(name)).map(([, shownAs]) => shownAs)
  const base = variables.filter(([name]) => BASE.has(name)).map(([, shownAs]) => shownAs)
  return [
    plain('kind', 'asks to run on this machine', ['a command, once, without a shell']),
    elements('argv', 'arguments', argv),
    fileSection('executable', 'program, as it was resolved', [executable]),
    scripts.length === 0
      ? plain('scripts', 'scripts among its arguments', ['none'])
      : fileSection('scripts', 'scripts among its arguments', scripts),
    shown('cwd', 'in the folder', [
      ['', showExact(cwd.path)],
      ['', ours(`inode ${cwd.inode} of device ${cwd.device}`)],
    ]),
    additions.length === 0
      ? plain('additions', 'added to its environment', ['nothing'])
      : shown('additions', 'added to its environment', additions),
    shown('environment', 'the rest of its environment', base.length === 0 ? [['', ours('empty')]] : base),
    secrets.length === 0
      ? plain('secrets', 'secrets that it gets', ['none'])
      : shown(
          'secrets',
          'secrets that it gets, by name',
          secrets.map((name) => ['', showExact(name)]),
        ),
    plain('sandbox', 'sandbox', [sandbox === 'none' ? 'none: it can do what you can' : sandbox]),
  ]
}

function secretSections({ name, scope }: SecretSubject): Section[] {
  return [
    plain('kind', 'asks for', ['the use of a secret']),
    shown('secret', 'secret, by name', [['', showExact(name)]]),
    plain('scope', 'for', [
      { 'single-command': 'one command', session: 'the whole session', persisted: 'this session and later ones' }[scope],
    ]),
  ]
}

function domainSections({ rule, lane, scheme, host, port, method, path }: DomainSubject): Section[] {
  return [
    plain('kind', 'asks to reach', [path === undefined ? 'a host, with whatever it sends there' : 'a host, with one request']),
    shown('host', 'host', [['', showExact(host)]]),
    plain('port', 'port', [String(port)]),
    shown('method', 'method', [['', showExact(method)]]),
    path === undefined
      ? plain('path', 'path', ['not known: nobody looks into the connection'])
      : shown('path', 'path', [['', showExact(path)]]),
    shown('way', 'by way of', [['', showExact(scheme === undefined ? lane : `${lane}, ${scheme}`)]]),
    shown('asking_rule', 'the rule that asks', [['', showExact(rule)]]),
  ]
}

function proposalSections({ of, target, diff, before, after }: ProposalSubject): Section[] {
  return [
    plain('kind', 'proposes to change', [{ policy: 'a policy', tool: 'a tool', skill: 'a skill', config_change: 'the configuration' }[of]]),
    shown('target', 'file', [['', showExact(target)]]),
    diffSection(diff),
    plain('before', 'SHA-256 of it now', [before ?? 'there is none yet']),
    plain('after', 'SHA-256 of it then', [after]),
  ]
}

/** Every line whole, however long it is: what is approved is all of it. */
function diffSection(diff: string): Section {
  const lines = diff.split('\n').map((line): Labelled => {
    const text = showExact(line, Infinity)
    return ['', { ...text, lines: text.lines.map((one) => one.slice(1, -1)) }]
  })
  return shown('diff', 'the change', lines)
}

/** One element a line, by its number. */
function elements(name: string, label: string, values: readonly string[]): Section {
  const listed = values.slice(0, LIMITS.shownElementsMax)
  const width = String(listed.length - 1).length
  const section = shown(
    name,
    `${label} (${values.length})`,
    listed.map((value, index) => [`${String(index).padStart(width)} `, showExact(value)]),
  )
  const more = values.length - listed.length
  if (more === 0) return section
  const digest = hash('sha256', JSON.stringify(values), 'hex')
  const line = `⟦${more} elements left out, ${values.length} in all, SHA-256 of all as JSON ${digest}⟧`
  return { ...section, lines: [...section.lines, line], marks: [...new Set([...(section.marks ?? []), 'folded' as const])] }
}

function fileSection(name: string, label: string, files: readonly FileIdentity[]): Section {
  const texts = files.flatMap(({ path, device, inode, sizeBytes, sha256 }): Labelled[] => [
    ['', showExact(path)],
    ['', ours(`${sizeBytes} bytes, SHA-256 ${sha256}`)],
    ['', ours(`inode ${inode} of device ${device}`)],
  ])
  return shown(name, label, texts)
}

function ours(text: string): ShownText {
  return { lines: [text], marks: [] }
}
