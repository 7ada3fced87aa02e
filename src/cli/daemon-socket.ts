import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { codeOf, ERRORS, SallyportError, type ErrorCode } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { StreamProblem } from '../wire/stream-frames.ts'
import { homeOf, type Io } from './command.ts'

/** A connection of its own, out of HTTP. */
export type Upgraded = { readonly socket: Duplex; readonly head: Buffer; readonly headers: IncomingHttpHeaders }

/** Where the daemon of `$SALLYPORT_HOME` listens. */
export function socketOf(env: Io['env']): string {
  return join(homeOf(env), 'daemon.sock')
}

/**
 * Asks the daemon for a connection (RFC 9110 §7.8).
 * @throws daemon_unavailable when it doesn't answer; else with the code that it refuses with
 */
export async function openUpgraded(env: Io['env'], path: string, protocol: string): Promise<Upgraded> {
  const asked = request({ socketPath: socketOf(env), method: 'POST', path, headers: { connection: 'Upgrade', upgrade: protocol } })
  return await new Promise((resolve, reject) => {
    asked.on('error', (cause) => reject(unavailable(env, cause)))
    asked.on('response', (answer) => void refusalOf(answer).then(reject, reject))
    asked.on('upgrade', (answer, socket, head) => resolve({ socket, head, headers: answer.headers }))
    asked.end()
  })
}

/** The answer to a GET, whose body is not read yet. @throws as `openUpgraded` */
export async function getFromDaemon(env: Io['env'], path: string): Promise<IncomingMessage> {
  const asked = request({ socketPath: socketOf(env), path })
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    asked.on('error', (cause) => reject(unavailable(env, cause)))
    asked.on('response', resolve)
    asked.end()
  })
  if (answer.statusCode !== 200) throw await refusalOf(answer)
  return answer
}

function unavailable(env: Io['env'], cause: unknown): SallyportError {
  return new SallyportError('daemon_unavailable', `${socketOf(env)}: ${codeOf(cause)}`, { hint: 'sallyport daemon starts it', cause })
}

/** The error that a problem+json (RFC 9457) of the daemon stands for. */
async function refusalOf(answer: IncomingMessage): Promise<SallyportError> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer) {
    bytes += (chunk as Buffer).length
    if (bytes > LIMITS.daemonProblemBytesMax) break
    chunks.push(chunk as Buffer)
  }
  let problem: unknown
  try {
    problem = JSON.parse(Buffer.concat(chunks).toString())
  } catch {
    problem = undefined
  }
  return problemError(problem, `the daemon answered ${answer.statusCode ?? 0}`)
}

/** @param otherwise what is said when it is no problem that can be read */
export function problemError(problem: unknown, otherwise: string): SallyportError {
  const { data } = StreamProblem.safeParse(problem)
  if (data === undefined) return new SallyportError('daemon_unavailable', otherwise)
  const code = Object.hasOwn(ERRORS, data.code) ? (data.code as ErrorCode) : 'daemon_unavailable'
  return new SallyportError(code, data.detail, data.hint === undefined ? {} : { hint: data.hint })
}
