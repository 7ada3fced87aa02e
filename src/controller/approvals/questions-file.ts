import type { DatabaseSync } from 'node:sqlite'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { Question, QuestionState } from '../../wire/question.ts'
import { guarded, openQuestionsDatabase } from './questions-database.ts'

/** A rule that the operator made of a question. */
export type RememberedRule = {
  readonly id: string
  readonly workspace: string
  readonly kind: 'host_command' | 'network'
  readonly rule: string
  /** Of the question that it was made of. */
  readonly question: string
  readonly createdAt: number
  readonly expiresAt: number
}

/** How a question ended. */
export type Settlement = {
  readonly state: Exclude<QuestionState, 'pending' | 'claimed'>
  readonly at: number
  readonly answer?: Question['answer']
  readonly note?: string
  /** What it becomes, where it is remembered. */
  readonly rule?: RememberedRule
}

/** What an earlier process left: what waited, what was approved and not used, what ran. */
export type LeftOver = { readonly waiting: Question[]; readonly unused: Question[]; readonly running: Question[] }

/** Every verb is on the disk when it returns, whole or not at all. @throws approvals_write_failed, approvals_invalid */
export type QuestionsFile = Disposable & {
  add(question: Question): void
  settle(id: string, settlement: Settlement): void
  /** Takes an answer back that could not be recorded elsewhere. */
  reopen(id: string): void
  /** True once for a question that is approved. */
  consume(id: string, digest: string, at: number): boolean
  finish(id: string, at: number, result: { readonly code?: string; readonly exitCode?: number }): void
  get(id: string): Question | undefined
  /** Those that are settled, the latest first. */
  recent(filter: { readonly session?: string; readonly limit: number }): Question[]
  leftOver(): LeftOver
  remember(rule: RememberedRule): void
  /** The rule that was there, or none. */
  forget(id: string): RememberedRule | undefined
  /** Of one workspace, or of all. */
  rules(workspace?: string): RememberedRule[]
  /** Those that ended before `now`, and were removed. */
  endRules(now: number): RememberedRule[]
}

const COLUMNS = 'id, state, record, answer, note, settled_at, consumed_at, finished_at, result'
const RULES = 'id, workspace, kind, rule, question, created_at, expires_at'
/** What is settled is looked over once in so many settlements. */
const PRUNE_EVERY = 64
const PRUNE = `DELETE FROM questions WHERE id IN (
  SELECT id FROM (
    SELECT id, row_number() OVER latest AS place, sum(length(record)) OVER latest AS bytes FROM questions
    WHERE settled_at IS NOT NULL AND (consumed_at IS NULL OR finished_at IS NOT NULL)
    WINDOW latest AS (ORDER BY settled_at DESC, rowid DESC)
  ) WHERE place > ? OR bytes > ?)`

/** Opens `file`, or makes it. @throws approvals_invalid, approvals_write_failed */
export function openQuestionsFile(file: string, system: Pick<System, 'random'>): QuestionsFile {
  const db = openQuestionsDatabase(file, system)
  const verbs = verbsOf(db)
  const guard =
    <A extends unknown[], T>(verb: (...values: A) => T) =>
    (...values: A): T =>
      guarded(file, () => verb(...values))
  return {
    add: guard(verbs.add),
    settle: guard(verbs.settle),
    reopen: guard(verbs.reopen),
    remember: guard(verbs.remember),
    forget: guard(verbs.forget),
    consume: guard(verbs.consume),
    finish: guard(verbs.finish),
    get: guard(verbs.get),
    recent: guard(verbs.recent),
    leftOver: guard(verbs.leftOver),
    rules: guard(verbs.rules),
    endRules: guard(verbs.endRules),
    [Symbol.dispose]: () => db.close(),
  }
}

