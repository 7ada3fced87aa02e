import { showExact, type Mark, type ShownText } from '../kernel/shown-text.ts'
import { changeSections, elements, ours, type Labelled } from './presented-parts.ts'
import type { Composed, PinnedFile, SecretSubject, UseSubject } from './question.ts'
import { plain, shown, type Section } from './section.ts'

const SCOPES = {
  'single-command': 'one command: the handle is used up by it',
  session: 'the whole session: each command is asked about by itself',
  persisted: 'this session, and later ones of the workspace without being asked: the policy is changed',
} as const

/** What somebody who allows a handle has to know. */
export function secretSections({ name, scope, source, state, note, uses, lifeMs, workspace, change }: SecretSubject): Section[] {
  return [
    plain('kind', 'asks for', ['a handle for a secret: the value stays here, the agent never has it']),
    shown('secret', 'secret, by name', [['', showExact(name)]]),
    plain('scope', 'for', [SCOPES[scope]]),
    shown('source', 'kept in', [['', showExact(source)]]),
    state === 'there' ? shown('state', 'is it there', [['', inWords(note)]]) : warned(shown('state', 'is it there', [['', inWords(note)]])),
    plain('uses', 'uses', [uses === undefined ? 'any number, each with a question of its own' : `${uses}`]),
    plain('life', 'ends', [`after ${wholeMinutes(lifeMs)}, or with the session`]),
    shown('of_workspace', 'for sessions of', [['', showExact(workspace)]]),
    ...(change === undefined ? [] : changeSections(change)),
  ]
}

/** Everything that decides what becomes of the values. */
export function useSections({ argv, image, program, environment, stdin, secrets, workspace, cwd, files }: UseSubject): Section[] {
  const variables = Object.entries(environment).map(([name, value]): Labelled => ['', composedText(`${name} = `, value)])
  return [
    plain('kind', 'asks to run with secrets', ['a command, once, without a shell, in a container of its own that is gone afterwards']),
    elements('argv', 'arguments', argv),
    shown('program', 'program, as it was resolved', [
      ['', showExact(program)],
      ['of image ', showExact(image)],
    ]),
    variables.length === 0
      ? plain('environment', 'added to its environment', ['nothing'])
      : shown('environment', 'added to its environment', variables),
    stdin === undefined ? plain('stdin', 'it reads', ['nothing']) : shown('stdin', 'it reads', [['', composedText('', stdin)]]),
    shown(
      'secrets',
      'secrets that it gets, and can do with as it likes',
      secrets.map(({ name, source }): Labelled => ['', withSource(name, source)]),
    ),
    plain('has_workspace', 'files of the workspace', [
      workspace === 'none'
        ? 'not there'
        : 'there, read-only: the program may read any file of it, and the agent can change those until then, but for the copies below',
    ]),
    shown('cwd', 'in the folder', [['', showExact(cwd)]]),
    files.length === 0
      ? plain('files', 'files of the workspace among its arguments', ['none'])
      : shown('files', 'files of the workspace among its arguments: it gets copies of what they are now', files.flatMap(fileLines)),
    plain('network', 'network', ['only through the gate, by the policy of the session']),
    plain('output', 'the agent sees', [
      'what it prints and what it leaves in /output, without the values; an encoding that is made on purpose is not found',
    ]),
  ]
}

/** `⟦secret NAME⟧` where a value goes: no text of the agent's can have that sign in it. */
function composedText(before: string, value: Composed): ShownText {
  const pieces = value.map((piece) =>
    'text' in piece ? { text: showExact(piece.text), ends: ['', ''] } : { text: showExact(piece.secret), ends: ['⟦secret ', '⟧'] },
  )
  const label = showExact(before)
  const written = (of: (text: ShownText) => string): string =>
    `${bare(of(label))}"${pieces.map(({ text, ends: [begin = '', end = ''] }) => `${begin}${bare(of(text))}${end}`).join('')}"`
  const all = [label, ...pieces.map(({ text }) => text)]
  return {
    lines: [written(({ lines }) => lines[0] ?? '')],
    marks: [...new Set<Mark>(all.flatMap(({ marks }) => marks))],
    ...(all.some(({ spelled }) => spelled !== undefined) && { spelled: written(({ lines, spelled }) => spelled ?? lines[0] ?? '') }),
  }
}

/** Without the quotes around it. */
function bare(quoted: string): string {
  return quoted.slice(1, -1)
}

function withSource(name: string, source: string): ShownText {
  const [one, another] = [showExact(name), showExact(source)]
  return { lines: [`${one.lines[0] ?? ''} from ${another.lines[0] ?? ''}`], marks: [...new Set([...one.marks, ...another.marks])] }
}

function fileLines({ argument, prefix, path, sizeBytes, sha256, isExecutable, at }: PinnedFile): Labelled[] {
  return [
    [`${argument} `, showExact(`${prefix}${path}`)],
    ['', ours(`${sizeBytes} bytes, SHA-256 ${sha256}${isExecutable ? ', executable' : ''}`)],
    ['for it at ', showExact(at)],
  ]
}

/** Words of ours that may have a name of somebody else's in them. */
function inWords(note: string): ShownText {
  const { lines, marks } = showExact(note)
  return { lines: lines.map((line) => line.slice(1, -1)), marks }
}

function warned(section: Section): Section {
  return { ...section, isWarning: true }
}

function wholeMinutes(ms: number): string {
  const minutes = Math.floor(ms / 60_000)
  return minutes >= 120 && minutes % 60 === 0 ? `${minutes / 60} hours` : `${minutes} minutes`
}
