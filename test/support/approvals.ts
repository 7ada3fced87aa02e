import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuditEvent } from '../../src/audit/audit.ts'
import { openApprovals, type Approvals, type RememberDoor } from '../../src/controller/approvals/approvals.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system as realSystem, type System } from '../../src/kernel/system.ts'
import type {
  Answer,
  CommandSubject,
  PresenceEvidence,
  Question,
  QuestionEvent,
  QuestionWish,
  SecretSubject,
  UseSubject,
} from '../../src/wire/question.ts'
import { recordingLog, temporaryFolder } from './audit.ts'

export const SHA = 'a'.repeat(64)

export function commandSubject(argv: readonly string[] = ['gh', 'pr', 'view', '12'], more: Partial<CommandSubject> = {}): CommandSubject {
  return {
    kind: 'command',
    argv: [...argv],
    executable: { path: '/usr/bin/gh', device: '2049', inode: '9007199254740993', sizeBytes: 1_000, sha256: SHA },
    scripts: [],
    cwd: { path: '/home/op/project', device: '2049', inode: '77' },
    environment: { PATH: '/usr/bin:/bin', HOME: '/home/op' },
    secrets: [],
    sandbox: 'none',
    ...more,
  }
}

export function secretSubject(more: Partial<SecretSubject> = {}): SecretSubject {
  return {
    kind: 'secret',
    name: 'TOKEN',
    scope: 'session',
    source: 'vault:TOKEN',
    state: 'there',
    note: 'it is there; nobody has read it yet',
    lifeMs: LIMITS.handleSessionMs,
    workspace: '/home/op/project',
    ...more,
  }
}

export function useSubject(more: Partial<UseSubject> = {}): UseSubject {
  return {
    kind: 'secret_use',
    argv: ['psql', '-f', 'a.sql'],
    image: `sha256:${SHA}`,
    program: '/usr/bin/psql',
    environment: { URL: [{ text: 'postgres://u:' }, { secret: 'TOKEN' }, { text: '@db/x' }] },
    stdin: [{ secret: 'TOKEN' }],
    secrets: [{ name: 'TOKEN', source: 'vault:TOKEN' }],
    workspace: 'ro',
    cwd: '/workspace',
    files: [
      {
        argument: 2,
        prefix: '',
        path: '/workspace/a.sql',
        sizeBytes: 9,
        sha256: SHA,
        isExecutable: false,
        at: '/sallyport/pinned/0/a.sql',
      },
    ],
    ...more,
  }
}

export function wishOf(more: Partial<QuestionWish> & { session?: string } = {}): QuestionWish {
  const { session = 's-1', ...rest } = more
  return {
    asker: { session, sessionName: `name of ${session}`, workspace: '/home/op/project', agent: 'claude' },
    subject: commandSubject(),
    reason: 'to see the review',
    risk: { level: 'caution', reasons: ['it reads from the network'] },
    tier: 'T0',
    remember: { kind: 'host_command', rule: 'gh pr view 12' },
    expiresInMs: LIMITS.questionExpiryMs,
    ...rest,
  }
}

/** A clock that stands still until it is told to go on. Timers are real. */
export function standingClock(): System & { pass(ms: number): void } {
  let ms = 0
  return {
    now: () => 1_767_323_045_678 + ms,
    elapsed: () => 5_000 + ms,
    random: (bytes) => realSystem.random(bytes),
    pass: (more) => void (ms += more),
  }
}

export type Desk = AsyncDisposable & {
  readonly folder: string
  readonly file: string
  readonly approvals: Approvals
  readonly clock: ReturnType<typeof standingClock>
  readonly audited: AuditEvent[]
  readonly logged: ReturnType<typeof recordingLog>['lines']
  /** Workspaces whose rules were said to be others. */
  readonly changed: string[]
  /** Asks, lets time pass for whoever looks at it, and gives the question and what becomes of it. */
  ask(wish?: QuestionWish, signal?: AbortSignal): Promise<{ question: Question; outcome: ReturnType<Approvals['ask']> }>
  /** Another controller on the same file. */
  reopen(): Promise<void>
}

export type DeskOptions = {
  readonly file?: string
  readonly audit?: (event: AuditEvent) => Promise<void>
  readonly isWatched?: boolean
  readonly complaint?: RememberDoor['complaint']
}

export async function openDesk(options: DeskOptions = {}): Promise<Desk> {
  await using parts = new AsyncDisposableStack()
  const folder = parts.use(await temporaryFolder())
  await chmod(folder.path, 0o700)
  const file = options.file ?? join(folder.path, 'approvals.db')
  const clock = standingClock()
  const audited: AuditEvent[] = []
  const changed: string[] = []
  const logged = recordingLog()
  const watching = new AbortController()
  const open = async (): Promise<Approvals> => {
    const approvals = await openApprovals({
      file,
      audit: async (event) => {
        await options.audit?.(event)
        audited.push(event)
      },
      system: clock,
      log: logged.log,
      remember: {
        folder: join(folder.path, 'policies', 'remembered'),
        complaint: options.complaint ?? ((_kind, offered, rule) => (rule === offered ? undefined : 'it is another one')),
        changed: (workspace) => void changed.push(workspace),
      },
    })
    if (options.isWatched !== false) approvals.watch('terminal', watching.signal)
    return approvals
  }
  let approvals = await open()
  parts.defer(() => approvals[Symbol.asyncDispose]())
  parts.defer(() => watching.abort())
  const all = parts.move()
  return {
    folder: folder.path,
    file,
    get approvals() {
      return approvals
    },
    clock,
    audited,
    logged: logged.lines,
    changed,
    async ask(wish = wishOf(), signal = new AbortController().signal) {
      const asked = nextEvent(approvals, 'asked')
      const outcome = approvals.ask(wish, signal)
      const question = await Promise.race([asked, outcome.then(() => Promise.reject(new Error('it was not asked')))])
      clock.pass(LIMITS.debounceMs)
      return { question, outcome }
    },
    async reopen() {
      await approvals[Symbol.asyncDispose]()
      approvals = await open()
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** The next event of this kind. */
export async function nextEvent(approvals: Approvals, kind: QuestionEvent['kind']): Promise<Question> {
  const end = new AbortController()
  const events = approvals.watch('page', end.signal)
  for await (const event of events) {
    if (event.kind !== kind) continue
    end.abort()
    return event.question
  }
  throw new Error(`no event "${kind}"`)
}

export function evidenceFor(digest: string, tier: PresenceEvidence['tier'] = 'T0'): PresenceEvidence {
  return { tier, means: 'key', at: 1_767_323_045_000, digest }
}

export function allow(question: Pick<Question, 'digest'>, more: Partial<Answer> = {}): Answer {
  return { digest: question.digest, decision: 'allow', scope: 'once', ...more }
}

export function deny(question: Pick<Question, 'digest'>, more: Partial<Answer> = {}): Answer {
  return { digest: question.digest, decision: 'deny', scope: 'once', ...more }
}
