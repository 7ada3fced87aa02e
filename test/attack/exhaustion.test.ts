/** One agent must not use up the gate for good: connections, memory, time, disk. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { LIMITS } from '../../src/kernel/limits.ts'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import { startProxy } from '../support/command.ts'
import { openTestGate } from '../support/gate.ts'
import { exchangeRaw, exchangeTls, openTunnel, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, openSetting, policyFor } from '../support/setting.ts'
import { openRawUpstream } from '../support/upstream.ts'

const sockets = (): number => process.getActiveResourcesInfo().filter((name) => /TCPSocketWrap|TLSWrap/.test(name)).length

/** Waits until the process holds no more sockets than before, or gives up. */
async function settled(before: number): Promise<number> {
  for (let attempt = 0; attempt < 600 && sockets() > before; attempt++) await new Promise((resolve) => setTimeout(resolve, 10))
  return sockets()
}

async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

test('a host of 60,000 dots is refused by its length, not looked at dot by dot', () => {
  const host = parseHostname(`${'.'.repeat(60_000)}a.`)
  assert.equal(isHostname(host) ? host : host.problem, 'it is longer than 253 characters')
})

for (const [why, leave] of [
  [
    'a refused CONNECT that sent one byte more and closed',
    async (port: number) => {
      const socket = await open(port)
      socket.write('CONNECT unknown.example.net:443 HTTP/1.1\r\nHost: unknown.example.net:443\r\n\r\nx')
      await once(socket, 'data')
      socket.destroy()
    },
  ],
  [
    'an allowed CONNECT that ended its side without a byte',
    async (port: number) => {
      const { socket } = await openTunnel(port, `${API}:443`)
      socket.end()
      socket.resume()
    },
  ],
  [
    'an allowed CONNECT that was reset',
    async (port: number) => {
      const { socket } = await openTunnel(port, `${API}:443`)
      socket.resetAndDestroy()
    },
  ],
  [
    'half a ClientHello',
    async (port: number) => {
      const { socket } = await openTunnel(port, `${API}:443`)
      socket.end('\x16\x03\x01\x02\x00\x01')
      socket.resume()
    },
  ],
  [
    'garbage on the proxy port',
    async (port: number) => {
      const socket = await open(port)
      socket.write('\x00\x01garbage\r\n\r\n')
      await once(socket, 'data')
      socket.destroy()
    },
  ],
] as const) {
  test(`${why} leaves no socket behind`, async () => {
    await using setting = await openSetting({ rules: `    - {id: https, host: ${API}, action: allow}\n` })
    const before = sockets()
    await Promise.all(Array.from({ length: 20 }, () => leave(setting.gate.port)))
    assert.ok((await settled(before)) <= before)
  })
}

test('CONNECT inside TLS, then a reset, leaves no socket behind', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  const before = sockets()
  for (let i = 0; i < 10; i++) {
    const tunnel = await openTunnel(gate.port, `${API}:${secure.port}`)
    const tls = connectTls({ socket: tunnel.socket, servername: API, ca })
    tls.on('error', () => {})
    await once(tls, 'secureConnect')
    tls.write('CONNECT x.example.net:1 HTTP/1.1\r\nHost: x.example.net:1\r\n\r\n')
    tunnel.socket.resetAndDestroy()
  }
  assert.ok((await settled(before)) <= before)
})

test('a connection with more unanswered requests than the limit is closed, and others go on', async () => {
  await using setting = await openSetting({ answer: () => {} })
  const { gate, plain } = setting
  const host = `${API}:${plain.port}`
  const answer = await exchangeRaw(gate.port, `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`.repeat(LIMITS.pipelinedMax + 1))
  assert.equal(answer, '')
  assert.ok(plain.requests.length <= LIMITS.pipelinedMax)
  assert.equal(statusOf(await exchangeRaw(gate.port, 'GET http://unknown.example.net/ HTTP/1.1\r\nHost: unknown.example.net\r\n\r\n')), 403)
})

