import {
  closeSync,
  copyFileSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { join, relative, sep } from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { nearest } from '../../kernel/nearest.ts'
import { checkPolicy, formatDiagnostic, loadPolicy, showPolicy } from '../../policy/policy.ts'
import { HARNESS_NAMES } from '../sessions/harness.ts'
import { workspacePolicyDir } from '../sessions/session-layers.ts'
import { detect, type Detected } from './detect.ts'
import { policyText, type TextSetting } from './policy-text.ts'

export type InitRequest = {
  readonly workspace: string
  /** Undefined: what the workspace's files tell. */
  readonly harness: string | undefined
  /** A policy that is there is replaced, and kept beside. */
  readonly force: boolean
}

export type InitSetting = { readonly home: string; readonly policyDirs: readonly string[] }

export type InitPlan = {
  readonly workspace: string
  readonly file: string
  /** What the file is checked with: the operator's global policy, where there is one, and then itself. */
  readonly layers: readonly string[]
  readonly text: string
  /** Names that the vault should have. */
  readonly secrets: readonly string[]
  readonly detected: Detected
  readonly harness: string | undefined
}

const COPIES_MAX = 1_000

/**
 * The policy for a workspace, from what its files tell. Nothing is written.
 * @throws SallyportError config_invalid for a workspace that is no folder or holds `home`; usage for a harness that is none;
 * policy_invalid when the operator's global policy is
 */
export function planInit(request: InitRequest, { home, policyDirs }: InitSetting): InitPlan {
  const workspace = realFolder(request.workspace)
  refuseHome(workspace, home)
  const detected = detect(workspace)
  const wanted = request.harness ?? detected.harness?.name
  const harness = wanted === 'plain' ? undefined : wanted
  if (harness !== undefined) refuseUnknown(harness, policyDirs)
  const globals = [join(home, 'policies', 'global.yaml')].filter((path) => existsSync(path))
  const { text, secrets } = policyText({ workspace, detected, harness, taken: takenBy(globals, policyDirs) })
  const file = join(workspacePolicyDir(home, workspace), 'policy.yaml')
  return { workspace, file, layers: [...globals, file], text, secrets, detected, harness }
}

/**
 * Writes a plan: the policy, and a file `workspace` beside it with the path in one line. Gives the copy of what was there before.
 * @throws SallyportError policy_exists when there is another one and nobody forces; policy_invalid when what was made is none
 */
export function writeInit(
  plan: InitPlan,
  force: boolean,
  { home, policyDirs }: InitSetting,
): { readonly kept: string | undefined; readonly isSame: boolean } {
  const folder = workspacePolicyDir(home, plan.workspace)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const before = readIfThere(plan.file)
  if (before === plan.text) return { kept: undefined, isSame: true }
  if (before !== undefined && !force) {
    throw new SallyportError('policy_exists', `${plan.file} is there already, and is yours: nothing was written`, {
      hint: 'compare: sallyport init --print | diff FILE - ; replace it and keep a copy: sallyport init --force',
    })
  }
  const aside = join(folder, `policy.${process.pid}.new.yaml`)
  writeWhole(aside, plan.text)
  try {
    const { errors } = checkPolicy([...plan.layers.slice(0, -1), aside], { policyDirs })
    if (errors.length > 0) throw new SallyportError('policy_invalid', errors.map(formatDiagnostic).join('\n'))
    writeWhole(join(folder, 'workspace.new'), `${plan.workspace}\n`)
    renameSync(join(folder, 'workspace.new'), join(folder, 'workspace'))
    const kept = before === undefined ? undefined : keep(plan.file)
    place(aside, plan.file, before !== undefined)
    return { kept, isSame: false }
  } finally {
    rmSync(aside, { force: true })
  }
}

/** One that somebody else made meanwhile is not overwritten. */
function place(aside: string, file: string, replaces: boolean): void {
  if (replaces) return renameSync(aside, file)
  try {
    linkSync(aside, file)
  } catch (cause) {
    if (codeOf(cause) !== 'EEXIST') throw cause
    throw new SallyportError('policy_exists', `${file} was made by somebody else just now: nothing was written`, { cause })
  }
}

function keep(file: string): string {
  for (let number = 1; number <= COPIES_MAX; number += 1) {
    const copy = `${file}.before-${number}`
    try {
      copyFileSync(file, copy, constants.COPYFILE_EXCL)
      return copy
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error
    }
  }
  throw new SallyportError('policy_exists', `${file} has ${COPIES_MAX} copies: nothing was written`, { hint: 'delete old ones' })
}

function writeWhole(file: string, text: string): void {
  rmSync(file, { force: true })
  const fd = openSync(file, 'wx', 0o600)
  try {
    writeSync(fd, text)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function realFolder(path: string): string {
  try {
    if (statSync(path).isDirectory()) return realpathSync(path)
  } catch (cause) {
    if (codeOf(cause) !== 'ENOENT') throw cause
  }
  throw new SallyportError('config_invalid', `workspace "${path}" is not a folder`)
}

/** The agent writes what is in its workspace: its own policy, vault and audit must not be. */
function refuseHome(workspace: string, home: string): void {
  const real = existsSync(home) ? realpathSync(home) : home
  const inside = relative(workspace, real)
  if (inside === '..' || inside.startsWith(`..${sep}`)) return
  throw new SallyportError('config_invalid', `SALLYPORT_HOME (${home}) lies in the workspace ${workspace}, where the agent writes`, {
    hint: 'take a folder of one project as the workspace, or set SALLYPORT_HOME to a place outside',
  })
}

/** One of ours, or a file of the operator's own. */
function refuseUnknown(harness: string, policyDirs: readonly string[]): void {
  const isName = /^[a-z0-9-]{1,64}$/.test(harness)
  if (isName && harness !== 'plain' && policyDirs.some((folder) => existsSync(join(folder, 'harness', `${harness}.yaml`)))) return
  const known = HARNESS_NAMES.filter((name) => name !== 'plain')
  const near = nearest(harness, known)
  throw new SallyportError(
    'usage',
    `there is no harness "${harness.slice(0, 64)}"${near === undefined ? '' : `: did you mean "${near}"?`}`,
    {
      hint: `there are ${known.join(', ')}; policies/harness/template.yaml says how to make one`,
    },
  )
}

function takenBy(globals: readonly string[], policyDirs: readonly string[]): TextSetting['taken'] {
  if (globals.length === 0) return { secrets: new Set(), credentials: new Set(), harness: undefined }
  const { secrets, credentials, harness } = showPolicy(loadPolicy(globals, { policyDirs }))
  return {
    secrets: new Set(secrets.map(({ name }) => name)),
    credentials: new Set(credentials.map(({ id }) => id)),
    harness: harness?.value,
  }
}
