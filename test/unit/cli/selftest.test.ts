import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { runCommand, type Ended } from '../../support/command.ts'
import { temporaryFolder } from '../../support/audit.ts'

const ROW = { id: 'dns', what: 'names', expected: 'NXDOMAIN', why: 'they carry data', ok: true, detail: 'by the gate' }

/** The command with a daemon that answers this. */
async function withDaemon(status: number, body: string, args: readonly string[]): Promise<Ended & { asked: string[] }> {
  await using folder = await temporaryFolder()
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    response.writeHead(status, { 'content-type': 'application/json' }).end(body)
  })
  server.listen(join(folder.path, 'daemon.sock'))
  await once(server, 'listening')
  const ended = await runCommand(['selftest', ...args], { SALLYPORT_HOME: folder.path })
  server.close()
  return { ...ended, asked }
}

test('all shut is 0, and the session that is meant is asked about', async () => {
  const { code, stdout, asked } = await withDaemon(200, JSON.stringify([ROW]), ['a/../b'])
  assert.equal(code, 0)
  assert.match(stdout, /✓ dns {2}by the gate/)
  assert.deepEqual(asked, ['POST /v1/sessions/a%2F..%2Fb/selftest'])
})

test('one open is 1, in the table and as JSON', async () => {
  const rows = [ROW, { ...ROW, id: 'ipv6', ok: false, detail: 'an address' }]
  const table = await withDaemon(200, JSON.stringify(rows), ['x'])
  assert.equal(table.code, 1)
  assert.match(table.stdout, /✗ ipv6 {2}an address[^]*1 of 2 open/)
  const json = await withDaemon(200, JSON.stringify(rows), ['x', '--json'])
  assert.equal(json.code, 1)
  assert.deepEqual(JSON.parse(json.stdout), rows)
})

for (const { what, status, body } of [
  { what: 'no rows', status: 200, body: '[]' },
  { what: 'something else', status: 200, body: '<html>' },
  { what: 'rows without an end', status: 200, body: `[${'{},'.repeat(100_000)}` },
  { what: 'a fault', status: 500, body: '' },
]) {
  test(`a daemon that answers with ${what} is a failure, never a pass`, async () => {
    const { code, stdout } = await withDaemon(status, body, ['x'])
    assert.equal(code, 1)
    assert.equal(stdout, '')
  })
}

test('what the daemon refuses with is passed on with its code and hint', async () => {
  const { code, stderr } = await withDaemon(409, JSON.stringify({ code: 'config_invalid', detail: 'no session "x"', hint: 'see ls' }), [
    'x',
  ])
  assert.equal(code, 2)
  assert.equal(stderr, 'config_invalid: no session "x"\nhint: see ls\n')
})

test('without a daemon it says so', async () => {
  const { code, stderr } = await runCommand(['selftest', 'x'])
  assert.equal(code, 1)
  assert.match(stderr, /^daemon_unavailable: [^]*hint: .*sallyport daemon/)
})
