import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { AgentConnection, type Service } from '../../../src/sidecar/inbound/agent-connection.ts'
import { eventually } from '../../support/eventually.ts'
import { bufferBytes } from '../../support/memory.ts'
import { readToEnd } from '../../support/raw-client.ts'
import { openSocketPair } from '../../support/socket-pair.ts'

test('a CONNECT that was handed over: its tunnel holds nothing of the HTTP connection, and a reset ends the socket and nothing else', async () => {
  await using sockets = await openSocketPair()
  sockets.server.removeAllListeners('error')
  const taken = handOver(sockets.server)
  sockets.client.write('CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n')
  const held = await taken
  await eventually(() => {
    bufferBytes() // collects garbage
    assert.ok(held.deref() === undefined, 'it is held')
  })
  const closed = new Promise((resolve) => sockets.server.once('close', resolve))
  sockets.server.resume()
  sockets.client.resetAndDestroy()
  await closed
  assert.equal(sockets.server.destroyed, true)
})

/** Serves the socket until a CONNECT takes it. In a function of its own: nothing of the test's refers to the connection. */
function handOver(socket: Socket): Promise<WeakRef<AgentConnection>> {
  return new Promise((resolve) => {
    const service: Service = {
      keepAliveLines: '',
      dateLine: () => '',
      elapsedMs: 0,
      handle() {},
      connect(_request, connection) {
        connection.release()
        resolve(new WeakRef(connection))
      },
      refuse() {},
      forget() {},
    }
    void new AgentConnection(socket, 'proxy', service)
  })
}

test('an agent that asks on and reads no answers loses its connection when its time is up, and not before', async () => {
  await using sockets = await openSocketPair()
  sockets.server.removeAllListeners('error')
  sockets.client.pause()
  let answers = 0
  const service: Service = {
    keepAliveLines: '',
    dateLine: () => '',
    elapsedMs: 0,
    handle(agent) {
      answers += 1
      agent.start(200, 'OK', ['content-length', String(PIECE.length)])
      agent.write(PIECE)
      agent.end([])
    },
    connect() {},
    refuse() {},
    forget() {},
  }
  const connection = new AgentConnection(sockets.server, 'proxy', service)
  let asked = 0
  // Until the socket takes no more and requests wait.
  while (answers === asked) {
    asked += 4
    sockets.client.write('GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n'.repeat(4))
    await eventually(() => assert.ok(answers === asked || sockets.server.isPaused()))
  }
  connection.expire(LIMITS.bodyIdleMs - 1)
  assert.equal(sockets.server.destroyed, false)
  connection.expire(2 * LIMITS.bodyIdleMs)
  assert.equal(sockets.server.destroyed, true)
})

const PIECE = Buffer.alloc(64 * 1024)

test('an agent that says what is no request and ends its side is told so all the same', async () => {
  await using sockets = await openSocketPair()
  const ended = new Promise((resolve) => sockets.server.once('end', resolve))
  const service: Service = {
    keepAliveLines: '',
    dateLine: () => '',
    elapsedMs: 0,
    handle() {},
    connect() {},
    // As the gate does: the refusal is recorded first, and by then the agent has ended its side.
    refuse: ({ socket }) => void ended.then(() => setImmediate(() => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))),
    forget() {},
  }
  void new AgentConnection(sockets.server, 'proxy', service)
  sockets.client.end('no request\r\n\r\n')
  assert.match(await readToEnd(sockets.client), /^HTTP\/1\.1 400 /)
})
