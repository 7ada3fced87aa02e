import { realpath } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { describeCommand, type Surroundings } from '../../command/command.ts'
import { codeOf, ERRORS, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import { shown } from '../../kernel/shown.ts'
import type { System } from '../../kernel/system.ts'
import { decideHostCommand, exactPattern, type HostCommandDecision, type Policy } from '../../policy/policy.ts'
import type { AgentParams, AgentResult } from '../../wire/agent-requests.ts'
import type { CommandFacts } from '../../wire/command.ts'
import type { Asker, Question, QuestionWish } from '../../wire/question.ts'
import type { Approvals } from '../approvals/approvals.ts'
import { agentFolders, perform, prepare, printedOf, sandboxOf, type CommandResult, type Prepared } from '../executor/executor.ts'
import type { RequestAuditEvent } from '../../audit/audit.ts'
import { isWithin } from '../sessions/real-path.ts'
import { denialOf } from './endings.ts'
import type { Ending, OpenRequest } from './request-book.ts'

/** One session, to a request of its agent. */
export type RequestPlace = {
  readonly asker: Asker
  /** As it is now. */
  readonly policy: () => Policy
  readonly surroundings: Surroundings
  /** What is looked for in all that is shown. */
  readonly secrets: () => readonly Secret[]
  /** Workspaces of other sessions: what lies there is an agent's too. */
  readonly others: () => readonly string[]
  /** @throws workspace_suspect when what the agent left there would decide what a program of the host does */
  readonly refuseSuspect: () => Promise<void>
}

export type HostRunParts = {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  readonly approvals: Pick<Approvals, 'ask' | 'consume' | 'finished'>
  /** The operator's own. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Resolves when it is written. */
  readonly audit: (event: RequestAuditEvent) => Promise<void>
  readonly system: System
}

/**
 * The story of a host command: what it is → what the policy says → what exactly would run → whoever has to be asked → run once → what it
 * printed. Each step may end it, and what could not be recorded is not done.
 */
export async function hostRun(
  parts: HostRunParts,
  place: RequestPlace,
  wish: AgentParams<'host.run'>,
  request: OpenRequest,
): Promise<Ending> {
  const report: Report = {}
  try {
    return await decidedRun(parts, place, wish, request, report)
  } catch (error) {
    report.code ??= codeOf(error)
    throw error
  } finally {
    // What did not run has its end too: for want of an answer as well.
    await parts.audit({
      event: 'command_finished',
      request: request.id,
      of: place.asker.session,
      ...(report.question !== undefined && { question: report.question }),
      ...(report.code !== undefined && { code: report.code }),
      ...(report.result?.exitCode !== undefined && { exit_code: report.result.exitCode }),
      ...(report.result?.signal !== undefined && { signal: report.result.signal }),
      ...printedOf(report.result),
      duration_ms: report.result?.durationMs ?? 0,
    })
  }
}

/** What the record of a command's end says, as far as it came. */
type Report = { question?: string; code?: string; result?: CommandResult }

async function decidedRun(
  parts: HostRunParts,
  place: RequestPlace,
  wish: AgentParams<'host.run'>,
  request: OpenRequest,
  report: Report,
): Promise<Ending> {
  const secrets = place.secrets()
  const first = await recorded(parts, place, request, await decideWish(place, wish, parts.system))
  await using looked = await prepareDecided(parts, place, first, secrets)
  // I48: only now is it known where the program lies. One that the agent could write is its own, by whatever name it was found.
  const isAgents = !first.decision.workspaceCode && (await isOfAgents(looked.subject.executable.path, place))
  const decided = isAgents ? await recorded(parts, place, request, decideAgain(place, first, parts.system)) : first
  await using again = isAgents ? await prepareDecided(parts, place, decided, secrets) : undefined
  const prepared = again ?? looked
  const { decision } = decided
  const isBare = decision.workspaceCode && prepared.subject.sandbox === 'none'
  const question = decision.action === 'ask' || isBare ? await approved(parts, place, { wish, decided, prepared }, request) : undefined
  if (question === undefined) return performed(prepared, secrets, request, report)
  report.question = question.id
  try {
    return await performed(prepared, secrets, request, report)
  } finally {
    const { code, result } = report
    await parts.approvals.finished(question.id, {
      ...(code && { code }),
      ...(result?.exitCode !== undefined && { exitCode: result.exitCode }),
    })
  }
}

/** @throws what the policy refuses it with; audit_unavailable */
async function recorded(parts: HostRunParts, { asker }: RequestPlace, request: OpenRequest, decided: Decided): Promise<Decided> {
  const { facts, decision } = decided
  await parts.audit({
    event: 'command_decided',
    request: request.id,
    of: asker.session,
    command: facts.text.slice(0, LIMITS.auditCommandCharsMax),
    decision: decision.action,
    ...(decision.code && { code: decision.code }),
    ...(decision.rule && { rule: decision.rule }),
    risk: facts.risk.level,
  })
  if (isRefusal(decision)) throw refusedBy(decision)
  return decided
}

/** @throws workspace_suspect, and what `prepare` throws */
async function prepareDecided(
  parts: HostRunParts,
  place: RequestPlace,
  { facts, decision, folder }: Decided,
  secrets: readonly Secret[],
): Promise<Prepared> {
  await place.refuseSuspect()
  const { workspace } = place.surroundings
  const prepared = await prepare(
    { argv: argvOf(facts), cwd: folder },
    { workspace, inContainer: CONTAINER_WORKSPACE, home: parts.home, environment: parts.env, others: place.others() },
    // I48: code of the workspace is the agent's own, and never runs with the operator's rights where that can be helped.
    {
      environment: decision.environment,
      known: facts.environment,
      sandbox: decision.workspaceCode && sandboxOf() !== 'none',
      secrets,
    },
    parts.system,
  )
  // A link that was put there since leads to a folder that nothing was decided about.
  if (prepared.subject.cwd.path === join(await realpath(workspace), folder)) return prepared
  await prepared[Symbol.asyncDispose]()
  throw new SallyportError('command_invalid', `the folder "${folder}" is another one than a moment ago`)
}

async function isOfAgents(file: string, { surroundings: { workspace }, others }: RequestPlace): Promise<boolean> {
  return (await agentFolders({ workspace, others: others() })).some((folder) => isWithin(folder, file))
}

/** What would become of it, without asking anybody. */
export async function hostRunCapability(
  place: RequestPlace,
  wish: AgentParams<'host.run_capability'>,
  system: Pick<System, 'now'>,
): Promise<AgentResult<'host.run_capability'>> {
  const { facts, decision } = await decideWish(place, wish, system)
  return {
    action: decision.action,
    why: decision.why,
    risk: facts.risk.level,
    ...(decision.rule && { rule: decision.rule }),
    ...(decision.nearMiss && { near_miss: decision.nearMiss }),
  }
}

export const CONTAINER_WORKSPACE = '/workspace'

/** What a command is, what becomes of it, and the folder that its links lead to, from the workspace's. */
type Decided = {
  readonly facts: CommandFacts
  readonly decision: HostCommandDecision
  readonly cwd: string
  readonly folder: string
}

/** @throws command_invalid */
async function decideWish(place: RequestPlace, wish: AgentParams<'host.run_capability'>, system: Pick<System, 'now'>): Promise<Decided> {
  const cwd = wish.cwd ?? CONTAINER_WORKSPACE
  const facts = await describeCommand(wish.argv === undefined ? { command: wish.command ?? '' } : { argv: wish.argv }, place.surroundings)
  const said = decideHostCommand(place.policy().effective.hostCommands, facts, cwd, system.now())
  if (isRefusal(said)) return { facts, decision: said, cwd, folder: '.' }
  const folder = await folderOf(cwd, place.surroundings.workspace)
  return { facts, cwd, folder, decision: decideIn(place, { facts, cwd, folder }, system) }
}

/** I43: By the folder that runs it: links in the workspace are the agent's. A denial of the folder as it is named holds too. */
function decideIn(
  place: RequestPlace,
  { facts, cwd, folder }: Omit<Decided, 'decision'>,
  system: Pick<System, 'now'>,
): HostCommandDecision {
  const { hostCommands } = place.policy().effective
  const said = decideHostCommand(hostCommands, facts, cwd, system.now())
  return isRefusal(said) ? said : decideHostCommand(hostCommands, facts, folder, system.now())
}

function decideAgain(place: RequestPlace, { cwd, folder, ...first }: Decided, system: Pick<System, 'now'>): Decided {
  const facts = { ...first.facts, runsWorkspaceCode: true }
  return { facts, cwd, folder, decision: decideIn(place, { facts, cwd, folder }, system) }
}

/** @throws command_invalid when there is none, or its links lead out of the workspace */
async function folderOf(cwd: string, workspace: string): Promise<string> {
  const inside = cwd === CONTAINER_WORKSPACE || cwd.startsWith(`${CONTAINER_WORKSPACE}/`) ? cwd.slice(CONTAINER_WORKSPACE.length + 1) : cwd
  try {
    const top = await realpath(workspace)
    const real = await realpath(join(top, inside))
    if (isWithin(top, real)) return relative(top, real) || '.'
  } catch (cause) {
    throw new SallyportError('command_invalid', `the folder "${shown(cwd)}" cannot be opened (${codeOf(cause)})`, { cause })
  }
  throw new SallyportError('command_invalid', `the folder "${shown(cwd)}" leads out of the workspace`)
}

function isRefusal({ action }: HostCommandDecision): boolean {
  return action === 'deny' || action === 'disabled'
}

/** What only a shell can run is run by one, and shown as that. */
function argvOf({ argv, hardened, text }: CommandFacts): readonly string[] {
  return hardened ?? argv ?? ['/bin/sh', '-c', text]
}

type Asked = {
  readonly wish: AgentParams<'host.run'>
  readonly decided: Decided
  readonly prepared: Prepared
}

/** @throws SallyportError approval_denied, approval_expired, approval_cancelled, approver_absent, command_not_allowed */
async function approved(parts: HostRunParts, place: RequestPlace, asked: Asked, request: OpenRequest): Promise<Question> {
  const outcome = await parts.approvals.ask(questionOf(place.asker, asked), request.signal)
  if (outcome.decision === 'deny') throw denialOf(outcome)
  // A denial that came meanwhile holds.
  const now = decideIn(place, asked.decided, parts.system)
  if (isRefusal(now)) throw refusedBy(now)
  await place.refuseSuspect()
  const { question } = outcome
  // I41: on the disk before anything runs: what was approved once runs at most once, also when this process ends here.
  if (!(await parts.approvals.consume(question.id, question.digest)))
    throw new SallyportError('approval_denied', 'the approval was used or taken back before')
  return question
}

function questionOf(asker: Asker, { wish, decided: { facts, decision }, prepared }: Asked): QuestionWish {
  return {
    asker,
    subject: prepared.subject,
    reason: wish.reason,
    risk: facts.risk,
    tier: decision.tier,
    ...(decision.rule && { rule: decision.rule }),
    ...(decision.nearMiss && { nearMiss: decision.nearMiss }),
    ...(decision.mayBeRemembered && facts.argv && { remember: { kind: 'host_command', rule: exactPattern(facts.argv) } }),
    expiresInMs: LIMITS.askExpiryMs,
  }
}

async function performed(prepared: Prepared, secrets: readonly Secret[], request: OpenRequest, report: Report): Promise<Ending> {
  request.running()
  try {
    const { signal } = request
    report.result = await perform(prepared, { secrets, onOutput: async (stream, chunk) => request.print(stream, chunk), signal })
    if (report.result.code !== undefined) report.code = report.result.code
    return viewOf(report.result)
  } catch (error) {
    report.code = codeOf(error)
    throw error
  }
}

function viewOf(result: CommandResult): Ending {
  const { code, exitCode, signal, stdout, stderr, truncated } = result
  return {
    status: code === 'command_cancelled' ? 'cancelled' : code === undefined ? 'done' : 'failed',
    ...(exitCode !== undefined && { exit_code: exitCode }),
    ...(signal !== undefined && { signal }),
    stdout,
    stderr,
    ...(truncated && { truncated }),
    ...(code !== undefined && { error: { code, message: result.why ?? ERRORS[code].means } }),
  }
}

function refusedBy({ code = 'command_not_allowed', why, rule }: HostCommandDecision): SallyportError {
  return new SallyportError(code, rule === undefined ? why : `${why}: ${rule}`)
}