test('a request that waits for an answer and then a CONNECT on the same connection: it is closed, the two never mix', async () => {
  await using setting = await openSetting({ answer: () => {} })
  const { gate, plain } = setting
  const host = `${API}:${plain.port}`
  const answer = await exchangeRaw(
    gate.port,
    `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\nCONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
  )
  assert.doesNotMatch(answer, /200/)
})

test('requests that wait their turn and then a CONNECT behind them: the upstream is let go of every one', async () => {
  await using setting = await openSetting({ answer: () => {} })
  const { gate, secure, ca } = setting
  const before = sockets()
  const host = `Host: ${API}:${secure.port}\r\n`
  for (let i = 0; i < 5; i++) {
    await exchangeTls(
      gate.port,
      API,
      secure.port,
      ca,
      `GET /1 HTTP/1.1\r\n${host}\r\nGET /2 HTTP/1.1\r\n${host}\r\nCONNECT a:1 HTTP/1.1\r\n${host}\r\n`,
    )
  }
  assert.ok((await settled(before)) <= before)
  await gate.sidecar[Symbol.asyncDispose]()
  const events = await gate.audit()
  const count = (event: string): number => events.filter((entry) => entry['event'] === event).length
  assert.equal(count('finished'), count('decided'))
})

test('an upstream that answers before it has the whole upload: the agent gets the answer, and the connection ends', async () => {
  await using early = await openRawUpstream((socket) => {
    socket.once('data', () => socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig'))
    socket.resume()
  })
  await using gate = await openTestGate({ policy: policyFor([early.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } })
  const socket = await open(gate.port)
  const host = `${API}:${early.port}`
  socket.write(`POST http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 50000000\r\n\r\n`)
  const more = Buffer.alloc(65_536)
  const pump = setInterval(() => socket.writable && socket.write(more), 5).unref()
  const answer = await readToEnd(socket)
  clearInterval(pump)
  assert.match(answer, /^HTTP\/1\.1 413 [^]*big$/)
})

test('SIGTERM ends the process while connections to the gateway and the proxy are open and silent', async () => {
  await using proxy = await startProxy({
    policy: `version: 1\nnetwork:\n  rules:\n    - {id: api, host: ${API}, action: allow}\n`,
    args: ['--gateway', '127.0.0.1:0'],
  })
  const gateway = await open(Number(proxy.ready.gateway?.split(':').at(-1)))
  const half = await open(Number(proxy.ready.gateway?.split(':').at(-1)))
  half.write('GET /healthz HTT')
  const idle = await open(proxy.port)
  const { code } = await proxy.stop('SIGTERM')
  assert.equal(code, 0)
  for (const socket of [gateway, half, idle]) socket.destroy()
})

test('many uploads on one connection that were answered early leave nothing on it', async () => {
  await using early = await openRawUpstream((socket) => {
    socket.on('data', () => socket.write('HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno'))
  })
  await using gate = await openTestGate({ policy: policyFor([early.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } })
  const warnings: string[] = []
  const onWarning = (warning: Error): void => void warnings.push(warning.name)
  process.on('warning', onWarning)
  const socket = await open(gate.port)
  const host = `${API}:${early.port}`
  for (let i = 0; i < 60; i++) {
    socket.write(`POST http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 2\r\n\r\ny`)
    let answer = ''
    while (!answer.endsWith('no')) answer += String((await once(socket, 'data'))[0])
    socket.write('x')
  }
  socket.destroy()
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', onWarning)
  assert.deepEqual(warnings, [], 'no MaxListenersExceededWarning')
})

test('a CONNECT right after an answer on the same connection is served, every time', async () => {
  await using setting = await openSetting()
  const { gate, plain } = setting
  const host = `${API}:${plain.port}`
  for (let i = 0; i < 30; i++) {
    const socket = await open(gate.port)
    socket.write(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    let answer = ''
    while (!answer.endsWith('0\r\n\r\n') && !answer.endsWith('ok')) answer += String((await once(socket, 'data'))[0])
    socket.write(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    assert.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 200 Connection/)
    socket.destroy()
  }
})

test('I10 a request behind one that is refused reaches nobody', async () => {
  await using setting = await openSetting()
  const { gate, plain } = setting
  const host = `${API}:${plain.port}`
  await exchangeRaw(
    gate.port,
    `GET http://unknown.example.net/ HTTP/1.1\r\nHost: unknown.example.net\r\n\r\nPOST http://${host}/second HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 0\r\n\r\n`,
  )
  assert.deepEqual(plain.requests, [])
})

test('I3 an expectation that nobody knows is no way around decision and audit', async () => {
  await using setting = await openSetting()
  const answer = await exchangeRaw(
    setting.gate.port,
    'GET http://unknown.example.net/ HTTP/1.1\r\nHost: unknown.example.net\r\nExpect: tea\r\n\r\n',
  )
  assert.equal(statusOf(answer), 403)
  assert.ok((await setting.gate.audit()).some((event) => event['code'] === 'host_not_allowed'))
})
