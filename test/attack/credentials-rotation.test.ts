/**
 * I18, I24: an answer may run for hours, and meanwhile the secrets of its host change: a value is first obtained, replaced, bound
 * anew. The upstream tells what other requests carried into an answer that began before them.
 */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Duplex } from 'node:stream'
import { system } from '../../src/kernel/system.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { dialPort } from '../support/every-way.ts'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { leakIn } from '../support/leaks.ts'
import { exchangeRaw, statusOf } from '../support/raw-client.ts'
import { API, OTHER, policyFor } from '../support/setting.ts'
import { openServer, type Upstream } from '../support/upstream.ts'

const FIRST = 'canary-first-19fa3c'
const SECOND = 'canary-second-7b20e8'

type Telling = AsyncDisposable & {
  readonly gate: TestGate
  readonly upstream: Upstream
  setValue(value: string): Promise<void>
  /** Lets the value that a command printed grow old. */
  age(): void
  policy(inject: string, source?: string, rule?: string): string
  /** An answer that never ends, what came of it so far, and how to wait for more. */
  listen(path?: string): Promise<{ text(): string; until(text: string): Promise<void>; readonly closed: Promise<unknown>; end(): void }>
  /** A request that carries the credential, and what the upstream told of it. */
  ask(host?: string): Promise<string>
}

const INJECT = `{domains: [${API}], paths: ["/api/**"], header: X-Api-Key}`

