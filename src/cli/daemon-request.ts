import { request, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import * as z from 'zod'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'

const Problem = z.object({ code: z.string(), detail: z.string(), hint: z.string().optional() })

/**
 * One POST without a body to the daemon of this home, over its socket. Gives the JSON of the answer.
 * @throws daemon_unavailable, daemon_refused with what it answered
 */
export async function postToDaemon(home: string, path: string): Promise<unknown> {
  const socketPath = join(home, 'daemon.sock')
  let answer: { status: number; text: string }
  try {
    answer = await exchange(socketPath, path)
  } catch (cause) {
    const isAbsent = ['ENOENT', 'ECONNREFUSED'].includes(codeOf(cause))
    throw new SallyportError(
      'daemon_unavailable',
      `${socketPath}: ${isAbsent ? 'no daemon listens there' : `no answer (${codeOf(cause)})`}`,
      {
        hint: 'start it with "sallyport daemon"; sessions that it starts get what is in the vault then',
        cause,
      },
    )
  }
  const body = parseJson(answer.text)
  if (answer.status >= 200 && answer.status < 300) return body
  const problem = Problem.safeParse(body)
  const said = problem.success ? `${problem.data.code}: ${problem.data.detail}` : 'no reason was given'
  const hint = problem.data?.hint
  throw new SallyportError('daemon_refused', `the daemon answered ${answer.status}: ${said}`, hint === undefined ? {} : { hint })
}

async function exchange(socketPath: string, path: string): Promise<{ status: number; text: string }> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(
      {
        socketPath,
        path,
        method: 'POST',
        headers: { host: 'localhost', 'content-length': 0 },
        signal: AbortSignal.timeout(LIMITS.daemonAnswerMs),
        maxHeaderSize: LIMITS.headBytesMax,
      },
      resolve,
    )
      .on('error', reject)
      .end()
  })
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > LIMITS.daemonAnswerBytesMax) throw new Error('the answer is too long')
    chunks.push(chunk)
  }
  return { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
