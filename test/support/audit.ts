import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openAudit, type Audit, type AuditEvent } from '../../src/audit/audit.ts'

/** 2026-01-02T03:04:05.678Z */
export const NOW = 1_767_323_045_678

export type Folder = AsyncDisposable & { readonly path: string }

export async function temporaryFolder(): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), 'sallyport-test-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

export type Logged = { readonly level: 'info' | 'warn' | 'error'; readonly fields: Record<string, unknown>; readonly message: string }

/** A log that keeps what it is told, and says when a message of a level comes. */
export function recordingLog() {
  const lines: Logged[] = []
  const waiting: { level: Logged['level']; resolve: () => void }[] = []
  const at =
    (level: Logged['level']) =>
    (fields: Record<string, unknown>, message: string): void => {
      lines.push({ level, fields, message })
      for (const { resolve } of waiting.filter((one) => one.level === level)) resolve()
    }
  return {
    lines,
    next: (level: Logged['level']): Promise<void> => new Promise((resolve) => void waiting.push({ level, resolve })),
    log: { info: at('info'), warn: at('warn'), error: at('error') } as Parameters<typeof openAudit>[2],
  }
}

export function decided(request: string, more: Partial<Extract<AuditEvent, { event: 'decided' }>> = {}): AuditEvent {
  return {
    event: 'decided',
    request,
    lane: 'connect',
    plane: 'agent',
    host: 'api.example.com',
    port: 443,
    decision: 'allow',
    rule: 'api',
    ...more,
  }
}

export function finished(request: string): AuditEvent {
  return { event: 'finished', request, status: 200, bytes_up: 1, bytes_down: 2, duration_ms: 3 }
}

export function openTestAudit(file: string, recorded = recordingLog()): Promise<Audit> {
  return openAudit({ file, session: 's-1' }, { now: () => NOW }, recorded.log)
}

/** The file's lines, parsed. */
export async function readEvents(file: string): Promise<Record<string, unknown>[]> {
  const text = await readFile(file, 'utf8')
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

/** Writes a valid file with so many events. */
export async function writeAudit(file: string, events: number): Promise<void> {
  await using audit = await openTestAudit(file)
  await Promise.all(Array.from({ length: events }, (_, n) => audit.append(decided(`r${n + 1}`))))
}
