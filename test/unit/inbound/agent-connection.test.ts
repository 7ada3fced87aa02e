import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { AgentConnection, type Service } from '../../../src/sidecar/inbound/agent-connection.ts'
import { eventually } from '../../support/eventually.ts'
import { bufferBytes } from '../../support/memory.ts'
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
