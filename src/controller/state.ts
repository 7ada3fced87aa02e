import { chmodSync, existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { System } from '../kernel/system.ts'

export type SessionState = 'starting' | 'running' | 'stopping' | 'ended' | 'failed'

/** What is recorded of a session. `step` is what is being done, or was when the controller died: recorded before it is done. */
export type StateRow = {
  readonly id: string
  readonly name: string
  readonly state: SessionState
  readonly step: string
  readonly createdAt: number
  readonly updatedAt: number
  /** As `save` was given it. */
  readonly record: unknown
}

/** What is remembered of a lease; the lease itself is not. */
export type LeaseRow = {
  readonly id: string
  readonly session: string
  readonly audience: 'sidecar' | 'agent'
  readonly workspace: string
  readonly role?: string
  readonly agent: string
  readonly state: 'live' | 'revoked' | 'ended'
}

/** The sessions of this home, in one file. What it says is on disk when a verb returns. */
export type StateFile = Disposable & {
  begin(row: { readonly id: string; readonly name: string; readonly step: string; readonly record: unknown }): void
  step(id: string, step: string): void
  save(id: string, record: unknown): void
  move(id: string, state: SessionState): void
  row(id: string): StateRow | undefined
  /** Those that have not ended, oldest first. */
  live(): StateRow[]
  /** The name of an id or a session's name, newest first. */
  find(idOrName: string): StateRow | undefined
  /** A lease is of a session while the session starts or runs, and nobody revoked it. */
  addLease(id: string, session: string, audience: 'sidecar' | 'agent'): void
  /** Those of sessions that are remembered, newest sessions first. */
  leases(): LeaseRow[]
  isLive(session: string, lease: string): boolean
  revokeLeases(session: string): void
  /** Whether its leases were revoked: whatever it was given since, nothing of it goes on. */
  isRevoked(session: string): boolean
}

const VERSION = 1
const LIVE = "('starting', 'running', 'stopping')"
const SCHEMA = `
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, step TEXT NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE TABLE leases (id TEXT PRIMARY KEY, session TEXT NOT NULL, audience TEXT NOT NULL, revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX leases_of ON leases (session);
PRAGMA user_version = ${VERSION};`

/**
 * Opens `file` (made with mode 0600 where it does not exist; its folder must).
 * @throws SallyportError state_invalid when it is damaged, no such file, or of a newer version
 */
export function openState(file: string, system: Pick<System, 'now'>): StateFile {
  const isNew = !existsSync(file)
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(file)
    if (isNew) chmodSync(file, 0o600)
    // A revocation must outlive a crash of the machine.
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000;')
    migrate(database, file)
    return verbs(database, system)
  } catch (cause) {
    database?.close()
    if (cause instanceof SallyportError) throw cause
    throw new SallyportError('state_invalid', `${file} cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`, {
      hint: 'move it away to begin anew; containers of its sessions are removed at the next start of the daemon',
      cause,
    })
  }
}

function migrate(database: DatabaseSync, file: string): void {
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number }
  if (version > VERSION)
    throw new SallyportError('state_invalid', `${file} is of version ${version}, which this Sallyport does not know`, {
      hint: 'use the newer one',
    })
  if (version === VERSION) {
    const { quick_check: found } = database.prepare('PRAGMA quick_check(1)').get() as { quick_check: string }
    if (found !== 'ok') throw new Error(found)
    return
  }
  database.exec(`BEGIN IMMEDIATE; ${SCHEMA} COMMIT;`)
}

