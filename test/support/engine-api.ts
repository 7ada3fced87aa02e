import { request } from 'node:http'

const SOCKET = '/var/run/docker.sock'

/** One call of the engine's API. @throws Error with what the engine said */
export function engine<T = unknown>(method: string, path: string, body?: unknown): Promise<T> {
  const text = body === undefined ? '' : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    const call = request({ socketPath: SOCKET, method, path: `/v1.41${path}`, headers }, (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () => {
        const said = Buffer.concat(chunks).toString()
        if ((answer.statusCode ?? 500) >= 400) return reject(new Error(`${method} ${path}: ${answer.statusCode} ${said}`))
        resolve((said === '' ? undefined : parse(said)) as T)
      })
    })
    call.on('error', reject)
    call.end(text)
  })
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
