import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { runCommand } from '../../support/command.ts'

type Seen = { readonly method: string; readonly url: string; readonly body: string }

/** A daemon's socket in a home of its own, which answers as it is told. */
async function daemonThat(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const home = mkdtempSync(join(tmpdir(), 'sallyport-lease-'))
  const seen: Seen[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece: Buffer) => (body += piece.toString()))
    request.on('end', () => {
      seen.push({ method: request.method ?? '', url: request.url ?? '', body })
      answer(request, response)
    })
  }).listen(join(home, 'daemon.sock'))
  await once(server, 'listening')
  return {
    env: { SALLYPORT_HOME: home },
    seen,
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
      rmSync(home, { recursive: true })
    },
  }
}

const problem = (response: ServerResponse, status: number, body: object): void =>
  void response.writeHead(status, { 'content-type': 'application/problem+json' }).end(JSON.stringify(body))

const ROW = { id: 'ab', session: 'aaaabbbbccccdddd', audience: 'agent', workspace: 'acme', agent: 'claude', state: 'live', createdAt: 1 }

test('lease ls prints the rows of the daemon, as text and as JSON', async () => {
  await using daemon = await daemonThat((_, response) => void response.end(JSON.stringify({ leases: [ROW] })))
  const text = await runCommand(['lease', 'ls'], daemon.env)
  assert.equal(text.code, 0)
  assert.match(text.stdout, /^ab {2}live +agent +aaaabbbbccccdddd {2}acme {2}claude\n$/)
  const json = await runCommand(['lease', 'ls', '--json'], daemon.env)
  assert.equal((JSON.parse(json.stdout) as { id: string }[])[0]?.id, 'ab')
  assert.deepEqual(daemon.seen[0], { method: 'GET', url: '/v1/leases', body: '' })
})

test('lease revoke and rotate-key ask the daemon for that, and an id is never a path of its own', async () => {
  await using daemon = await daemonThat((_, response) => void response.end('{}'))
  assert.equal((await runCommand(['lease', 'revoke', '../sessions/x?y'], daemon.env)).code, 0)
  assert.equal((await runCommand(['lease', 'rotate-key'], daemon.env)).code, 0)
  assert.equal((await runCommand(['lease', 'rotate-key', '--now'], daemon.env)).code, 0)
  assert.deepEqual(daemon.seen, [
    { method: 'POST', url: '/v1/leases/..%2Fsessions%2Fx%3Fy/revoke', body: '' },
    { method: 'POST', url: '/v1/leases/rotate-key', body: '{"now":false}' },
    { method: 'POST', url: '/v1/leases/rotate-key', body: '{"now":true}' },
  ])
})

test('without a daemon the answer is daemon_unavailable, with what to do', async () => {
  const { code, stderr } = await runCommand(['lease', 'ls'])
  assert.equal(code, 1)
  assert.match(stderr, /^daemon_unavailable: .*daemon\.sock: there is no daemon\nhint: start it: sallyport daemon\n$/)
})

test('what the daemon refuses comes with its own code, hint and exit code; a code that nobody knows is an internal fault', async () => {
  let answers = [
    (response: ServerResponse) => problem(response, 400, { code: 'usage', detail: 'there is no lease "x"', hint: 'sallyport lease ls' }),
    (response: ServerResponse) => problem(response, 500, { code: 'oops\u001b[31m', detail: 'broken' }),
    (response: ServerResponse) => void response.writeHead(502).end('<html>'),
    (response: ServerResponse) => void response.destroy(),
  ]
  await using daemon = await daemonThat((_, response) => {
    const [first, ...rest] = answers
    answers = rest
    first?.(response)
  })
  const run = async (): Promise<{ code: number | null; stderr: string }> => runCommand(['lease', 'revoke', 'x'], daemon.env)
  assert.deepEqual(await run().then(({ code, stderr }) => [code, stderr]), [2, 'usage: there is no lease "x"\nhint: sallyport lease ls\n'])
  assert.deepEqual(await run().then(({ code, stderr }) => [code, stderr]), [1, 'internal: oops?[31m: broken\n'])
  assert.deepEqual(await run().then(({ code, stderr }) => [code, stderr]), [1, 'internal: the daemon answered 502\n'])
  assert.match((await run()).stderr, /^daemon_unavailable: /)
})
