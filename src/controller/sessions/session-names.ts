import { createHash } from 'node:crypto'
import { basename, join } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'

export type Role = 'agent' | 'sidecar' | 'trust' | 'probe' | 'jail' | 'uplink' | 'sibling'

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'
const ID = /^[a-z2-7]{16}$/

/** 16 lower-case base32 characters (80 bits). */
export function newSessionId(system: Pick<System, 'random'>): string {
  return [...system.random(16)].map((byte) => ALPHABET[byte % 32]).join('')
}

export function isSessionId(text: string): boolean {
  return ID.test(text)
}

/** The operator's name, or one of the workspace's. @throws SallyportError config_invalid */
export function sessionName(wish: string | undefined, workspace: string, id: string): string {
  if (wish === undefined) {
    const slug = basename(workspace)
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
      .replaceAll(/^-+|-+$/g, '')
    return [slug.slice(0, LIMITS.sessionNameCharsMax - 5) || 'session', id.slice(0, 4)].join('-')
  }
  if (/^[a-z0-9][a-z0-9_.-]*$/i.test(wish) && wish.length <= LIMITS.sessionNameCharsMax && !ID.test(wish)) return wish
  throw new SallyportError('config_invalid', `"${wish}" is no name for a session`, {
    hint: `letters, digits, "-", "_" and "." after a letter or digit, at most ${LIMITS.sessionNameCharsMax}; not one that looks like an id`,
  })
}

/** Whose a container or network is: this home's, and of it this session's. */
export function labelsOf(home: string, session: string, role: Role): Record<string, string> {
  return { 'sallyport.session': session, 'sallyport.role': role, ...homeLabel(home) }
}

/** What everything of one home has. */
export function homeLabel(home: string): { readonly 'sallyport.home': string } {
  return { 'sallyport.home': createHash('sha256').update(home).digest('hex').slice(0, 16) }
}

export function engineName(session: string, role: Role): string {
  return `sallyport-${session}-${role}`
}

/**
 * The session of something in the engine, where it is of this home: name and labels must agree, so that a foreign container whose image
 * carries such labels is left alone.
 */
export function sessionOf(
  home: string,
  { name, labels }: { readonly name: string; readonly labels: Readonly<Record<string, string>> },
): string | undefined {
  const session = labels['sallyport.session'] ?? ''
  const role = labels['sallyport.role'] ?? ''
  if (labels['sallyport.home'] !== homeLabel(home)['sallyport.home'] || !ID.test(session)) return undefined
  return name === engineName(session, role as Role) || name.startsWith(`${engineName(session, role as Role)}-`) ? session : undefined
}

/** The files that are mounted into a session's containers. */
export function sessionFolder(home: string, session: string): string {
  return join(home, 'sessions', session)
}

/** What agents of a session get to see of the output of what they asked for: each sees it read-only, below `/sallyport/output`. */
export function outputFolder(home: string, session: string): string {
  return join(sessionFolder(home, session), 'output')
}

/** What is mounted into containers beside the agent, a folder for each. */
export function siblingsFolder(home: string, session: string): string {
  return join(sessionFolder(home, session), 'siblings')
}

/** What commands with secrets write, before it is looked through: a folder for each, of nobody's reach. */
export function usesFolder(home: string, session: string): string {
  return join(sessionFolder(home, session), 'uses')
}

/** What is mounted in the gate, read-only, as its policy. */
export function policyFolder(home: string, session: string): string {
  return join(sessionFolder(home, session), 'policy')
}

/** The folder of its control socket: a path short enough for one. */
export function socketFolder(home: string, session: string): string {
  return join(home, 's', session.slice(0, 8))
}
