import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import { createJointRedaction, type StreamName } from './joint-redaction.ts'
import { KeptOutput } from './kept-output.ts'
import { createSpill } from './spill.ts'

export type OutputOptions = {
  readonly secrets: readonly Secret[]
  /** Kept of each stream. */
  readonly bytesMax: number
  readonly onOutput: (stream: StreamName, chunk: Buffer) => Promise<void>
  readonly home: string
  readonly system: Pick<System, 'random'>
}

/**
 * What a command prints, on its way: redacted first, and only then shown, cut and kept. One chunk at a time, of both streams: while a reader or
 * the disk is slow, nothing more is read, and the command waits.
 */
export function collect({ secrets, bytesMax, onOutput, home, system }: OutputOptions) {
  const redaction = createJointRedaction(secrets)
  const kept = { stdout: new KeptOutput(bytesMax), stderr: new KeptOutput(bytesMax) }
  const digests = { stdout: createHash('sha256'), stderr: createHash('sha256') }
  const spill = createSpill(home, system)
  const left = Promise.withResolvers<void>()
  let hasReader = true
  let turn: Promise<void> = Promise.resolve()

  const leaveReader = (): void => {
    hasReader = false
    left.resolve()
  }
  const show = async (name: StreamName, bytes: Buffer): Promise<void> => {
    if (!hasReader) return
    const late = new AbortController()
    const given = onOutput(name, Buffer.from(bytes)).then(
      () => true,
      () => false,
    )
    const patience = delay(LIMITS.commandReaderMs, false, { signal: late.signal }).catch(() => false)
    const took = await Promise.race([given, patience, left.promise])
    late.abort()
    if (took === false) leaveReader()
  }
  const pass = async (pieces: Readonly<Record<StreamName, Buffer>>): Promise<void> => {
    for (const name of ['stdout', 'stderr'] as const) {
      const bytes = pieces[name]
      if (bytes.length === 0) continue
      kept[name].push(bytes)
      digests[name].update(bytes)
      await spill.write(bytes)
      await show(name, bytes)
    }
  }
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    turn = turn.then(work)
    return turn
  }
  return {
    leaveReader,
    /** Reads a stream to its end, or to where it was closed. */
    async read(name: StreamName, stream: Readable | null): Promise<void> {
      if (stream === null) return
      try {
        for await (const chunk of stream as AsyncIterable<Buffer>) await inTurn(() => pass(redaction.push(name, chunk)))
      } catch {
        // It was closed: what left the group of the command still has the other end.
      }
    },
    async end() {
      await inTurn(() => pass(redaction.end()))
      const truncated = kept.stdout.isTruncated || kept.stderr.isTruncated
      const file = await spill.end(truncated)
      return {
        stdout: kept.stdout.end(),
        stderr: kept.stderr.end(),
        bytes: { stdout: kept.stdout.bytes, stderr: kept.stderr.bytes },
        sha256: { stdout: digests.stdout.digest('hex'), stderr: digests.stderr.digest('hex') },
        truncated,
        ...(file === undefined ? {} : { spill: file }),
      }
    },
  }
}

/** What the audit says of what a command printed: how much, and the digest of each stream that had something. */
export function printedOf(
  result: { readonly bytes: Readonly<Record<StreamName, number>>; readonly sha256?: Readonly<Record<StreamName, string>> } | undefined,
): { readonly bytes: number; readonly stdout_sha256?: string; readonly stderr_sha256?: string } {
  const { bytes = { stdout: 0, stderr: 0 }, sha256 } = result ?? {}
  return {
    bytes: bytes.stdout + bytes.stderr,
    ...(sha256 && bytes.stdout > 0 && { stdout_sha256: sha256.stdout }),
    ...(sha256 && bytes.stderr > 0 && { stderr_sha256: sha256.stderr }),
  }
}
