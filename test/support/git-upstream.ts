import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { cleanEnvironment, runProgram } from './command.ts'
import { openServer, type Place, type Upstream } from './upstream.ts'

/** A git server on loopback: git's own http-backend behind TLS, for one user name and password. */
export function openGitUpstream(
  root: string,
  account: { username: string; password: string },
  tls: { cert: string; key: string },
  place?: Place,
): Promise<Upstream> {
  const expected = `Basic ${Buffer.from(`${account.username}:${account.password}`).toString('base64')}`
  return openServer(
    (request, response) => {
      if (request.headers.authorization === expected) void serve(root, request, response)
      else response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
    },
    tls,
    place,
  )
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

/** `acme/x.git`, bare, open for pushes, with a text and a blob of 2 MB. */
export async function makeGitRepository(root: string): Promise<void> {
  const bare = join(root, 'acme', 'x.git')
  const work = join(root, 'work')
  const clean = { ...cleanEnvironment(root), GIT_CONFIG_NOSYSTEM: '1' }
  const identity = ['-c', 'user.name=Owner', '-c', 'user.email=owner@example.com']
  for (const argv of [
    ['git', 'init', '-q', '--bare', '-b', 'main', bare],
    ['git', '-C', bare, 'config', 'http.receivepack', 'true'],
    ['git', 'init', '-q', '-b', 'main', work],
  ]) {
    assert.equal((await runProgram(argv, clean)).code, 0, argv.join(' '))
  }
  await writeFile(join(work, 'README'), 'hello\n')
  await writeFile(join(work, 'blob'), randomBytes(2_000_000))
  for (const argv of [
    ['git', '-C', work, 'add', '.'],
    ['git', '-C', work, ...identity, 'commit', '-q', '-m', 'first'],
    ['git', '-C', work, 'push', '-q', bare, 'main'],
  ]) {
    assert.equal((await runProgram(argv, clean)).code, 0, argv.join(' '))
  }
}
