import { showExact } from '../kernel/shown-text.ts'
import { changeSections, elements, ours, type Labelled } from './presented-parts.ts'
import { secretSections, useSections } from './presented-secrets.ts'
import type { CommandSubject, DomainSubject, FileIdentity, ProposalSubject, Subject } from './question.ts'
import { plain, shown, type Section } from './section.ts'

/** What every command gets; the rest of its environment is an addition. */
const BASE: ReadonlySet<string> = new Set(['PATH', 'HOME', 'LANG', 'LC_ALL', 'TERM', 'USER', 'LOGNAME', 'TMPDIR', 'TZ', 'SHELL'])

/** All that the digest is over, of what is asked for. */
export function subjectSections(subject: Subject): Section[] {
  switch (subject.kind) {
    case 'command':
      return commandSections(subject)
    case 'secret':
      return secretSections(subject)
    case 'secret_use':
      return useSections(subject)
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

function domainSections({ rule, lane, network, scheme, host, port, method, path }: DomainSubject): Section[] {
  return [
    plain('kind', 'asks to reach', [path === undefined ? 'a host, with whatever it sends there' : 'a host, with one request']),
    shown('host', 'host', [['', showExact(host)]]),
    plain('port', 'port', [String(port)]),
    shown('method', 'method', [['', showExact(method)]]),
    path === undefined
      ? plain('path', 'path', ['not known: nobody looks into the connection'])
      : shown('path', 'path', [['', showExact(path)]]),
    shown('way', 'by way of', [['', showExact(scheme === undefined ? lane : `${lane}, ${scheme}`)]]),
    ...(network === undefined ? [] : [shown('network', 'from beside the agent', [['', showExact(network)]])]),
    shown('asking_rule', 'the rule that asks', [['', showExact(rule)]]),
  ]
}

function proposalSections({ of, ...change }: ProposalSubject): Section[] {
  return [
    plain('kind', 'proposes to change', [{ policy: 'a policy', tool: 'a tool', skill: 'a skill', config_change: 'the configuration' }[of]]),
    ...changeSections(change),
  ]
}

function fileSection(name: string, label: string, files: readonly FileIdentity[]): Section {
  const texts = files.flatMap(({ path, device, inode, sizeBytes, sha256 }): Labelled[] => [
    ['', showExact(path)],
    ['', ours(`${sizeBytes} bytes, SHA-256 ${sha256}`)],
    ['', ours(`inode ${inode} of device ${device}`)],
  ])
  return shown(name, label, texts)
}
