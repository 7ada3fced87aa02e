import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, test } from 'node:test'
import type { Host } from '../../src/controller/controller.ts'
import { addOperatorRoutes } from '../../src/controller/operator/operator-routes.ts'
import { openOperatorApi } from '../../src/controller/operator/operator.ts'
import { addSessionRoutes } from '../../src/controller/operator/session-routes.ts'
import { takeStreams } from '../../src/controller/operator/streams.ts'
import type { Providers } from '../../src/controller/providers/providers.ts'
import { createSessionSecrets } from '../../src/controller/session-secrets.ts'
import { createEventHub } from '../../src/controller/sessions/event-hub.ts'
import type { SessionEvent } from '../../src/controller/sessions/session-parts.ts'
import type { Sessions } from '../../src/controller/sessions/sessions.ts'
import { createLog } from '../../src/kernel/log.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { system } from '../../src/kernel/system.ts'
import type { Policy } from '../../src/policy/policy.ts'

const log = createLog('silent')
let folder: string
let path: string
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sallyport-operator-'))
  path = join(folder, 'daemon.sock')
})
after(() => rm(folder, { recursive: true }))

/** The routes without a session. */
function openApi(sessions: Partial<Sessions>): Promise<AsyncDisposable> {
  const whole = { list: () => [], ...sessions } as Sessions
  const secrets = () => []
  return openOperatorApi(
    path,
    (app) => addSessionRoutes(app, whole, secrets),
    takeStreams(whole, secrets, new AbortController().signal, log),
    log,
  )
}

async function answerTo(text: string): Promise<string> {
  const socket = connect(path)
  let answer = ''
  socket.setEncoding('latin1').on('data', (piece: string) => (answer += piece))
  socket.write(text)
  await once(socket, 'close')
  return answer
}

for (const place of ['%zz/exec', '%/attach', '%c3%28/forward/80', 'a/forward/99999999', '../../x/exec'])
  test(`a stream of ${place} is refused, and the daemon goes on`, async () => {
    await using _ = await openApi({
      forward: () => Promise.reject(new Error('never asked')),
      inspect: () => Promise.reject(new Error('never asked')),
    })
    const head = 'Host: x\r\nConnection: Upgrade\r\nUpgrade: sallyport-stream\r\n\r\n'
    assert.match(await answerTo(`POST /v1/sessions/${place} HTTP/1.1\r\n${head}`), /^HTTP\/1\.1 400 .*"code":"usage"/s)
    assert.match(await answerTo('GET /v1/sessions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'), /\r\n\r\n\[\]$/)
  })

test('what a session prints is looked through for its secrets also when its leases were revoked', async () => {
  const value = new Secret('TOKEN', 'revoked-and-still-worth-something')
  const grant = { name: 'TOKEN', source: { kind: 'env', variable: 'TOKEN' }, uses: ['inject'] }
  const policy = { secrets: [grant], credentials: [] } as unknown as Policy
  const providers = { get: async () => value, problem: () => undefined } as unknown as Providers
  const secrets = createSessionSecrets(providers, () => ({ policy, holder: {} }), system)
  await secrets.bundle('a', new AbortController().signal)
  const lease = { id: 'l', session: 'a', audience: 'agent', workspace: '/w', agent: 'agent', state: 'live' } as const
  const sessions = {
    list: () => [],
    revoke: async () => {},
    inspect: async () => ({ id: 'a' }),
    logs: () => Readable.from([Buffer.from(`it is ${value.reveal()}\n`)]),
  } as unknown as Sessions
  const host = {
    sessions,
    secrets,
    system,
    state: { leases: () => [lease], revokeLeases: () => {} },
    leases: { revoke: () => {} },
    audit: { append: async () => {} },
  } as unknown as Host
  const { signal } = new AbortController()
  await using _ = await openOperatorApi(
    path,
    (app) => addOperatorRoutes(app, host, signal, 'socket'),
    () => false,
    log,
  )
  const head = 'Host: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
  assert.match(await answerTo(`POST /v1/leases/a/revoke HTTP/1.1\r\n${head}`), /^HTTP\/1\.1 200/)
  const shown = await answerTo(`GET /v1/sessions/a/logs HTTP/1.1\r\n${head}`)
  assert.match(shown, /it is /)
  assert.doesNotMatch(shown, /worth/)
})

test('a client of the events that never reads holds back what it is told, and not the memory of the daemon', async () => {
  const hub = createEventHub<SessionEvent>()
  let taken = 0
  const event: SessionEvent = { at: 1, session: 'a'.repeat(16), name: 'x'.repeat(4_096), event: 'gate_lost' }
  async function* events(signal: AbortSignal) {
    for await (const one of hub.listen(signal)) {
      taken += 1
      yield one
    }
  }
  await using _ = await openApi({ events })
  const request = httpRequest({ socketPath: path, path: '/v1/events' })
  request.end()
  const [response] = await once(request, 'response')
  response.pause()
  const [many, perTurn] = [4_000, 100]
  for (let sent = 0; sent < many; sent += perTurn) {
    for (let i = 0; i < perTurn; i += 1) hub.emit(event)
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.ok(taken < many / 2, `${taken} of ${many} events were taken for a client that reads none`)
  response.on('error', () => {})
  request.destroy()
})
