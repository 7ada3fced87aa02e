/** Programs that know no proxy and speak neither HTTP nor TLS: by the host's own name, on its own port. I17 */
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import type { Answer, Question } from '../../src/sidecar/sidecar.ts'
import { askUdp, queryFor, readAnswer } from '../support/dns.ts'
import { eventually } from '../support/eventually.ts'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { openPostgres, psql } from '../support/postgres.ts'
import { readToEnd } from '../support/raw-client.ts'
import { openRawUpstream } from '../support/upstream.ts'

const DB = 'db.example.com'
const MAIL = 'mail.example.com'
const NETWORK = `127.${randomInt(16, 255)}.${randomInt(0, 255)}`
/** Addresses of this file's own: any port is free there, as in a container. */
const GATE = `${NETWORK}.250`
const ADDRESS: Readonly<Record<string, string>> = { [DB]: `${NETWORK}.1`, [MAIL]: `${NETWORK}.2` }

type RuleText = {
  readonly id?: string
  readonly host?: string
  readonly ports: readonly number[]
  readonly action?: string
  readonly more?: string
}

function policyWith(...rules: readonly RuleText[]): string {
  const lines = rules.map(
    ({ id = 'db', host = DB, ports, action = 'allow', more = ', protocol: tcp, addresses: ["127.0.0.0/8"]' }) =>
      `    - {id: ${id}, host: "${host}", ports: [${ports.join(', ')}], action: ${action}${more}}\n`,
  )
  return `version: 1\nnetwork:\n  rules:\n${lines.join('')}`
}

function openGate(policy: string, ask?: (question: Question) => Promise<Answer>): Promise<TestGate> {
  const at = { host: GATE, port: 0 }
  return openTestGate({
    policy,
    hosts: Object.fromEntries(Object.entries(ADDRESS).map(([host, address]) => [host, [address]])),
    config: {
      transparent: [
        { ...at, meant: 80 },
        { ...at, meant: 443 },
      ],
      dns: [at],
      socks: [at],
      ...(ask && { ask }),
    },
  })
}

async function dial(port: number): Promise<Socket> {
  const socket = connect(port, GATE)
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}

async function isRefused(port: number): Promise<void> {
  await assert.rejects(once(connect(port, GATE), 'connect'), { code: 'ECONNREFUSED' })
}

const decided = async (gate: TestGate): Promise<Record<string, unknown> | undefined> =>
  (await gate.audit()).findLast(({ event }) => event === 'decided')

test('I17 psql with a password gets to a PostgreSQL by its name and port, without a proxy', async () => {
  await using server = await openPostgres({ host: ADDRESS[DB] ?? '', port: 5432 })
  await using gate = await openGate(policyWith({ ports: [5432] }))
  const name = readAnswer(await askUdp(`${GATE}:${gate.ports.dns}`, queryFor(DB))).data[0]
  assert.equal(name, GATE)
  const { code, stdout, stderr } = await psql(server, `host=${DB} hostaddr=${GATE} port=5432`, 'select 6 * 7 as answer')
  assert.deepEqual([code, stdout], [0, '42\n'], stderr)
  const event = await decided(gate)
  assert.deepEqual(
    [event?.['lane'], event?.['host'], event?.['port'], event?.['rule'], event?.['note']],
    ['transparent', DB, 5432, 'db', 'tcp'],
  )
  const wrong = await psql({ ...server, password: 'wrong' }, `host=${DB} hostaddr=${GATE} port=5432`, 'select 1')
  assert.notEqual(wrong.code, 0)
  assert.match(wrong.stderr, /password authentication failed/)
  assert.ok(!(await gate.auditText()).includes(server.password) && !gate.log().includes(server.password))
})

test('I17 a server that speaks first is heard, and both directions carry bytes as they are', async () => {
  await using mail = await openRawUpstream(
    (socket) =>
      void socket
        .resume()
        .on('end', () => socket.end('bye'))
        .write('220 ready\r\n'),
    {
      host: ADDRESS[MAIL] ?? '',
      port: 2525,
    },
    true,
  )
  await using gate = await openGate(policyWith({ host: MAIL, ports: [2525] }))
  const socket = await dial(2525)
  assert.equal(String((await once(socket, 'data'))[0]), '220 ready\r\n')
  socket.end('\0\xff')
  assert.equal(await readToEnd(socket), 'bye')
  assert.equal(mail.connections, 1)
  assert.equal((await gate.audit()).findLast(({ event }) => event === 'finished')?.['bytes_down'], 14)
})

