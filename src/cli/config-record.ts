import { holdAudit } from '../controller/home.ts'
import { openOwnAudit } from '../controller/record/own-audit.ts'
import type { ConfigChange } from '../controller/record/vault-changes.ts'
import { SallyportError } from '../kernel/errors.ts'
import { system } from '../kernel/system.ts'
import { homeOf, type Io } from './command.ts'
import { daemonClient, type DaemonClient } from './daemon-client.ts'

/** The audit of this home, for a command that changes what holds for sessions. */
export type ConfigRecord = AsyncDisposable & {
  /** Resolves when they are recorded. @throws audit_unavailable: the change was made, and is not recorded */
  add(changes: readonly ConfigChange[]): Promise<void>
}

/**
 * Opened before the change is made: where it could not be recorded, it is not made. A daemon records it; without one the command does.
 * @throws audit_open_failed, audit_key_invalid, daemon_running when a daemon starts just now, and what a daemon refuses with
 */
export async function openConfigRecord(io: Io): Promise<ConfigRecord> {
  const home = homeOf(io.env)
  const daemon = daemonClient(home)
  return (await isAnswering(daemon)) ? recordByDaemon(daemon) : await recordAlone(home, io)
}

async function isAnswering(daemon: DaemonClient): Promise<boolean> {
  try {
    await daemon.request('GET', '/v1/status')
    return true
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'daemon_unavailable') return false
    throw error
  }
}

function recordByDaemon(daemon: DaemonClient): ConfigRecord {
  return {
    add: (changes) => named(() => daemon.request('POST', '/v1/audit/changes', { changes })),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

async function recordAlone(home: string, io: Io): Promise<ConfigRecord> {
  await using parts = new AsyncDisposableStack()
  parts.use(holdAudit(home))
  const say = (_fields: object, message: string): void => io.err(`${message}\n`)
  const log = { info: say, warn: say, error: say } as Parameters<typeof openOwnAudit>[2]
  const audit = parts.use(await openOwnAudit(home, system, log))
  const open = parts.move()
  return {
    add: (changes) => named(() => Promise.all(changes.map((change) => audit.append({ event: 'config_changed', ...change })))),
    [Symbol.asyncDispose]: () => open.disposeAsync(),
  }
}

async function named(step: () => Promise<unknown>): Promise<void> {
  try {
    await step()
  } catch (cause) {
    throw new SallyportError('audit_unavailable', `the change was made, and could not be recorded: ${String(cause)}`, {
      hint: 'make the audit writable again (sallyport audit verify), then make the change again',
      cause,
    })
  }
}
