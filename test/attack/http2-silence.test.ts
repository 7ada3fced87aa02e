/** HTTP/2 from agents over time: what stays silent, or reads nothing, ends after its limit; what runs when the gate goes may end. */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { FLAG, PING, TYPE, frame, headers, isPong, settings, windowUpdate } from '../support/http2-frames.ts'
import { getOf, openFrameAgent, whole, type Towards } from '../support/http2-agent.ts'
import { openTestGate } from '../support/gate.ts'
import { API, openSetting, policyFor, type Setting, type SettingOptions } from '../support/setting.ts'
import { openHttp2Upstream } from '../support/http2-upstream.ts'
import { createUpstreamCa, leafFor } from '../support/upstream.ts'

// For this process.
Object.assign(LIMITS, { keepAliveMs: 300, bodyIdleMs: 600 })

async function open(answer?: SettingOptions['answer']): Promise<Setting & { to: Towards; get: [string, string][] }> {
  const setting = await openSetting(answer ? { answer } : {})
  const to = { port: setting.gate.port, host: API, targetPort: setting.secure.port, ca: setting.ca }
  return { ...setting, to, get: getOf(`${API}:${setting.secure.port}`) }
}

async function finishedOf(setting: Setting): Promise<Record<string, unknown>> {
  for (;;) {
    const found = (await setting.gate.audit()).find(({ event }) => event === 'finished')
    if (found) return found
  }
}

const SMALL_WINDOW = settings([[4, 10]])
const posted = (get: [string, string][]): [string, string][] => get.map(([name, value]) => [name, name === ':method' ? 'POST' : value])

test('a session without a stream is ended after its time, however often it pings', async () => {
  await using setting = await open()
  using agent = await openFrameAgent(setting.to)
  const pings = setInterval(() => agent.send(PING), 20)
  await agent.closed()
  clearInterval(pings)
  assert.ok(agent.frames.some(isPong))
})

test('a session that was served is ended after its time too', async () => {
  await using setting = await open()
  using agent = await openFrameAgent(setting.to)
  agent.send(whole(1, setting.get))
  await agent.until(({ type, flags }) => type === TYPE.DATA && (flags & FLAG.END_STREAM) !== 0)
  await agent.closed()
})

test('a session with a stream is kept for as long as the stream runs', async () => {
  const waiting = Promise.withResolvers<ServerResponse>()
  await using setting = await open((_request, response) => waiting.resolve(response))
  using idle = await openFrameAgent(setting.to)
  using agent = await openFrameAgent(setting.to)
  agent.send(whole(1, setting.get))
  const response = await waiting.promise
  await idle.closed() // its time is over, and so would be that of the other
  assert.equal(agent.isClosed, false)
  response.end('late')
  const { payload } = await agent.until(({ type }) => type === TYPE.DATA)
  assert.equal(payload.toString(), 'late')
})

test('an agent that opens no window for a long answer has it ended, and the upstream stops sending', async () => {
  let sent = 0
  await using setting = await open((_request, response) => {
    const chunk = Buffer.alloc(64 * 1024)
    const more = (): void => {
      while (!response.destroyed && response.write(chunk)) sent += chunk.length
    }
    response.on('drain', more)
    more()
  })
  using agent = await openFrameAgent(setting.to, SMALL_WINDOW)
  agent.send(whole(1, setting.get))
  const { stream } = await agent.until(({ type }) => type === TYPE.RST_STREAM || type === TYPE.GOAWAY)
  assert.equal(stream, 1)
  const { code } = await finishedOf(setting)
  assert.equal(code, 'upstream_timeout')
  assert.ok(sent < 32 * 1024 * 1024, `${sent} bytes were taken for an agent that reads nothing`)
  const taken = agent.frames.filter(({ type }) => type === TYPE.DATA).reduce((sum, { payload }) => sum + payload.length, 0)
  assert.ok(taken <= 10, `${taken} bytes came into a window of 10`)
})

test('an agent that opens no window for a short answer does not keep its session', async () => {
  await using setting = await open((_request, response) => void response.end('x'.repeat(1_000)))
  using agent = await openFrameAgent(setting.to, SMALL_WINDOW)
  agent.send(whole(1, setting.get))
  await agent.closed()
  assert.ok(agent.frames.some(({ type, stream }) => type === TYPE.RST_STREAM && stream === 1))
})

test('an agent that opens its window later gets the rest', async () => {
  await using setting = await open((_request, response) => void response.end('0123456789abcdef'))
  using agent = await openFrameAgent(setting.to, SMALL_WINDOW)
  agent.send(whole(1, setting.get))
  await agent.until(({ type }) => type === TYPE.DATA)
  agent.send(windowUpdate(1, 100))
  await agent.until(({ type, flags }) => type === TYPE.DATA && (flags & FLAG.END_STREAM) !== 0)
  const body = agent.frames.filter(({ type }) => type === TYPE.DATA).map(({ payload }) => payload.toString())
  assert.equal(body.join(''), '0123456789abcdef')
})

test('an upload that stops in the middle is ended, and never arrives whole', async () => {
  await using setting = await open(() => assert.fail('the body arrived whole'))
  using agent = await openFrameAgent(setting.to)
  agent.send(headers(1, posted(setting.get)), frame(TYPE.DATA, 0, 1, Buffer.from('half')))
  await agent.until(({ stream, type }) => stream === 1 && (type === TYPE.HEADERS || type === TYPE.RST_STREAM))
  const { code } = await finishedOf(setting)
  assert.equal(code, 'upstream_timeout')
})

test('at a drain the agent is told to open no more streams, those that run end well, and then the session', async () => {
  const waiting = Promise.withResolvers<ServerResponse>()
  await using setting = await open((_request, response) => waiting.resolve(response))
  using agent = await openFrameAgent(setting.to)
  agent.send(whole(1, setting.get))
  const response = await waiting.promise
  const drained = setting.gate.sidecar.drain()
  await agent.until(({ type }) => type === TYPE.GOAWAY)
  agent.send(whole(3, getOf(`${API}:${setting.secure.port}`, '/too-late')))
  response.end('in time')
  await agent.closed()
  await drained
  const goaway = agent.frames.find(({ type }) => type === TYPE.GOAWAY)
  assert.deepEqual([goaway?.payload.readUInt32BE(0), goaway?.payload.readUInt32BE(4)], [1, 0], 'the last stream, and no error')
  const body = agent.frames.filter(({ type }) => type === TYPE.DATA).map(({ payload }) => payload.toString())
  assert.equal(body.join(''), 'in time')
  assert.ok(setting.secure.requests.every(({ url }) => url !== '/too-late'))
})

test('a stream both ways that is silent for longer than an upload may be goes on: its upstream has begun to answer', async () => {
  await using authority = await createUpstreamCa()
  await using upstream = await openHttp2Upstream(leafFor(authority.authority, API), {
    protocols: ['h2'],
    answer: (_request, response) => {
      response.writeHead(200).flushHeaders()
      setTimeout(() => response.end('at last'), 2 * LIMITS.bodyIdleMs)
    },
  })
  await using gate = await openTestGate({
    policy: policyFor([upstream.port], { inject: '' }),
    hosts: { [API]: ['127.0.0.1'] },
    upstreamCa: [authority.file],
  })
  using agent = await openFrameAgent({ port: gate.port, host: API, targetPort: upstream.port, ca: await gate.caPem() })
  agent.send(headers(1, posted(getOf(`${API}:${upstream.port}`)), FLAG.END_HEADERS))
  const { payload } = await agent.until(({ type }) => type === TYPE.DATA)
  assert.equal(payload.toString(), 'at last')
})