test('I21 a rule that asks lets the connection after the yes through, and none before it', async () => {
  const asked: { question: Question; answer: (answer: Answer) => void }[] = []
  await using db = await openRawUpstream((socket) => void socket.write('hello'), { host: ADDRESS[DB] ?? '', port: 5432 })
  await using gate = await openGate(policyWith({ ports: [5432], action: 'ask' }), (question) => {
    const { promise, resolve } = Promise.withResolvers<Answer>()
    asked.push({ question, answer: resolve })
    return promise
  })
  assert.equal(await readToEnd(await dial(5432)), '')
  assert.deepEqual([asked.length, asked[0]?.question.facts.host, asked[0]?.question.lane, db.connections], [1, DB, 'transparent', 0])
  asked[0]?.answer({ decision: 'allow', scope: 'once' })
  await eventually(async () => {
    const socket = await dial(5432)
    assert.equal(String((await Promise.race([once(socket, 'data'), once(socket, 'close')]))[0]), 'hello')
    socket.destroy()
  })
  assert.equal(db.connections, 1)
  assert.equal(await readToEnd(await dial(5432)), '')
  assert.equal(db.connections, 1)
  assert.equal((await decided(gate))?.['code'], 'approval_pending')
})

test('I18 ports follow a reload: what a policy adds is there, what it takes away is not, and what ran by it is cut', async () => {
  const answer = (socket: Socket): void => void socket.write('hello')
  await using db = await openRawUpstream(answer, { host: ADDRESS[DB] ?? '', port: 5432 })
  await using mail = await openRawUpstream(answer, { host: ADDRESS[MAIL] ?? '', port: 5433 })
  await using gate = await openGate(policyWith({ ports: [5432] }))
  await isRefused(5433)
  const running = await dial(5432)
  await once(running, 'data')
  await gate.setPolicy(policyWith({ id: 'mail', host: MAIL, ports: [5433] }))
  assert.equal(await readToEnd(running), '')
  await eventually(() => isRefused(5432))
  await eventually(async () => (await dial(5433)).destroy())
  assert.equal((await gate.audit()).find(({ event }) => event === 'finished')?.['code'], 'policy_changed')
  // Two hosts for one port: the one that runs goes on, since SOCKS could open it as well, and nobody new arrives.
  const kept = await dial(5433)
  await once(kept, 'data')
  await gate.setPolicy(policyWith({ id: 'mail', host: MAIL, ports: [5433] }, { ports: [5433] }))
  await eventually(() => isRefused(5433))
  assert.match(gate.log(), /rule \\"mail\\": rule \\"db\\" has port 5433 too, for db\.example\.com/)
  assert.equal(kept.destroyed, false)
  kept.destroy()
  assert.deepEqual([db.connections, mail.connections], [1, 2])
})

test('I4 I9 what is decided holds here too: a denial, a refused address, a name that leads to the gate itself', async () => {
  await using db = await openRawUpstream((socket) => void socket.write('hello'), { host: ADDRESS[DB] ?? '', port: 5432 })
  const deny = { id: 'never', host: '*.example.com', ports: [5433], action: 'deny', more: '' }
  await using gate = await openGate(policyWith({ ports: [5432, 5433], more: ', protocol: tcp' }, deny))
  await isRefused(5433)
  assert.equal(await readToEnd(await dial(5432)), '')
  assert.equal((await gate.audit()).findLast(({ event }) => event === 'finished')?.['code'], 'address_refused')
  assert.equal(db.connections, 0)
  await using circle = await openTestGate({
    policy: policyWith({ ports: [5434] }),
    hosts: { [DB]: [GATE] },
    config: {
      transparent: [
        { host: GATE, port: 0, meant: 80 },
        { host: GATE, port: 0, meant: 443 },
      ],
    },
  })
  assert.equal(await readToEnd(await dial(5434)), '')
  const ends = (await circle.audit()).filter(({ event }) => event === 'finished')
  assert.deepEqual(
    ends.map(({ code }) => code),
    ['address_refused'],
  )
})

test('a port that somebody else has is said in the log, and the others are open', async () => {
  await using taken = await openRawUpstream((socket) => socket.destroy(), { host: GATE, port: 5440 })
  await using db = await openRawUpstream((socket) => void socket.end('hello'), { host: ADDRESS[DB] ?? '', port: 5441 })
  await using gate = await openGate(policyWith({ ports: [5440, 5441] }))
  assert.equal(await readToEnd(await dial(5441)), 'hello')
  assert.match(gate.log(), /"port":5440,"code":"listen_failed"/)
  assert.deepEqual([taken.connections, db.connections], [0, 1])
})

test('I17 a SOCKS client that has resolved the name itself is led to the same host', async () => {
  await using db = await openRawUpstream((socket) => void socket.end('hello'), { host: ADDRESS[DB] ?? '', port: 5432 })
  await using gate = await openGate(policyWith({ ports: [5432] }))
  const socket = await dial(gate.ports.socks)
  socket.write(Buffer.of(5, 1, 0))
  await once(socket, 'data')
  socket.write(Buffer.from([5, 1, 0, 1, ...GATE.split('.').map(Number), 5432 >> 8, 5432 & 255]))
  assert.match(await readToEnd(socket), /hello$/)
  assert.equal(db.connections, 1)
  assert.deepEqual([(await decided(gate))?.['lane'], (await decided(gate))?.['host']], ['socks', DB])
})
