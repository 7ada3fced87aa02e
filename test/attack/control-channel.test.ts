/** What a stranger, a hostile sidecar or a replaced folder does to the control socket of a session. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, rename, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { duplexPair } from 'node:stream'
import { test } from 'node:test'
import { pino } from 'pino'
import { proofOf } from '../../src/channel/channel.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { system } from '../../src/kernel/system.ts'
import { openLink } from '../../src/sidecar/link.ts'
import { createTestSession, openTestController, SESSION, SIDECAR_LEASE, type TestController, type TestSession } from '../support/control.ts'
import { eventually } from '../support/eventually.ts'
import { framed, HELLO, openProvenPeer, openRawPeer, requestOf, type RawFrame } from '../support/raw-peer.ts'

const CANARY = 'canary-7f3a9c5e1b-42'
const MEGABYTE = 1024 * 1024

type Setting = AsyncDisposable & { readonly session: TestSession; readonly controller: TestController; readonly dir: string }

async function openSession(change: Parameters<typeof createTestSession>[1] = {}): Promise<Setting> {
  const session = await createTestSession({ TOKEN: CANARY }, change)
  const controller = await openTestController(session)
  return {
    session,
    controller,
    dir: session.socketDir,
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]()
      await session[Symbol.asyncDispose]()
    },
  }
}

/** Another session of the same process: what is done to its neighbour must not be felt there. */
async function assertNeighbourServed(): Promise<void> {
  await using neighbour = await openSession()
  using peer = await openProvenPeer(neighbour.dir)
  peer.send(requestOf(2, 'GET_SECRETS'))
  assert.match((await peer.said()) ?? '', new RegExp(CANARY))
}

