import { request as httpRequest, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { codeOf, ERRORS, SallyportError, type ErrorCode } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { shown } from '../kernel/shown.ts'

export type DaemonClient = {
  /**
   * One call to the daemon's API. Gives back its JSON, `undefined` for an empty answer.
   * @throws daemon_unavailable when nobody answers; what the daemon says (problem+json) with its code and hint
   */
  request(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown, signal?: AbortSignal): Promise<unknown>
}

/** Speaks to the daemon of this home, over its socket and no other way. */
export function daemonClient(home: string): DaemonClient {
  const socketPath = join(home, 'daemon.sock')
  return {
    async request(method, path, body, signal) {
      const limit = AbortSignal.timeout(LIMITS.daemonRequestMs)
      const answer = await send({ socketPath, method, path, body, signal: signal ? AbortSignal.any([signal, limit]) : limit })
      if (answer.status < 200 || answer.status > 299) throw problemOf(answer)
      return answer.text === '' ? undefined : parse(answer.text, socketPath)
    },
  }
}

type Call = { socketPath: string; method: string; path: string; body: unknown; signal: AbortSignal }
type Answer = { readonly status: number; readonly text: string }

function send({ socketPath, method, path, body, signal }: Call): Promise<Answer> {
  const payload = body === undefined ? undefined : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown): void => reject(unavailable(socketPath, cause))
    const request = httpRequest(
      {
        socketPath,
        method,
        path,
        signal,
        headers: {
          host: 'sallyport',
          accept: 'application/json',
          ...(payload !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }),
        },
      },
      (response) => void readAnswer(response).then(resolve, fail),
    )
    request.on('error', fail)
    request.end(payload)
  })
}

async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    length += piece.length
    if (length > LIMITS.daemonAnswerBytesMax) throw new Error(`the answer is larger than ${LIMITS.daemonAnswerBytesMax} bytes`)
    pieces.push(piece)
  }
  return { status: response.statusCode ?? 0, text: Buffer.concat(pieces).toString('utf8') }
}

function unavailable(socketPath: string, cause: unknown): SallyportError {
  const code = codeOf(cause)
  const why =
    code === 'ENOENT'
      ? 'there is no daemon'
      : code === 'ECONNREFUSED'
        ? 'the daemon that made it is gone'
        : cause instanceof Error
          ? cause.message
          : code
  return new SallyportError('daemon_unavailable', `${socketPath}: ${why}`, { hint: 'start it: sallyport daemon', cause })
}

/** RFC 9457. A code of our table keeps its meaning and exit code; any other is a fault of the daemon. */
function problemOf({ status, text }: Answer): SallyportError {
  const said = parseQuietly(text)
  const textOf = (key: string): string | undefined => (typeof said[key] === 'string' && said[key] !== '' ? said[key] : undefined)
  const code = textOf('code')
  const detail = textOf('detail') ?? textOf('title') ?? `the daemon answered ${status}`
  const hint = textOf('hint')
  const options = hint === undefined ? {} : { hint }
  if (code !== undefined && Object.hasOwn(ERRORS, code)) return new SallyportError(code as ErrorCode, detail, options)
  return new SallyportError('internal', code === undefined ? detail : `${shown(code)}: ${detail}`, options)
}

function parseQuietly(text: string): Readonly<Record<string, unknown>> {
  try {
    const data: unknown = JSON.parse(text)
    return typeof data === 'object' && data !== null ? (data as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function parse(text: string, socketPath: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new SallyportError('daemon_unavailable', `${socketPath}: the answer is not JSON`, {
      hint: 'is it a daemon of this version? end it and start it: sallyport daemon',
      cause,
    })
  }
}
