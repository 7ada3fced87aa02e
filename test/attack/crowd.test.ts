/** As many connections as there may be, and a gate that is killed again and again: with a process of its own, at the limits that it ships with. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { verifyAudit } from '../../src/audit/audit.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { readEvents, temporaryFolder } from '../support/audit.ts'
import { startProxy } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { exchangeOn, exchangeRaw, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, CANARY, policyFor } from '../support/setting.ts'
import { openUpstream } from '../support/upstream.ts'

/** Sockets of this process, and of the gate's. */
const filesMax = Number(execFileSync('/bin/sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).replace('unlimited', 'Infinity'))
const skip = filesMax < LIMITS.connectionsMax + 1_000 && `a process may have ${filesMax} files open here`

async function dial(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

test(
  `${LIMITS.connectionsMax} connections that say nothing: those that are there are served, one more is refused, and the gate gets over it`,
  { skip },
  async () => {
    await using upstream = await openUpstream()
    await using proxy = await startProxy({ policy: policyFor([upstream.port], { inject: '' }), args: ['--resolve', `${API}=127.0.0.1`] })
    const host = `${API}:${upstream.port}`
    const request = `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
    const idle: Socket[] = []
    while (idle.length < LIMITS.connectionsMax) idle.push(...(await Promise.all(Array.from({ length: 500 }, () => dial(proxy.port)))))
    await eventually(async () => {
      const refused = await readToEnd(await dial(proxy.port))
      assert.ok(refused === '' || statusOf(refused) === 503, refused)
    })
    const [first, last] = [idle[0], idle.at(-1)]
    assert.ok(first && last)
    for (const socket of [first, last]) assert.equal(statusOf(await exchangeOn(socket, request)), 200)
    for (const socket of idle) socket.destroy()
    await eventually(async () => assert.equal(statusOf(await exchangeRaw(proxy.port, request)), 200))
  },
)

test('I3 I11 I15 a gate that is killed again and again while requests run: each start goes on with audit and authority, and nothing went out unrecorded', async () => {
  await using folder = await temporaryFolder()
  await using upstream = await openUpstream((_request, response) => void (response.writeHead(200), response.write('begun')))
  const audit = join(folder.path, 'audit.jsonl')
  const host = `${API}:${upstream.port}`
  const authorities = new Set<string>()
  const rounds = 4
  for (let round = 0; round < rounds; round++) {
    await using proxy = await startProxy({
      policy: policyFor([upstream.port], { rule: 'plaintext: accept' }),
      args: ['--audit', audit, '--ca-persist', join(folder.path, 'ca'), '--resolve', `${API}=127.0.0.1`],
      env: { API_TOKEN: CANARY },
    })
    authorities.add(await readFile(proxy.ready.ca, 'utf8'))
    const answers = Array.from({ length: 8 }, (_, n) =>
      exchangeRaw(proxy.port, `GET http://${host}/${round}-${n} HTTP/1.1\r\nHost: ${host}\r\n\r\n`),
    )
    await eventually(() => assert.equal(upstream.requests.filter(({ url }) => url.startsWith(`/${round}-`)).length, 8))
    await proxy.stop('SIGKILL')
    for (const answer of await Promise.all(answers)) assert.doesNotMatch(answer, new RegExp(CANARY))
    await assert.rejects(dial(proxy.port), { code: 'ECONNREFUSED' })
  }
  assert.equal(authorities.size, 1)
  await using last = await startProxy({ policy: policyFor([upstream.port], { inject: '' }), args: ['--audit', audit] })
  await last.stop('SIGTERM')
  const events = await readEvents(audit)
  const decided = new Set(events.flatMap(({ event, decision, path }) => (event === 'decided' && decision === 'allow' ? [path] : [])))
  for (const { url } of upstream.requests) assert.ok(decided.has(url), url)
  await verifyAudit(audit)
})
