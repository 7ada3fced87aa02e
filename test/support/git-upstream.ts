import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { openServer, type Upstream } from './upstream.ts'

/** A git server on loopback: git's own http-backend behind TLS, for one user name and password. */
export function openGitUpstream(
  root: string,
  account: { username: string; password: string },
  tls: { cert: string; key: string },
): Promise<Upstream> {
  const expected = `Basic ${Buffer.from(`${account.username}:${account.password}`).toString('base64')}`
  return openServer((request, response) => {
    if (request.headers.authorization === expected) void serve(root, request, response)
    else response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
  }, tls)
}

async function serve(root: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path = '', query = ''] = (request.url ?? '').split('?')
  const backend = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_NOSYSTEM: '1',
      HOME: root,
      REQUEST_METHOD: request.method,
      PATH_INFO: decodeURIComponent(path),
      QUERY_STRING: query,
      REMOTE_USER: 'agent',
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      HTTP_GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  request.pipe(backend.stdin)
  backend.stdin.on('error', () => {})
  const chunks: Buffer[] = []
  backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  await once(backend, 'close')
  const answer = Buffer.concat(chunks)
  const end = answer.indexOf('\r\n\r\n')
  for (const line of answer.subarray(0, end).toString().split('\r\n')) {
    const [name = '', value = ''] = line.split(/: (.*)/)
    if (name.toLowerCase() === 'status') response.statusCode = Number(value.split(' ')[0])
    else response.setHeader(name, value)
  }
  response.end(answer.subarray(end + 4))
}