/** An upstream that tells on every answer of /events what the others' requests carried, and a gate before it. */
async function openTelling(inject = INJECT, kind: 'exec' | 'file' = 'exec'): Promise<Telling> {
  await using parts = new AsyncDisposableStack()
  const listening = new Set<ServerResponse>()
  let told = 0
  const upstream = parts.use(
    await openServer((request, response) => {
      request.resume()
      if (request.url?.startsWith('/events') === true) {
        listening.add(response)
        response.once('close', () => listening.delete(response))
        response.writeHead(200, { 'content-type': 'text/plain' }).write('begin. ')
        return
      }
      told += 1
      for (const other of listening) other.write(`<${String(request.headers['x-api-key'])} ${told}> .`)
      response.end('ok')
    }),
  )
  let skew = 0
  const gate = parts.use(
    await openTestGate({
      policy: policyFor([upstream.port], { inject: '' }),
      hosts: { [API]: ['127.0.0.1'], [OTHER]: ['127.0.0.1'] },
      system: { ...system, now: () => system.now() + skew },
    }),
  )
  const file = join(gate.folder, 'secret')
  const source = kind === 'exec' ? `exec:/bin/cat ${file}` : `file:${file}`
  const policy: Telling['policy'] = (more, from = source, rule = 'plaintext: accept') =>
    policyFor([upstream.port], { inject: more, source: from, rule })
  await writeFile(file, FIRST)
  if (inject !== '') assert.equal(await gate.setPolicy(policy(inject)), true)
  const all = parts.move()
  return {
    gate,
    upstream,
    policy,
    setValue: (value) => writeFile(file, value),
    age: () => void (skew += LIMITS.secretExecTtlMs + 1),
    async listen(path = '/events') {
      const socket = await dialPort(gate.port)
      const authority = `${API}:${upstream.port}`
      socket.write(`GET http://${authority}${path} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
      const reader = readerOf(socket)
      await reader.until('begin. ')
      return { ...reader, end: () => socket.destroy() }
    },
    async ask(host = API) {
      const authority = `${host}:${upstream.port}`
      const answer = await exchangeRaw(
        gate.port,
        `GET http://${authority}/api/x HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`,
      )
      assert.equal(statusOf(answer), 200)
      const raw = upstream.requests.at(-1)?.rawHeaders ?? []
      return raw[raw.findIndex((name) => name.toLowerCase() === 'x-api-key') + 1] ?? ''
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

function readerOf(socket: Duplex): { text(): string; until(text: string): Promise<void>; readonly closed: Promise<unknown> } {
  let came = ''
  let onMore: () => void = () => {}
  const closed = new Promise<void>((resolve) =>
    socket.once('close', () => {
      onMore()
      resolve()
    }),
  )
  socket.on('data', (chunk: Buffer) => {
    came += chunk.toString('latin1')
    onMore()
  })
  return {
    closed,
    text: () => came,
    async until(text) {
      while (!came.includes(text)) {
        assert.ok(!socket.destroyed, `it was closed before "${text}" came: ${came}`)
        await new Promise<void>((resolve) => (onMore = resolve))
      }
    },
  }
}

/** That so many tellings came since the first that it heard, and none had a secret. */
async function heard(listener: { text(): string; until(text: string): Promise<void> }, count: number): Promise<void> {
  await listener.until(`${count}> .`)
  for (const secret of [FIRST, SECOND]) assert.equal(leakIn(listener.text(), secret), undefined)
}

test('I24 an answer that began before its host’s secret was first obtained does not tell it', async () => {
  await using telling = await openTelling()
  const listener = await telling.listen()
  assert.equal(await telling.ask(), FIRST)
  await heard(listener, 1)
  listener.end()
})

test('I24 an answer that began before a command gave another value tells neither the one before nor the new one', async () => {
  await using telling = await openTelling()
  assert.equal(await telling.ask(), FIRST)
  const listener = await telling.listen()
  assert.equal(await telling.ask(), FIRST)
  await telling.setValue(SECOND)
  telling.age()
  assert.equal(await telling.ask(), SECOND)
  await heard(listener, 3)
  listener.end()
})

test('I24 an answer that began before a reload does not tell the value that came with it', async () => {
  await using telling = await openTelling(INJECT, 'file')
  const listener = await telling.listen()
  await telling.setValue(SECOND)
  assert.equal(await telling.gate.sidecar.reload(), true)
  assert.equal(await telling.ask(), SECOND)
  await heard(listener, 1)
  listener.end()
})

test('I24 what a credential was before a reload is not told after it, though its host has got another credential beside it', async () => {
  await using telling = await openTelling(INJECT, 'file')
  assert.equal(await telling.ask(), FIRST)
  await telling.setValue(SECOND)
  const both = telling
    .policy(INJECT)
    .replace('secrets:', `  - {id: more, secret: API_TOKEN, inject: {domains: [${API}], paths: ["/more/**"], header: X-More}}\nsecrets:`)
  assert.equal(await telling.gate.setPolicy(both), true)
  const authority = `${API}:${telling.upstream.port}`
  // The agent's own field stands for what the upstream remembers.
  const listener = await telling.listen()
  await exchangeRaw(
    telling.gate.port,
    `GET http://${authority}/x HTTP/1.1\r\nHost: ${authority}\r\nX-Api-Key: ${FIRST}\r\nConnection: close\r\n\r\n`,
  )
  await heard(listener, 2)
  listener.end()
})

test('I18 an answer of a host that a reload binds a first credential to ends: nobody has looked into it', async () => {
  await using telling = await openTelling('')
  const listener = await telling.listen()
  assert.equal(await telling.gate.setPolicy(telling.policy(INJECT)), true)
  await listener.closed
  assert.equal(await telling.ask(), FIRST)
  assert.equal(leakIn(listener.text(), FIRST), undefined)
})

test('I18 an answer that passes unread ends when a reload has its host’s answers looked into, or refused', async () => {
  await using telling = await openTelling()
  for (const [before, after] of [
    ['off', 'replace'],
    ['replace', 'block'],
  ]) {
    const rule = (scrub = ''): string => `plaintext: accept\nscrub: "${scrub}"`
    assert.equal(await telling.gate.setPolicy(telling.policy(INJECT, undefined, rule(before))), true)
    const listener = await telling.listen()
    assert.equal(await telling.gate.setPolicy(telling.policy(INJECT, undefined, rule(after))), true)
    await listener.closed
  }
})
