import { request as httpRequest, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { codeOf, ERRORS, SallyportError, type ErrorCode } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { shown } from '../kernel/shown.ts'

export type DaemonClient = {
  /**
   * One call to the daemon's API. Gives back its JSON, `undefined` for an empty answer.
   * @throws daemon_unavailable when nobody answers; what the daemon says (problem+json) with its code and hint
   */
  request(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown, signal?: AbortSignal): Promise<unknown>
  /** A call that takes its time and answers in lines of JSON, each an object. Ends with them. @throws the same; what its last line says */
  follow(method: 'GET' | 'POST', path: string, body: unknown, onLine: (line: Readonly<Record<string, unknown>>) => void): Promise<void>
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
    async follow(method, path, body, onLine) {
      const response = await open({ socketPath, method, path, body })
      if (response.statusCode !== 200) throw problemOf(await readAnswer(response))
      try {
        for await (const text of createInterface({ input: response })) {
          const line = parseQuietly(text)
          if (line['problem'] !== undefined) throw problemOf({ status: 500, text: JSON.stringify(line['problem']) })
          onLine(line)
        }
      } catch (error) {
        throw error instanceof SallyportError ? error : unavailable(socketPath, error)
      }
    },
  }
}

type Call = { socketPath: string; method: string; path: string; body: unknown; signal?: AbortSignal }
type Answer = { readonly status: number; readonly text: string }

async function send(call: Call): Promise<Answer> {
  const response = await open(call)
  return readAnswer(response).catch((cause: unknown) => {
    throw unavailable(call.socketPath, cause)
  })
}

function open({ socketPath, method, path, body, signal }: Call): Promise<IncomingMessage> {
  const payload = body === undefined ? undefined : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        socketPath,
        method,
        path,
        ...(signal && { signal }),
        headers: {
          host: 'sallyport',
          accept: 'application/json',
          ...(payload !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }),
        },
      },
      resolve,
    )
    request.on('error', (cause) => reject(unavailable(socketPath, cause)))
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
