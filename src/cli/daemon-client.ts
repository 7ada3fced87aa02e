import { IncomingMessage, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { codeOf, ERRORS, SallyportError, type ErrorCode } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { shown } from '../kernel/shown.ts'
import { OPERATOR_HEADER } from '../wire/operator.ts'

/** A connection of its own, out of HTTP. */
export type Upgraded = { readonly socket: Duplex; readonly head: Buffer; readonly headers: IncomingHttpHeaders }

/** How long a call may take, and how much it may answer. */
export type Bounds = { readonly ms: number; readonly bytes: number }

type Method = 'GET' | 'POST' | 'DELETE'
type OnLine = (line: Readonly<Record<string, unknown>>) => void

/** @throws each: daemon_unavailable when nobody answers in time; what the daemon says (problem+json) with its code and hint */
export type DaemonClient = {
  /** One call to the daemon's API. Gives back its JSON, `undefined` for an empty answer. */
  request(method: Method, path: string, body?: unknown, bounds?: Bounds): Promise<unknown>
  /** A call that takes its time and answers in lines of JSON, each an object. Ends with them. @throws also what its last line says */
  follow(method: 'GET' | 'POST', path: string, body: unknown, onLine: OnLine, signal?: AbortSignal): Promise<void>
  /** The answer to a GET, whose body is not read yet. */
  read(path: string): Promise<IncomingMessage>
  /** RFC 9110 §7.8 */
  upgrade(path: string, protocol: string): Promise<Upgraded>
}

/**
 * Speaks to the daemon of this home, over its socket and no other way.
 * @param as what other operators see of who answers, as `terminal 4711`
 */
export function daemonClient(home: string, as?: string): DaemonClient {
  const socketPath = join(home, 'daemon.sock')
  const read = async (call: Call): Promise<IncomingMessage> => {
    const answer = await open(socketPath, { ...call, as })
    if (answer instanceof IncomingMessage && answer.statusCode === 200) return answer
    throw await refusalOf(socketPath, answer)
  }
  return {
    async request(method, path, body, { ms, bytes } = { ms: LIMITS.daemonRequestMs, bytes: LIMITS.daemonAnswerBytesMax }) {
      const text = await textOf(socketPath, await read({ method, path, body, signal: AbortSignal.timeout(ms) }), bytes)
      return text === '' ? undefined : parse(text, socketPath)
    },
    async follow(method, path, body, onLine, signal) {
      const response = await read({ method, path, body, ...(signal && { signal }) })
      try {
        for await (const text of linesOf(response)) {
          const line = parseQuietly(text)
          if (line['problem'] !== undefined) throw problemOf(line['problem'], 'the daemon gave no reason')
          onLine(line)
        }
      } catch (error) {
        throw error instanceof SallyportError ? error : unavailable(socketPath, error)
      }
    },
    read: (path) => read({ method: 'GET', path }),
    async upgrade(path, protocol) {
      const answer = await open(socketPath, { method: 'POST', path, protocol })
      if (answer instanceof IncomingMessage) throw await refusalOf(socketPath, answer)
      return answer
    },
  }
}

type Call = {
  readonly method: Method
  readonly as?: string | undefined
  readonly path: string
  readonly body?: unknown
  readonly protocol?: string
  readonly signal?: AbortSignal
}

/** Its head comes in time or not at all; how long what follows may take is its reader's. */
function open(socketPath: string, { method, path, body, protocol, signal, as }: Call): Promise<IncomingMessage | Upgraded> {
  const payload = body === undefined ? undefined : JSON.stringify(body)
  const headers = {
    host: 'sallyport',
    accept: 'application/json',
    ...(as !== undefined && { [OPERATOR_HEADER]: as }),
    ...(payload !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }),
    ...(protocol !== undefined && { connection: 'Upgrade', upgrade: protocol }),
  }
  return new Promise((resolve, reject) => {
    const request = httpRequest({ socketPath, method, path, headers, ...(signal && { signal }) })
    const late = setTimeout(() => request.destroy(new Error('no answer in time')), LIMITS.daemonRequestMs)
    if (signal) clearTimeout(late)
    request.on('error', (cause) => reject(unavailable(socketPath, cause)))
    request.on('close', () => clearTimeout(late))
    request.on('response', (response) => {
      clearTimeout(late)
      resolve(response)
    })
    request.on('upgrade', (response, socket, head) => {
      clearTimeout(late)
      resolve({ socket, head, headers: response.headers })
    })
    request.end(payload)
  })
}

async function refusalOf(socketPath: string, answer: IncomingMessage | Upgraded): Promise<SallyportError> {
  if (!(answer instanceof IncomingMessage)) {
    answer.socket.destroy()
    return unavailable(socketPath, new Error('the answer is another protocol'))
  }
  return problemOf(
    parseQuietly(await textOf(socketPath, answer, LIMITS.daemonProblemBytesMax)),
    `the daemon answered ${answer.statusCode ?? 0}`,
  )
}

/** What ends a line is LF alone: readline takes U+2028 for an end too, which may be in a text of an agent. */
async function* linesOf(response: IncomingMessage): AsyncGenerator<string, void> {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  for await (const piece of response as AsyncIterable<Buffer>) {
    const lines = (rest + decoder.write(piece)).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > LIMITS.daemonAnswerBytesMax) throw new Error(`a line is longer than ${LIMITS.daemonAnswerBytesMax} characters`)
    yield* lines
  }
  if (rest !== '') yield rest
}

async function textOf(socketPath: string, response: IncomingMessage, bytesMax: number): Promise<string> {
  const pieces: Buffer[] = []
  let length = 0
  try {
    for await (const piece of response as AsyncIterable<Buffer>) {
      length += piece.length
      if (length > bytesMax) throw new Error(`the answer is larger than ${bytesMax} bytes`)
      pieces.push(piece)
    }
  } catch (cause) {
    throw unavailable(socketPath, cause)
  }
  return Buffer.concat(pieces).toString('utf8')
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

/**
 * The error that a problem (RFC 9457) of the daemon stands for. A code of our table keeps its meaning and exit code; any other is a fault
 * of the daemon.
 * @param otherwise what is said when it says nothing
 */
export function problemOf(problem: unknown, otherwise: string): SallyportError {
  const said = recordOf(problem)
  const wordOf = (key: string): string | undefined => (typeof said[key] === 'string' && said[key] !== '' ? said[key] : undefined)
  const code = wordOf('code')
  const detail = wordOf('detail') ?? wordOf('title') ?? otherwise
  const hint = wordOf('hint')
  const options = hint === undefined ? {} : { hint }
  if (code !== undefined && Object.hasOwn(ERRORS, code)) return new SallyportError(code as ErrorCode, detail, options)
  return new SallyportError('internal', code === undefined ? detail : `${shown(code)}: ${detail}`, options)
}

function parseQuietly(text: string): Readonly<Record<string, unknown>> {
  try {
    return recordOf(JSON.parse(text))
  } catch {
    return {}
  }
}

function recordOf(data: unknown): Readonly<Record<string, unknown>> {
  return typeof data === 'object' && data !== null ? (data as Record<string, unknown>) : {}
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
