import { codeOf, ERRORS, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import type { RequestAuditEvent } from '../../audit/audit.ts'
import type { Question, QuestionWish } from '../../wire/question.ts'
import type { Approvals } from '../approvals/approvals.ts'
import type { Providers } from '../providers/providers.ts'
import { printedOf } from '../executor/executor.ts'
import { denialOf } from '../requests/endings.ts'
import type { Ending, OpenRequest, RequestPlace } from '../requests/requests.ts'
import { checkWish, type Sessions, type SiblingWish } from '../sessions/sessions.ts'
import type { HandleBook } from './handle-book.ts'
import type { Held, HeldFiles } from './held-files.ts'
import type { KnownSecretParts } from './known-secret.ts'
import { openOutputFolder, type OutputFile } from './output-folder.ts'
import { prepareUse, secretsOf, type PreparedUse, type UseWish } from './prepared-use.ts'
import { runUse, type UseResult } from './run-use.ts'
import { withoutHandles } from './templates.ts'
import { valuesOf, type UseValues } from './use-values.ts'
import { withCopies } from './workspace-files.ts'

export type SecretUseParts = KnownSecretParts & {
  /** `$SALLYPORT_HOME` */
  readonly home: string
  readonly providers: Providers
  readonly approvals: Pick<Approvals, 'ask' | 'consume' | 'finished'>
  readonly handles: HandleBook
  readonly held: HeldFiles
  readonly siblings: Pick<Sessions, 'startSibling' | 'siblingImage'>
  /** A session that runs, as it is now. @throws session_not_running, session_revoked */
  readonly place: (session: string) => RequestPlace
  /** Resolves when it is written. */
  readonly audit: (event: RequestAuditEvent) => Promise<void>
  readonly system: System
}

/** What the record of its end says, as far as it came. */
type Report = { question?: string; code?: string; result?: UseResult; files?: readonly OutputFile[] }

/**
 * The story of a command with secrets: what exactly it is → what the operator says → the approval and the handles are used up → the values are had, at
 * this moment → it runs in a container of its own → what it left without a value in it. Each step may end it, and what could not be recorded is not done.
 */
export async function secretUse(parts: SecretUseParts, session: string, wish: UseWish, request: OpenRequest): Promise<Ending> {
  const report: Report = {}
  const begun = parts.system.elapsed()
  try {
    return await decidedUse(parts, session, wish, request, report)
  } catch (error) {
    report.code ??= codeOf(error)
    throw error
  } finally {
    const { question, code, result, files = [] } = report
    await parts.audit({
      event: 'use_finished',
      request: request.id,
      of: session,
      ...(question !== undefined && { question }),
      ...(code !== undefined && { code }),
      ...(result?.end && { exit_code: result.end.exitCode }),
      ...printedOf(result),
      files: files.filter(({ withheld }) => withheld === undefined).length,
      withheld: files.filter(({ withheld }) => withheld).length,
      duration_ms: Math.round(parts.system.elapsed() - begun),
    })
  }
}

async function decidedUse(parts: SecretUseParts, session: string, wish: UseWish, request: OpenRequest, report: Report): Promise<Ending> {
  const place = parts.place(session)
  using held = await recorded(parts, place, wish, request)
  const prepared = held.found
  const question = await approved(parts, place, prepared, wish, request)
  report.question = question.id
  try {
    return await performed(parts, session, prepared, request, report)
  } catch (error) {
    const ended = request.signal.aborted ? calledOff() : error
    report.code ??= codeOf(ended)
    throw ended
  } finally {
    const { code, result } = report
    await parts.approvals.finished(question.id, {
      ...(code !== undefined && { code }),
      ...(result?.end && { exitCode: result.end.exitCode }),
    })
  }
}

/** Before anybody is asked; a handle that is none is on record as well. */
async function recorded(parts: SecretUseParts, place: RequestPlace, wish: UseWish, request: OpenRequest): Promise<Held<PreparedUse>> {
  const record = (secrets: readonly string[], code?: string): Promise<void> =>
    parts.audit({
      event: 'use_decided',
      request: request.id,
      of: place.asker.session,
      command: withoutHandles(JSON.stringify(wish.argv)).slice(0, LIMITS.auditCommandCharsMax),
      secrets: secrets.join(','),
      decision: code === undefined ? 'ask' : 'deny',
      ...(code !== undefined && { code }),
    })
  const look = async (): Promise<PreparedUse> => {
    const prepared = await prepareUse({ ...parts, image: (session) => parts.siblings.siblingImage(session) }, place, wish)
    checkWish(wishOf(prepared, standIns(prepared), parts.home, request.id))
    return prepared
  }
  using stack = new DisposableStack()
  const held = await parts.held.hold(place.asker.session, look, request.signal).catch(async (error: unknown) => {
    const ended = request.signal.aborted ? calledOff() : error
    await record([], codeOf(ended))
    throw ended
  })
  stack.use(held)
  await record(held.found.subject.secrets.map(({ name }) => name))
  stack.move()
  return held
}

/** @throws approval_denied and its kin, handle_invalid, session_revoked */
async function approved(
  parts: SecretUseParts,
  place: RequestPlace,
  prepared: PreparedUse,
  wish: UseWish,
  request: OpenRequest,
): Promise<Question> {
  const outcome = await parts.approvals.ask(questionOf(place, prepared, wish), request.signal)
  if (outcome.decision === 'deny') throw denialOf(outcome)
  const { question } = outcome
  // I41: on the disk before anything runs.
  if (await parts.approvals.consume(question.id, question.digest)) return question
  throw new SallyportError('approval_denied', 'the approval was used or taken back before')
}

function questionOf(place: RequestPlace, { subject }: PreparedUse, { reason }: UseWish): QuestionWish {
  return {
    asker: place.asker,
    subject,
    reason,
    risk: {
      level: 'caution',
      reasons: [
        'the command has the values in clear, and may send them wherever the policy of the session lets it',
        ...(subject.workspace === 'ro' ? ['it may read files of the workspace that the agent can change'] : []),
      ],
    },
    tier: place.policy().effective.hostCommands.presence.caution.value,
    expiresInMs: LIMITS.askExpiryMs,
  }
}

async function performed(
  parts: SecretUseParts,
  session: string,
  prepared: PreparedUse,
  request: OpenRequest,
  report: Report,
): Promise<Ending> {
  const { signal } = request
  if (signal.aborted) throw calledOff()
  // What was revoked, taken back by the policy or used by another meanwhile is none; whatever happens from here on, they are used up.
  const place = parts.place(session)
  await stillThere(parts, place, prepared)
  parts.handles.take(session, [...prepared.secrets.keys()])
  request.running()
  const { workspace, role } = place.asker
  const values = await valuesOf(parts, prepared.templates, prepared.secrets, { workspace, ...(role !== undefined && { role }) }, signal)
  const searched = [...values.searched, ...place.secrets()]
  await using output = await openOutputFolder(parts.home, session, request.id)
  const started = await parts.siblings.startSibling(session, wishOf(prepared, values, output.folder, request.id), signal)
  await using sibling = started
  report.result = await runUse(parts, sibling, searched, request)
  const { code } = report.result
  if (code !== undefined) report.code = code
  if (code === 'command_cancelled') return endingOf(report.result, [])
  report.files = await output.release(searched, signal)
  return endingOf(report.result, report.files)
}

/** The policy may have changed while somebody thought about it. @throws handle_invalid */
async function stillThere(parts: SecretUseParts, place: RequestPlace, { subject, secrets }: PreparedUse): Promise<void> {
  const env = Object.fromEntries([...secrets.keys()].map((handle, at) => [`V${at}`, `\${${handle}}`]))
  await secretsOf(parts, place, { argv: subject.argv, env, reason: '', workspace: subject.workspace })
}

function calledOff(): SallyportError {
  return new SallyportError('command_cancelled', 'it was called off')
}

/** In the place of values that nobody has read yet. */
function standIns({ templates: { variables, stdin } }: PreparedUse): UseValues {
  const entries = Object.keys(variables).map((name) => [name, STAND_IN] as const)
  return { variables: Object.fromEntries(entries), ...(stdin && { stdin: STAND_IN }), searched: [] }
}

const STAND_IN = new Secret('a value', '-')

function wishOf({ subject, files, plain }: PreparedUse, values: UseValues, folder: string, id: string): SiblingWish {
  return {
    kind: 'use',
    label: id.slice(0, 16),
    argv: withCopies(subject.argv, files) as [string, ...string[]],
    folder: subject.cwd,
    environment: plain,
    values: values.variables,
    stdin: values.stdin ?? 'closed',
    workspace: subject.workspace,
    pinned: files.map(({ at, content, isExecutable }) => ({ target: at, content, executable: isExecutable })),
    output: { folder, bytesMax: LIMITS.useOutputBytesMax },
    // What was shown, also when the tag has moved since.
    image: subject.image,
  }
}

function endingOf({ end, stdout, stderr, truncated, code }: UseResult, files: readonly OutputFile[]): Ending {
  return {
    status: code === 'command_cancelled' ? 'cancelled' : code === undefined ? 'done' : 'failed',
    ...(end && { exit_code: end.exitCode }),
    stdout,
    stderr,
    ...(truncated && { truncated }),
    ...(files.length > 0 && { files: [...files] }),
    ...(code !== undefined && { error: { code, message: ERRORS[code].means } }),
  }
}