function verbsOf(db: DatabaseSync): Omit<QuestionsFile, typeof Symbol.dispose> {
  const add = db.prepare('INSERT INTO questions (id, session, digest, state, record, created_at) VALUES (?, ?, ?, ?, ?, ?)')
  const settle = db.prepare('UPDATE questions SET state = ?, settled_at = ?, answer = ?, note = ? WHERE id = ? AND consumed_at IS NULL')
  const reopen = db.prepare(
    "UPDATE questions SET state = 'pending', settled_at = NULL, answer = NULL, note = NULL WHERE id = ? AND consumed_at IS NULL",
  )
  const consume = db.prepare(
    "UPDATE questions SET consumed_at = ? WHERE id = ? AND digest = ? AND state = 'approved' AND consumed_at IS NULL",
  )
  const finish = db.prepare(
    'UPDATE questions SET finished_at = ?, result = ? WHERE id = ? AND consumed_at IS NOT NULL AND finished_at IS NULL',
  )
  const get = db.prepare(`SELECT ${COLUMNS} FROM questions WHERE id = ?`)
  const recent = db.prepare(
    `SELECT ${COLUMNS} FROM questions WHERE settled_at IS NOT NULL AND (?1 IS NULL OR session = ?1) ORDER BY settled_at DESC, rowid DESC LIMIT ?2`,
  )
  const left = db.prepare(
    `SELECT ${COLUMNS} FROM questions WHERE finished_at IS NULL AND (state IN ('pending', 'approved') OR consumed_at IS NOT NULL) ORDER BY created_at, rowid`,
  )
  const prune = db.prepare(PRUNE)
  const addRule = db.prepare(`INSERT INTO remembered (${RULES}) VALUES (?, ?, ?, ?, ?, ?, ?)`)
  const rules = db.prepare(`SELECT ${RULES} FROM remembered WHERE ?1 IS NULL OR workspace = ?1 ORDER BY created_at, id`)
  const endRules = db.prepare(`DELETE FROM remembered WHERE expires_at <= ? RETURNING ${RULES}`)
  const dropRule = db.prepare(`DELETE FROM remembered WHERE id = ? RETURNING ${RULES}`)
  let settled = PRUNE_EVERY
  return {
    add: (it) => void add.run(it.id, it.asker.session, it.digest, it.state, JSON.stringify(it), it.createdAt),
    settle(id, { state, at, answer, note }) {
      settle.run(state, at, answer === undefined ? null : JSON.stringify(answer), note ?? null, id)
      if (++settled <= PRUNE_EVERY) return
      settled = 0
      prune.run(LIMITS.questionsKeptMax, LIMITS.questionsKeptBytesMax)
    },
    reopen: (id) => void reopen.run(id),
    remember: (it) => void addRule.run(it.id, it.workspace, it.kind, it.rule, it.question, it.createdAt, it.expiresAt),
    forget: (id) => dropRule.all(id).map(ruleOf)[0],
    consume: (id, digest, at) => consume.run(at, id, digest).changes === 1,
    finish: (id, at, { code, exitCode }) => void finish.run(at, JSON.stringify({ code, exitCode }), id),
    get: (id) => questionOf(get.get(id)),
    recent: ({ session, limit }) => recent.all(session ?? null, limit).flatMap((row) => questionOf(row) ?? []),
    leftOver() {
      const found = left.all().flatMap((row) => questionOf(row) ?? [])
      return {
        waiting: found.filter(({ state }) => state === 'pending'),
        unused: found.filter(({ state, run }) => state === 'approved' && run === undefined),
        running: found.filter(({ run }) => run !== undefined),
      }
    },
    rules: (workspace) => rules.all(workspace ?? null).map(ruleOf),
    endRules: (now) => endRules.all(now).map(ruleOf),
  }
}

function questionOf(row: Record<string, unknown> | undefined): Question | undefined {
  if (row === undefined) return undefined
  const { state, record, answer, note, settled_at: settledAt, consumed_at: startedAt, finished_at: finishedAt, result } = row
  const run = typeof startedAt === 'number' && {
    startedAt,
    ...(typeof finishedAt === 'number' && { finishedAt }),
    ...(typeof result === 'string' && (JSON.parse(result) as { code?: string; exitCode?: number })),
  }
  return {
    ...(JSON.parse(String(record)) as Question),
    state: String(state) as QuestionState,
    ...(typeof answer === 'string' && { answer: JSON.parse(answer) as NonNullable<Question['answer']> }),
    ...(typeof settledAt === 'number' && { settledAt }),
    ...(typeof note === 'string' && { note }),
    ...(run && { run }),
  }
}

function ruleOf(row: Record<string, unknown>): RememberedRule {
  return {
    id: String(row['id']),
    workspace: String(row['workspace']),
    kind: row['kind'] === 'network' ? 'network' : 'host_command',
    rule: String(row['rule']),
    question: String(row['question']),
    createdAt: Number(row['created_at']),
    expiresAt: Number(row['expires_at']),
  }
}