const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`

/** Bytes after which a peer is cut off, whoever it is. */
const HOSTILE: readonly { readonly what: string; readonly bytes: Buffer }[] = [
  { what: 'a prefix of 4 GB', bytes: Buffer.from([0xff, 0xff, 0xff, 0xff, 0x7b]) },
  { what: 'a prefix of 2 GB', bytes: Buffer.from([0x7f, 0xff, 0xff, 0xff]) },
  { what: 'an empty frame', bytes: framed('') },
  { what: 'garbage', bytes: framed('\0\x01\x02{') },
  { what: 'a frame that ends early', bytes: framed('{"kind":"beat"') },
  { what: 'bytes that are no UTF-8', bytes: framed(Buffer.from([0x22, 0xff, 0xfe, 0x22])) },
  { what: 'lists in lists', bytes: framed(`{"kind":"request","id":1,"method":"INIT_HELLO","params":${nested(7_000)}}`) },
  { what: 'a frame of no kind', bytes: framed('{"kind":"else"}') },
  { what: 'a list', bytes: framed('[]') },
  { what: 'a key too many', bytes: framed('{"kind":"beat","more":1}') },
  { what: 'an id that is no number', bytes: framed('{"kind":"request","id":"1","method":"INIT_HELLO","params":{}}') },
  { what: 'an id that is none', bytes: framed('{"kind":"request","id":1e300,"method":"INIT_HELLO","params":{}}') },
  { what: 'an answer to nothing', bytes: framed('{"kind":"answer","id":1,"result":{}}') },
  { what: 'a fault to nothing', bytes: framed('{"kind":"fault","id":7,"code":"internal","message":"x"}') },
  { what: 'a note', bytes: framed('{"kind":"note","method":"OFFER","params":{"lease":"x"}}') },
  { what: 'HTTP', bytes: Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n') },
]

for (const { what, bytes } of HOSTILE) {
  for (const who of ['a stranger', 'a sidecar'] as const) {
    test(`${what} from ${who} ends its connection, and nothing is told or allocated for it`, async () => {
      await using setting = await openSession()
      using peer = who === 'a stranger' ? await openRawPeer(setting.dir) : await openProvenPeer(setting.dir)
      const before = process.memoryUsage().arrayBuffers
      peer.socket.write(bytes)
      const all = await peer.toEnd()
      assert.ok(process.memoryUsage().arrayBuffers - before < 4 * MEGABYTE)
      assert.equal(all.includes(CANARY), false)
      assert.equal(setting.session.secretsAsked, 0)
      await eventually(() => assert.match(setting.controller.log(), /control_broken|control_refused/))
      assert.equal(setting.controller.log().includes(SIDECAR_LEASE), false)
      await assertNeighbourServed()
    })
  }
}

for (const { what, frames } of [
  { what: 'no lease', frames: [requestOf(1, 'INIT_HELLO', { ...HELLO, lease: undefined })] },
  { what: 'another lease', frames: [requestOf(1, 'INIT_HELLO', { ...HELLO, lease: 'another-lease-of-nobody' })] },
  { what: 'a lease with more behind it', frames: [requestOf(1, 'INIT_HELLO', { ...HELLO, lease: `${SIDECAR_LEASE} ` })] },
  { what: 'a lease of 8 KiB', frames: [requestOf(1, 'INIT_HELLO', { ...HELLO, lease: 'x'.repeat(8_192) })] },
  { what: 'a list for its lease', frames: [requestOf(1, 'INIT_HELLO', { ...HELLO, lease: [SIDECAR_LEASE] })] },
  { what: 'the session of another', frames: [requestOf(1, 'INIT_HELLO', { ...HELLO, session: 'another' })] },
  { what: 'a proof where there is no nonce', frames: [requestOf(1, 'INIT_HELLO', { ...HELLO, lease: undefined, proof: '0'.repeat(64) })] },
  { what: 'GET_SECRETS before INIT_HELLO', frames: [requestOf(1, 'GET_SECRETS')] },
  {
    what: 'GET_SECRETS right behind a wrong INIT_HELLO',
    frames: [requestOf(1, 'INIT_HELLO', { ...HELLO, lease: 'wrong' }), requestOf(2, 'GET_SECRETS')],
  },
  { what: 'GET_SECRETS right before a right INIT_HELLO', frames: [requestOf(1, 'GET_SECRETS'), requestOf(2, 'INIT_HELLO', HELLO)] },
  { what: 'AUDIT before INIT_HELLO', frames: [requestOf(1, 'AUDIT', { lines: ['{}'] })] },
  { what: 'a method of an object', frames: [requestOf(1, '__proto__'), requestOf(2, 'constructor')] },
] satisfies { what: string; frames: RawFrame[] }[]) {
  test(`I1 a stranger with ${what} gets no secret, and what it says comes to nothing`, async () => {
    await using setting = await openSession()
    using peer = await openRawPeer(setting.dir)
    peer.send(...frames)
    const all = await peer.toEnd()
    assert.equal(all.includes(CANARY) || all.includes('PRIVATE KEY'), false)
    assert.deepEqual([setting.session.secretsAsked, setting.session.states], [0, []])
    assert.deepEqual(setting.session.lines, [])
  })
}

test('I34 a revoked lease lets nobody in, and a lease of another session neither', async () => {
  await using setting = await openSession()
  setting.session.isRevoked = true
  using peer = await openRawPeer(setting.dir)
  peer.send(requestOf(1, 'INIT_HELLO', HELLO))
  assert.match((await peer.said()) ?? '', /"code":"control_refused"/)
  assert.equal((await peer.toEnd()).includes('PRIVATE'), false)
})

test('after revoke() a sidecar with the right lease is let in no more, though nobody answered', async () => {
  await using setting = await openSession()
  await assert.rejects(setting.controller.link.revoke(), { code: 'sidecar_unreachable' })
  using peer = await openRawPeer(setting.dir)
  peer.send(requestOf(1, 'INIT_HELLO', HELLO))
  assert.equal(await peer.toEnd(), '')
})

for (const { what, frames } of [
  { what: 'an id twice', frames: [requestOf(2, 'READY'), requestOf(2, 'READY')] },
  { what: 'an id that was before', frames: [requestOf(9, 'READY'), requestOf(3, 'GET_SECRETS')] },
  { what: 'INIT_HELLO again', frames: [requestOf(2, 'INIT_HELLO', HELLO)] },
  { what: 'a request that there is not', frames: [requestOf(2, 'SECRETS', { version: 2, values: {} })] },
  { what: 'an answer to what nobody asked', frames: [{ kind: 'answer', id: 1, result: { cut: 0 } }] },
  { what: 'GET_SECRETS without end', frames: Array.from({ length: 12 }, (_, i) => requestOf(2 + i, 'GET_SECRETS')) },
  { what: 'a line that is no audit line', frames: [requestOf(2, 'AUDIT', { lines: ['{"seq":1}'] })] },
  { what: 'a line with a line break in it', frames: [requestOf(2, 'AUDIT', { lines: ['{"a":1}\n{"b":2}'] })] },
  { what: 'a line that moves a terminal’s cursor', frames: [requestOf(2, 'AUDIT', { lines: ['{"a":"\u001b[2J"}'] })] },
  {
    what: 'more lines than fit',
    frames: [requestOf(2, 'AUDIT', { lines: Array.from({ length: LIMITS.controlLinesMax + 1 }, () => '{}') })],
  },
] satisfies { what: string; frames: RawFrame[] }[]) {
  test(`a sidecar that sends ${what} is cut off, and nothing of it is kept`, async () => {
    await using setting = await openSession()
    using peer = await openProvenPeer(setting.dir)
    peer.send(...frames)
    await peer.toEnd()
    assert.deepEqual(setting.session.lines, [])
    assert.ok(setting.session.secretsAsked <= LIMITS.controlBurstAsksMax + 1)
    await eventually(() => assert.equal(setting.session.states.at(-1), 'lost'))
    await assertNeighbourServed()
  })
}

/** A line of a chain as anybody can make one. */
function lineOf(seq: number, prev: string): { line: string; hash: string } {
  const text = `{"seq":${seq},"time":"2026-01-01T00:00:00.000Z","session":"${SESSION}","event":"stopped","prev":"${prev}"`
  const hash = createHash('sha256').update(text).digest('hex')
  return { line: `${text},"hash":"${hash}"}`, hash }
}

test('I15 of the lines of a sidecar those are kept that go on one chain: none twice, none left out, none of another', async () => {
  await using setting = await openSession()
  const first = lineOf(1, '0'.repeat(64))
  const second = lineOf(2, first.hash)
  const attempts = [
    { lines: [first.line, second.line], kept: true },
    { lines: [second.line], kept: false },
    { lines: [first.line, lineOf(3, second.hash).line], kept: false },
    { lines: [lineOf(4, second.hash).line], kept: false },
    { lines: [lineOf(3, first.hash).line], kept: false },
    { lines: [lineOf(3, second.hash).line, lineOf(3, second.hash).line], kept: false },
    { lines: [lineOf(3, second.hash).line], kept: true },
  ]
  for (const { lines, kept } of attempts) {
    const before = setting.session.lines.length
    using peer = await openProvenPeer(setting.dir)
    peer.send(requestOf(2, 'AUDIT', { lines }))
    const said = (await peer.said()) ?? ''
    assert.equal(said.includes('"answer"'), kept, said)
    assert.equal(setting.session.lines.length, before + (kept ? lines.length : 0))
    peer.socket.end()
    await eventually(() => assert.equal(setting.session.states.at(-1), 'lost'))
  }
  // A sidecar that was started again, without a volume: its chain begins anew.
  using again = await openProvenPeer(setting.dir)
  again.send(requestOf(2, 'AUDIT', { lines: [first.line] }), requestOf(3, 'AUDIT', { lines: [first.line] }))
  assert.match((await again.said()) ?? '', /"answer","id":2/)
  assert.match((await again.said()) ?? '', /"fault","id":3/)
})

test('a second sidecar with the right lease is refused while the first is there, and let in when it is gone', async () => {
  await using setting = await openSession()
  using first = await openProvenPeer(setting.dir)
  using second = await openRawPeer(setting.dir)
  second.send(requestOf(1, 'INIT_HELLO', HELLO))
  assert.match((await second.said()) ?? '', /control_busy/)
  first.send(requestOf(2, 'GET_SECRETS'))
  assert.match((await first.said()) ?? '', new RegExp(CANARY))
  first.socket.end()
  await eventually(() => assert.equal(setting.session.states.at(-1), 'lost'))
  using third = await openProvenPeer(setting.dir)
  assert.ok(third.socket.readable)
})

test('strangers that say nothing are few at a time and do not keep the sidecar out for good', async () => {
  await using setting = await openSession()
  const strangers = await Promise.all(Array.from({ length: 30 }, () => openRawPeer(setting.dir)))
  await eventually(() =>
    assert.ok(strangers.filter(({ socket }) => !socket.destroyed && socket.readable).length <= LIMITS.controlStrangersMax),
  )
  await Promise.all(strangers.map((stranger) => stranger.toEnd()))
  using peer = await openProvenPeer(setting.dir)
  assert.ok(peer.socket.readable)
})

test('a sidecar that floods is read no faster than its allowance, and its neighbour is served meanwhile', async () => {
  await using setting = await openSession()
  using peer = await openProvenPeer(setting.dir)
  const flood = framed('{"kind":"beat"}')
  const piece = Buffer.concat(Array.from({ length: 4_000 }, () => flood))
  const before = process.memoryUsage()
  for (let i = 0; i < 500; i++) peer.socket.write(piece)
  await assertNeighbourServed()
  assert.ok(peer.socket.writableLength > 20 * MEGABYTE, 'most of it waits at the sidecar itself')
  // What the test itself wants to send is one buffer.
  assert.ok(process.memoryUsage().arrayBuffers - before.arrayBuffers < 8 * MEGABYTE)
})

test('a frame that is dripped or never ends costs what arrived of it, and the connection ends', async () => {
  await using setting = await openSession()
  using peer = await openProvenPeer(setting.dir)
  const before = process.memoryUsage().arrayBuffers
  peer.socket.write(framed(`"${'x'.repeat(LIMITS.controlFrameBytesMax - 2)}"`).subarray(0, 1_000))
  const dripping = setInterval(() => peer.socket.write('x'), 5)
  try {
    await peer.toEnd()
  } finally {
    clearInterval(dripping)
  }
  assert.ok(process.memoryUsage().arrayBuffers - before < 4 * MEGABYTE)
  assert.match(setting.controller.log(), /a frame that does not end/)
})

test('a sidecar that reads nothing is cut off before much waits for it', async () => {
  await using setting = await openSession({ secrets: () => Promise.resolve({ version: 1, values: { TOKEN: 'y'.repeat(60_000) } }) })
  using peer = await openProvenPeer(setting.dir)
  peer.socket.pause()
  const values = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`T${i}`, 'z'.repeat(60_000)]))
  const pushes = Array.from({ length: 8 }, () => setting.controller.link.pushSecrets({ version: 2, values }))
  const results = await Promise.allSettled(pushes)
  assert.ok(results.every(({ status }) => status === 'rejected'))
  assert.ok(results.every((result) => result.status === 'rejected' && (result.reason as { code: string }).code === 'sidecar_unreachable'))
  assert.match(setting.controller.log(), /does not read/)
  await assertNeighbourServed()
})

test('pushes to a sidecar that answers wrongly, late or not at all are sidecar_unreachable, not believed', async () => {
  await using setting = await openSession()
  using peer = await openProvenPeer(setting.dir)
  const push = setting.controller.link.pushSecrets({ version: 2, values: {} })
  const rejected = assert.rejects(push, { code: 'sidecar_unreachable' })
  const { id } = (await peer.next()) as { id: number }
  peer.send({ kind: 'answer', id: id + 1, result: { version: 2 } })
  await rejected
  await peer.toEnd()
})

test('what a sidecar says of a failure is shown in visible characters and cannot be long', async () => {
  await using setting = await openSession()
  using peer = await openProvenPeer(setting.dir)
  const push = setting.controller.link.pushPolicy()
  const rejected = assert.rejects(push, (error: Error & { code: string }) => {
    assert.equal(error.code, 'internal')
    assert.match(error.message, /^[\x20-\x7e]{1,130}$/)
    return true
  })
  const { id } = (await peer.next()) as { id: number }
  peer.send({ kind: 'fault', id, code: '__proto__', message: `\u001b]52;c;AAAA\u0007${'\u202e'.repeat(2_000)}` })
  await rejected
})

test('folder, socket and lease are readable by their owner alone, and what lies there before is not followed', async () => {
  await using setting = await openSession()
  assert.equal((await stat(setting.dir)).mode & 0o7777, 0o700)
  for (const name of ['control.sock', 'lease']) assert.equal((await stat(join(setting.dir, name))).mode & 0o777, 0o600)
  assert.equal(await readFile(join(setting.dir, 'lease'), 'utf8'), SIDECAR_LEASE)

  await using session = await createTestSession({ TOKEN: CANARY })
  const elsewhere = join(session.socketDir, '..', 'elsewhere')
  await mkdir(elsewhere)
  await symlink(elsewhere, session.socketDir)
  await assert.rejects(openTestController(session), { code: 'control_socket_invalid', message: /is not a folder/ })
  await assert.rejects(readFile(join(elsewhere, 'lease')), { code: 'ENOENT' })
  await writeFile(join(session.socketDir, '..', 'file'), '')
  await assert.rejects(openTestController({ ...session, socketDir: join(session.socketDir, '..', 'file') }), {
    code: 'control_socket_invalid',
  })
  const long = join(session.socketDir, '..', 'x'.repeat(100))
  await assert.rejects(openTestController({ ...session, socketDir: long }), { code: 'control_socket_invalid', message: /bytes/ })
})

for (const { what, replace } of [
  {
    what: 'the folder',
    replace: async (dir: string) => {
      await rename(dir, `${dir}-away`)
      await mkdir(dir, { mode: 0o700 })
    },
  },
  { what: 'the socket', replace: (dir: string) => rename(join(dir, 'control.sock'), join(dir, 'other.sock')) },
]) {
  test(`${what} that is replaced is noticed: the sidecar is cut off, nobody is let in, and it is said`, async () => {
    await using setting = await openSession()
    using peer = await openProvenPeer(setting.dir)
    await replace(setting.dir)
    const impostor = createServer((socket) => socket.destroy())
    impostor.listen(join(setting.dir, 'control.sock'))
    await once(impostor, 'listening')
    try {
      await peer.toEnd()
      await assert.rejects(setting.controller.link.ready(AbortSignal.timeout(5_000)), { code: 'control_socket_invalid' })
      await assert.rejects(setting.controller.link.pushSecrets({ version: 2, values: {} }), { code: 'sidecar_unreachable' })
      assert.match(setting.controller.log(), /control_socket_invalid/)
    } finally {
      impostor.close()
    }
  })
}

/** What a container says on its standard output, to a controller that attached. */
async function attachTo(
  setting: Setting,
  answer: (nonce: string, offered: string) => readonly (Buffer | string)[],
): Promise<{ readonly said: Buffer; readonly isClosed: boolean }> {
  const [outside, inside] = duplexPair()
  const chunks: Buffer[] = []
  inside.on('data', (chunk: Buffer) => chunks.push(chunk))
  setting.controller.link.attach(outside)
  let nonce: string | undefined
  while (nonce === undefined) {
    await new Promise((resolve) => setImmediate(resolve))
    nonce = /\nSALLYPORT-CONTROL ([0-9a-f]{32})\n/.exec(Buffer.concat(chunks).toString('latin1'))?.[1]
  }
  for (const bytes of answer(nonce, Buffer.concat(chunks).toString('latin1'))) inside.write(bytes)
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve))
  const state = { said: Buffer.concat(chunks), isClosed: outside.destroyed }
  inside.destroy()
  return state
}

const markOf = (nonce: string): string => `\nSALLYPORT-CONTROL ${nonce}\n`
const helloWith = (proof: object): Buffer => framed(JSON.stringify(requestOf(1, 'INIT_HELLO', { ...HELLO, lease: undefined, ...proof })))
const ask = framed(JSON.stringify(requestOf(2, 'GET_SECRETS')))

for (const { what, answer, isServed } of [
  {
    what: 'the right proof',
    answer: (nonce: string) => [markOf(nonce), helloWith({ proof: proofOf(SIDECAR_LEASE, nonce) })],
    isServed: true,
  },
  {
    what: 'the right proof behind half a frame and a log line of before',
    answer: (nonce: string) => [
      framed('{"kind":"beat"}').subarray(0, 9),
      'a line\n',
      markOf('0'.repeat(32)),
      markOf(nonce),
      helloWith({ proof: proofOf(SIDECAR_LEASE, nonce) }),
    ],
    isServed: true,
  },
  {
    what: 'the proof of another nonce',
    answer: (nonce: string) => [markOf(nonce), helloWith({ proof: proofOf(SIDECAR_LEASE, 'f'.repeat(32)) })],
    isServed: false,
  },
  {
    what: 'the proof of another lease',
    answer: (nonce: string) => [markOf(nonce), helloWith({ proof: proofOf('another lease', nonce) })],
    isServed: false,
  },
  {
    what: 'the lease in place of the proof',
    answer: (nonce: string) => [markOf(nonce), helloWith({ lease: SIDECAR_LEASE })],
    isServed: false,
  },
  { what: 'no mark', answer: (nonce: string) => [helloWith({ proof: proofOf(SIDECAR_LEASE, nonce) })], isServed: false },
  {
    what: 'the mark of another',
    answer: (nonce: string) => [markOf('f'.repeat(32)), helloWith({ proof: proofOf(SIDECAR_LEASE, nonce) })],
    isServed: false,
  },
  { what: 'a prefix of 4 GB', answer: (nonce: string) => [markOf(nonce), Buffer.from([0xff, 0xff, 0xff, 0xff])], isServed: false },
]) {
  test(`I1 a container that answers an attachment with ${what} is ${isServed ? 'given' : 'refused'} the secrets`, async () => {
    await using setting = await openSession()
    const { said } = await attachTo(setting, (nonce) => [...answer(nonce), ask])
    assert.equal(said.includes(CANARY), isServed)
    assert.equal(setting.session.secretsAsked, isServed ? 1 : 0)
    await assertNeighbourServed()
  })
}

test('what a sidecar writes to an attached stream never has its lease in it: an engine may keep it', async () => {
  const [outside, inside] = duplexPair()
  const out: Buffer[] = []
  outside.on('data', (chunk: Buffer) => out.push(chunk))
  const log = pino({ level: 'silent' })
  const config = { transport: { kind: 'stdio', input: inside, output: inside }, version: 'test', session: 's', agent: 'a' } as const
  const opening = openLink(config, log, system)
  outside.write(
    Buffer.concat([
      Buffer.from(markOf('a'.repeat(32))),
      framed(JSON.stringify({ kind: 'note', method: 'OFFER', params: { lease: SIDECAR_LEASE } })),
    ]),
  )
  await eventually(() => assert.match(Buffer.concat(out).toString('latin1'), /INIT_HELLO/))
  assert.match(Buffer.concat(out).toString('latin1'), new RegExp(proofOf(SIDECAR_LEASE, 'a'.repeat(32))))
  assert.equal(Buffer.concat(out).includes(SIDECAR_LEASE), false)
  outside.write(framed('{"kind":"fault","id":1,"code":"control_refused","message":"no"}'))
  await assert.rejects(opening, { code: 'control_refused' })
})