function verbs(database: DatabaseSync, system: Pick<System, 'now'>): StateFile {
  const columns = 'id, name, state, step, created_at, updated_at, record'
  const insert = database.prepare(`INSERT INTO sessions (${columns}) VALUES (?, ?, 'starting', ?, ?, ?, ?)`)
  const step = database.prepare('UPDATE sessions SET step = ?, updated_at = ? WHERE id = ?')
  const save = database.prepare('UPDATE sessions SET record = ?, updated_at = ? WHERE id = ?')
  const move = database.prepare('UPDATE sessions SET state = ?, updated_at = ? WHERE id = ?')
  const row = database.prepare(`SELECT ${columns} FROM sessions WHERE id = ?`)
  const live = database.prepare(`SELECT ${columns} FROM sessions WHERE state IN ${LIVE} ORDER BY created_at, id`)
  const find = database.prepare(
    `SELECT ${columns} FROM sessions WHERE id = ?1 OR name = ?1 ORDER BY id = ?1 DESC, state IN ${LIVE} DESC, created_at DESC LIMIT 1`,
  )
  const forget = database.prepare(
    `DELETE FROM sessions WHERE state NOT IN ${LIVE} AND id NOT IN (SELECT id FROM sessions WHERE state NOT IN ${LIVE} ORDER BY updated_at DESC LIMIT ?)`,
  )
  const addLease = database.prepare('INSERT INTO leases (id, session, audience) VALUES (?, ?, ?)')
  const listLeases = database.prepare(
    'SELECT leases.id AS lease, session, audience, revoked, state, record FROM leases JOIN sessions ON sessions.id = leases.session ORDER BY created_at DESC, audience',
  )
  const isLive = database.prepare(
    "SELECT 1 FROM leases JOIN sessions ON sessions.id = leases.session WHERE leases.id = ? AND sessions.id = ? AND revoked = 0 AND state IN ('starting', 'running')",
  )
  const revoke = database.prepare('UPDATE leases SET revoked = 1 WHERE session = ?')
  const isRevoked = database.prepare('SELECT 1 FROM leases WHERE session = ? AND revoked = 1 LIMIT 1')
  const forgetLeases = database.prepare('DELETE FROM leases WHERE session NOT IN (SELECT id FROM sessions)')
  return {
    begin: (it) => void insert.run(it.id, it.name, it.step, system.now(), system.now(), JSON.stringify(it.record)),
    step: (id, name) => void step.run(name, system.now(), id),
    save: (id, record) => void save.run(JSON.stringify(record), system.now(), id),
    move(id, state) {
      move.run(state, system.now(), id)
      if (state !== 'ended' && state !== 'failed') return
      forget.run(LIMITS.sessionsEndedMax)
      forgetLeases.run()
    },
    row: (id) => rowOf(row.get(id)),
    live: () => live.all().flatMap((one) => rowOf(one) ?? []),
    find: (idOrName) => rowOf(find.get(idOrName)),
    addLease: (id, session, audience) => void addLease.run(id, session, audience),
    leases: () => listLeases.all().map(leaseOf),
    isLive: (session, lease) => isLive.get(lease, session) !== undefined,
    revokeLeases: (session) => void revoke.run(session),
    isRevoked: (session) => isRevoked.get(session) !== undefined,
    [Symbol.dispose]: () => database.close(),
  }
}

function leaseOf(found: Record<string, unknown>): LeaseRow {
  const { workspace, role, harness } = JSON.parse(String(found['record'])) as { workspace: string; role?: string; harness?: string }
  const isLive = found['state'] === 'starting' || found['state'] === 'running'
  return {
    id: String(found['lease']),
    session: String(found['session']),
    audience: found['audience'] === 'sidecar' ? 'sidecar' : 'agent',
    workspace,
    ...(role !== undefined && { role }),
    agent: found['audience'] === 'sidecar' ? 'sidecar' : (harness ?? 'agent'),
    state: found['revoked'] === 1 ? 'revoked' : isLive ? 'live' : 'ended',
  }
}

function rowOf(found: Record<string, unknown> | undefined): StateRow | undefined {
  if (found === undefined) return undefined
  return {
    id: String(found['id']),
    name: String(found['name']),
    state: String(found['state']) as SessionState,
    step: String(found['step']),
    createdAt: Number(found['created_at']),
    updatedAt: Number(found['updated_at']),
    record: JSON.parse(String(found['record'])) as unknown,
  }
}
