import { createHash } from 'node:crypto'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { replacePrivateFile, stagePrivateFile, type StagedFile } from '../../kernel/private-file.ts'
import type { System } from '../../kernel/system.ts'
import type { Answer, Question } from '../../wire/question.ts'
import type { QuestionsFile, RememberedRule } from './questions-file.ts'
import { readNetworkRule } from './network-rule.ts'

/** What remembering needs to know of policies. */
export type RememberDoor = {
  /** `$SALLYPORT_HOME/policies/remembered` */
  readonly folder: string
  /** Why a rule is none of its kind, or allows more than the one that was offered. `undefined`: it may be stored. */
  complaint(kind: RememberedRule['kind'], offered: string, rule: string): string | undefined
  /** The layer of this workspace is another one now. */
  changed(workspace: string): void
}

/** A rule that is about to be remembered: on the disk, and not in force before `staged.put`. One of the network is in no layer. */
export type Remembering = { readonly row: RememberedRule; readonly staged?: StagedFile }

export type Remembered = {
  /** Ends the rules whose time is over, and gives them. `isFirst`: writes every layer as it has to be, and removes others. */
  settle(now: number, isFirst: boolean): Promise<readonly RememberedRule[]>
  /** @throws answer_invalid, approvals_write_failed */
  prepare(question: Question, answer: Answer, now: number): Promise<Remembering>
  /** Writes the layer of one workspace anew. */
  write(workspace: string): Promise<void>
}

const HEADER = ` What was answered with "remember". Sallyport writes this file anew: to take a rule back, let it forget that.
 Rules of other layers that deny or ask are stronger.`

/** The layer of a workspace, by its real path. */
export function rememberedFile(folder: string, workspace: string): string {
  return join(folder, `${createHash('sha256').update(workspace).digest('hex')}.yaml`)
}

/**
 * The remembered rules about commands as policy layers, one file a workspace. What is true is in `file`: a layer is only ever made of it.
 * Those about the network are in `file` alone, where they answer the question of a rule that asks: in a layer such a rule is stronger than
 * they are, and what can never decide is an error there.
 */
export function createRemembered(
  file: Pick<QuestionsFile, 'rules' | 'endRules'>,
  door: RememberDoor,
  system: Pick<System, 'random'>,
  log: Pick<Log, 'error'>,
): Remembered {
  async function write(workspace: string): Promise<void> {
    const path = rememberedFile(door.folder, workspace)
    const rules = file.rules(workspace).filter(isCommand)
    try {
      if (rules.length === 0) await rm(path, { force: true })
      else await replacePrivateFile(path, layerText(rules), system)
    } catch (error) {
      // It could allow what has ended. Without the file the operator is asked again.
      log.error({ file: path, cause: codeOf(error) }, 'a layer of remembered rules could not be written: it is removed')
      await rm(path, { force: true })
    }
    door.changed(workspace)
  }

  return {
    write,
    async settle(now, isFirst) {
      const ended = file.endRules(now)
      const rules = isFirst ? [...ended, ...file.rules()] : ended
      const workspaces = new Set(rules.map(({ workspace }) => workspace))
      const known = new Set([...workspaces].map((workspace) => rememberedFile(door.folder, workspace)))
      // What a controller that was killed left there, or somebody else made, allows nothing.
      if (isFirst) for (const path of await layersIn(door.folder)) if (!known.has(path)) await rm(path, { force: true })
      for (const workspace of workspaces) await write(workspace)
      return ended
    },
    async prepare(question, answer, now) {
      const row = rowOf(question, answer, door, system, now)
      const rules = file.rules(row.workspace)
      if (rules.length >= LIMITS.rememberedRulesMax)
        throw new SallyportError('answer_invalid', `${rules.length} rules are remembered for this workspace already: let some be forgotten`)
      if (!isCommand(row)) return { row }
      const path = rememberedFile(door.folder, row.workspace)
      try {
        return { row, staged: await stagePrivateFile(path, layerText([...rules.filter(isCommand), row]), system) }
      } catch (cause) {
        throw new SallyportError('approvals_write_failed', `${path}: ${codeOf(cause)}`, { hint: 'nothing is remembered', cause })
      }
    },
  }
}

/** @throws answer_invalid */
function rowOf(question: Question, answer: Answer, door: RememberDoor, system: Pick<System, 'random'>, now: number): RememberedRule {
  const { remember, asker } = question
  const { rule, expiresAt = now + LIMITS.rememberMs } = answer
  if (remember === undefined || rule === undefined) throw new SallyportError('answer_invalid', 'it cannot be remembered')
  if (expiresAt <= now || expiresAt > now + LIMITS.rememberMaxMs)
    throw new SallyportError('answer_invalid', `a rule ends later than now, and within ${LIMITS.rememberMaxMs / 86_400_000} days`)
  // The offered one too: what is stored is what the policy takes.
  const problem = door.complaint(remember.kind, remember.rule, rule)
  if (problem !== undefined)
    throw new SallyportError('answer_invalid', `the rule "${rule}" is not the one that was offered, or a narrower one: ${problem}`)
  const id = system.random(6).toString('hex')
  if (remember.kind === 'network' && readNetworkRule(rule) === undefined)
    throw new SallyportError('answer_invalid', `the rule "${rule}" has more or other than host, ports, methods and paths, in JSON`)
  return { id, workspace: asker.workspace, kind: remember.kind, rule, question: question.id, createdAt: now, expiresAt }
}

function isCommand({ kind }: Pick<RememberedRule, 'kind'>): boolean {
  return kind === 'host_command'
}

/** A policy file with these rules about commands, each once, for as long as the longest of its equals. */
export function layerText(rules: readonly RememberedRule[]): string {
  const once = new Map<string, RememberedRule>()
  for (const one of rules.toSorted((first, other) => first.expiresAt - other.expiresAt)) once.set(one.rule, one)
  const allow = [...once.values()].map(({ rule, expiresAt }) => ({ pattern: rule, expires: new Date(expiresAt).toISOString() }))
  const document = { version: 1, host_commands: { allow } }
  return `${HEADER.replace(/^/gm, '#')}\n${stringify(document, { lineWidth: 0, defaultStringType: 'QUOTE_DOUBLE', defaultKeyType: 'PLAIN' })}`
}

async function layersIn(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return []
    throw new SallyportError('approvals_invalid', `${folder} cannot be read (${codeOf(error)})`, { cause: error })
  })
  return names.filter((name) => /^[0-9a-f]{64}\.yaml$/.test(name)).map((name) => join(folder, name))
}
