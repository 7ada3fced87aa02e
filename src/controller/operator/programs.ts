import type { Secret } from '../../kernel/secret.ts'
import type { AttachRequest, ExecRequest } from '../../wire/stream-frames.ts'
import type { EngineStream } from '../sessions/engine.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { createRedaction } from '../terminal/redacted.ts'
import { shownOn, type ClientStream, type Served, type ServedStream } from '../terminal/serve-stream.ts'

/** The programs of one session, for whoever carries their frames to an operator. */
export type Programs = {
  readonly session: string
  /** Its own program has a terminal. */
  readonly tty: boolean
  /** Starts one beside it. The client is told why not. */
  exec(wanted: ExecRequest, client: ClientStream, signal: AbortSignal): Promise<Served>
  /** @throws session_not_running and its kin, before anything is said to a client */
  attach(): Promise<Attached>
}

export type Attached = Disposable & {
  serve(wanted: AttachRequest, client: ClientStream, signal: AbortSignal): Promise<Served>
}

/**
 * What a program prints is looked through for the session's secrets, and filtered where a terminal shows it: the same for each surface.
 * @throws session_not_found
 */
export async function programsOf(
  sessions: Sessions,
  secretsOf: (session: string) => readonly Secret[],
  session: string,
): Promise<Programs> {
  const { id, asked } = await sessions.inspect(session)
  const tty = asked.agent?.Tty === true
  const redaction = createRedaction(() => secretsOf(id))
  return {
    session: id,
    tty,
    async exec({ argv, tty: ownTerminal, terminal, size }, client, signal) {
      let opened: EngineStream
      try {
        opened = await sessions.exec(id, argv, { tty: ownTerminal, ...(size && { size }) })
      } catch (error) {
        client.refuse(error)
        return 'lost'
      }
      const shown = { stdout: shownOn(terminal.stdout, ownTerminal), stderr: shownOn(terminal.stderr, false) }
      return await client.serve(served(opened), { redaction, ...shown, size, isRedrawn: false, signal })
    },
    async attach() {
      const stream = await sessions.attach(id, { replay: !tty })
      return {
        async serve({ terminal, size }, client, signal) {
          const shown = { stdout: shownOn(terminal.stdout, tty), stderr: shownOn(terminal.stderr, false) }
          const program = served(stream, () => sessions.wait(id, signal))
          return await client.serve(program, { redaction, ...shown, size, isRedrawn: tty, signal })
        },
        [Symbol.dispose]: () => void stream.stream.destroy(),
      }
    },
  }
}

function served(program: EngineStream, codeOfAgent?: () => Promise<number>): ServedStream {
  const { stream, stderr } = program
  return { stream, ...(stderr && { stderr }), resize: (size) => program.resize(size), exitCode: codeOfAgent ?? (() => program.exitCode()) }
}
