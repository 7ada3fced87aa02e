import { existsSync } from 'node:fs'
import { SallyportError, codeOf } from '../../kernel/errors.ts'
import { checkFile, checkPolicy, type Diagnostic, type PolicyInput } from '../../policy/policy.ts'
import type { ProblemView, SessionName } from '../../wire/policies.ts'
import { layersOf, type SessionLayers } from '../sessions/session-layers.ts'
import type { TrustStore } from '../sessions/workspace-trust.ts'
import type { ChangeTarget } from './targets.ts'

export type JudgeParts = {
  readonly home: string
  /** Where `extends` looks, in order. */
  readonly policyDirs: readonly string[]
  readonly trust: Pick<TrustStore, 'isTrusted'>
}

/** A session that a file reaches, with what its layers are made of. */
export type Reached = SessionName & { readonly workspace: string; readonly role?: string | undefined; readonly policy: readonly string[] }

export type Judgement = {
  readonly problems: readonly ProblemView[]
  /** It must not be written. */
  readonly isRefused: boolean
}

type Found = { readonly errors: readonly Diagnostic[]; readonly warnings: readonly Diagnostic[] }

/**
 * What is wrong with a text that is to be in the place of a file: by itself, and in every whole policy that it would be a part of. What was
 * wrong with those before is told and keeps nobody from mending something else.
 * @param text what it would say, `before` what it says; undefined where there is no file
 */
export async function judge(
  parts: JudgeParts,
  target: Pick<ChangeTarget, 'file' | 'role' | 'workspace' | 'session'>,
  text: string,
  before: string | undefined,
  reached: readonly Reached[],
): Promise<Judgement> {
  const found = new Map<string, ProblemView>()
  const refusing = new Set<string>()
  const add = (severity: ProblemView['severity'], one: Diagnostic, isRefusing: boolean, session?: string): void => {
    const key = `${severity} ${one.file}:${one.line}:${one.column} ${one.message}`
    const sessions = [...(found.get(key)?.sessions ?? []), ...(session === undefined ? [] : [session])]
    found.set(key, { severity, ...one, ...(sessions.length > 0 && { sessions: [...new Set(sessions)] }) })
    if (isRefusing) refusing.add(key)
  }
  const own = checkFile(target.file, text)
  for (const one of own) add('error', one, true)
  // A file that cannot be read as a policy makes every other complaint a guess.
  if (own.length > 0) return { problems: [...found.values()], isRefused: true }
  for (const whole of wholesOf(parts, target, reached)) {
    const [now, then] = [await whole.check(before), await whole.check(text)]
    const known = new Set(now.errors.map(placeless))
    for (const one of then.errors) add('error', one, !known.has(placeless(one)), whole.session)
    for (const one of then.warnings) if (one.file === target.file) add('warning', one, false)
  }
  return { problems: [...found.values()], isRefused: refusing.size > 0 }
}

/** Lines move when a file changes. */
function placeless({ file, message }: Diagnostic): string {
  return `${file} ${message.replaceAll(/:\d+/g, '')}`
}

type Whole = { readonly session?: string; check(text: string | undefined): Promise<Found> }

function wholesOf(
  parts: JudgeParts,
  target: Pick<ChangeTarget, 'file' | 'role' | 'workspace' | 'session'>,
  reached: readonly Reached[],
): Whole[] {
  const running = reached.map(({ id, name, workspace, role, policy }): Whole => ({
    session: name,
    check: (text) => inLayers(parts, { workspace, role, sessionFiles: policy, session: id }, target.file, text),
  }))
  const { workspace, role, session } = target
  if (session !== undefined) return running
  if (workspace !== undefined)
    return [
      { check: (text) => inLayers(parts, { workspace, role: undefined, sessionFiles: [], session: undefined }, target.file, text) },
      ...running,
    ]
  return [
    { check: async (text) => alone(parts, target.file, role === undefined ? [] : [`${parts.home}/policies/global.yaml`], text) },
    ...running,
  ]
}

async function inLayers(
  { home, policyDirs, trust }: JudgeParts,
  request: Pick<Parameters<typeof layersOf>[0], 'workspace' | 'role' | 'sessionFiles' | 'session'>,
  file: string,
  text: string | undefined,
): Promise<Found> {
  let layers: SessionLayers
  try {
    layers = await layersOf({ home, trust, ...request, instead: { file, text: text ?? 'version: 1\n' } })
  } catch (error) {
    return { errors: [said(file, error)], warnings: [] }
  }
  const broken = layers.problems.filter(({ severity }) => severity === 'error').map((one) => ({ ...one, line: 0, column: 0 }))
  const found = checkPolicy(layers.files, { policyDirs, restricted: layers.restricted })
  return {
    errors: [...broken.map(({ file: of, message }) => ({ file: of, message, line: 0, column: 0 })), ...found.errors],
    warnings: found.warnings,
  }
}

function alone({ policyDirs }: JudgeParts, file: string, others: readonly string[], text: string | undefined): Found {
  const inputs: PolicyInput[] = [...others.filter(existsSync), ...(text === undefined ? [] : [{ file, text }])]
  return checkPolicy(inputs, { policyDirs })
}

function said(file: string, error: unknown): Diagnostic {
  return { file, line: 0, column: 0, message: error instanceof SallyportError ? error.message : codeOf(error) }
}
