import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRequestBook, type OpenRequest } from '../../../src/controller/requests/request-book.ts'
import { faultEnding } from '../../../src/controller/requests/endings.ts'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { system } from '../../../src/kernel/system.ts'

const NEVER = new AbortController().signal

function opened(session = 'one') {
  const book = createRequestBook(system, faultEnding)
  const { promise, resolve, reject } = Promise.withResolvers<'done'>()
  const begun = Promise.withResolvers<OpenRequest>()
  const view = book.begin(session, 'host.run', async (request) => {
    begun.resolve(request)
    request.signal.addEventListener('abort', () => reject(new SallyportError('command_cancelled', 'it was withdrawn')))
    return { status: await promise, exit_code: 0 }
  })
  return { book, view, resolve, reject, request: begun.promise }
}

test('a request is pending, then runs, then is done, and who waits hears of its end', async () => {
  const { book, view, resolve, request } = opened()
  assert.equal(view.status, 'pending')
  ;(await request).running()
  assert.equal((await book.await('one', view.id, 0, NEVER)).status, 'running')
  const waiting = book.await('one', view.id, 60_000, NEVER)
  resolve('done')
  assert.deepEqual(await waiting, { id: view.id, method: 'host.run', status: 'done', exit_code: 0 })
})

test('I53 a session sees, reads and cancels its own requests alone', async () => {
  const { book, view, resolve } = opened()
  for (const attempt of [
    () => book.await('two', view.id, 0, NEVER),
    () => book.output('two', view.id, 0, 0, NEVER),
    () => book.cancel('two', view.id),
  ])
    await assert.rejects(attempt, { code: 'request_not_found' })
  assert.equal((await book.await('one', view.id, 0, NEVER)).status, 'pending')
  resolve('done')
})

test('who waits no longer is let go at once, and the request goes on', async () => {
  const { book, view, resolve } = opened()
  const gone = new AbortController()
  const waiting = book.await('one', view.id, 60_000, gone.signal)
  gone.abort()
  assert.equal((await waiting).status, 'pending')
  resolve('done')
  assert.equal((await book.await('one', view.id, 60_000, NEVER)).status, 'done')
})

test('a request that is cancelled ends as that, and its work is told', async () => {
  const { book, view, request } = opened()
  const cancelled = book.cancel('one', view.id)
  assert.equal((await request).signal.aborted, true)
  assert.deepEqual(await cancelled, {
    id: view.id,
    method: 'host.run',
    status: 'cancelled',
    error: { code: 'command_cancelled', message: 'it was withdrawn' },
  })
})

test('a fault without a code says nothing of itself to the agent', async () => {
  const { book, view, reject } = opened()
  reject(new Error('/home/operator/secret-path is broken'))
  const ended = await book.await('one', view.id, 60_000, NEVER)
  assert.equal(ended.status, 'failed')
  assert.doesNotMatch(JSON.stringify(ended), /secret-path/)
})

test('output comes piece by piece to whoever asks behind what they have, each once', async () => {
  const { book, view, resolve, request } = opened()
  const { print } = await request
  const first = book.output('one', view.id, 0, 60_000, NEVER)
  print('stdout', Buffer.from('a'))
  const one = await first
  assert.deepEqual(one, { pieces: [{ stream: 'stdout', text: 'a' }], next: 1, lost: false, isEnded: false })
  print('stderr', Buffer.from('b'))
  assert.deepEqual((await book.output('one', view.id, one.next, 60_000, NEVER)).pieces, [{ stream: 'stderr', text: 'b' }])
  resolve('done')
  await book.await('one', view.id, 60_000, NEVER)
  assert.deepEqual(await book.output('one', view.id, 2, 60_000, NEVER), { pieces: [], next: 2, lost: false, isEnded: true })
})

test('a rune that is cut between two chunks comes whole', async () => {
  const { book, view, request, resolve } = opened()
  const { print } = await request
  const bytes = Buffer.from('ä€😀')
  for (const byte of bytes) print('stdout', Buffer.from([byte]))
  const { pieces } = await book.output('one', view.id, 0, 0, NEVER)
  assert.equal(pieces.map(({ text }) => text).join(''), 'ä€😀')
  resolve('done')
})

test('output that nobody reads is bounded, and that some of it is lost is said', async () => {
  const { book, view, request, resolve } = opened()
  const { print } = await request
  for (let count = 0; count < LIMITS.outputPiecesMax + 10; count += 1) print('stdout', Buffer.from('x'))
  const first = await book.output('one', view.id, 0, 0, NEVER)
  assert.equal(first.lost, true)
  assert.equal(first.next, 10 + first.pieces.length)
  for (let count = 0; count < 64; count += 1) print('stdout', Buffer.alloc(65_536, 'y'))
  let bytes = 0
  for (let at = 0; ;) {
    const { pieces, next } = await book.output('one', view.id, at, 0, NEVER)
    if (next === at) break
    at = next
    bytes += pieces.reduce((sum, { text }) => sum + text.length, 0)
  }
  assert.ok(bytes <= LIMITS.outputPiecesBytesMax, `${bytes} bytes are kept`)
  resolve('done')
})

test('I53 a session with too many requests is refused a further one, and another session is not', async () => {
  const book = createRequestBook(system, faultEnding)
  const { promise, resolve } = Promise.withResolvers<void>()
  const begin = (session: string) =>
    book.begin(session, 'host.run', async () => {
      await promise
      return { status: 'done' }
    })
  for (let count = 0; count < LIMITS.requestsOpenMax; count += 1) begin('one')
  assert.throws(() => begin('one'), { code: 'overloaded' })
  assert.equal(begin('two').status, 'pending')
  resolve()
})

test('what has ended is forgotten when there is too much of it, the oldest first', async () => {
  const book = createRequestBook(system, faultEnding)
  const ids: string[] = []
  for (let count = 0; count < LIMITS.requestsEndedMax + 2; count += 1) {
    const { id } = book.begin('one', 'host.run', () => Promise.resolve({ status: 'done' }))
    await book.await('one', id, 60_000, NEVER)
    ids.push(id)
  }
  await assert.rejects(book.await('one', ids[0] ?? '', 0, NEVER), { code: 'request_not_found' })
  assert.equal((await book.await('one', ids.at(-1) ?? '', 0, NEVER)).status, 'done')
})

test('the end of a session withdraws all that it asked for, and nothing of it goes on when that resolves', async () => {
  const { book, view, request } = opened()
  await book.endSession('one')
  assert.equal((await request).signal.aborted, true)
  await assert.rejects(book.await('one', view.id, 0, NEVER), { code: 'request_not_found' })
})

for (const { what, stdout, stderr, isCut } of [
  { what: 'words', stdout: 'x'.repeat(LIMITS.commandOutputBytesMax), stderr: 'y'.repeat(LIMITS.commandOutputBytesMax), isCut: false },
  {
    what: 'control characters',
    stdout: '\0'.repeat(LIMITS.commandOutputBytesMax),
    stderr: '\u0001'.repeat(LIMITS.commandOutputBytesMax),
    isCut: true,
  },
])
  test(`an ended request with as much output as is kept, of ${what}, goes through the channel, ${isCut ? 'the end of it' : 'whole'}`, async () => {
    const book = createRequestBook(system, faultEnding)
    const { id } = book.begin('one', 'host.run', async () => ({ status: 'done', stdout, stderr }))
    const view = await book.await('one', id, 60_000, NEVER)
    assert.ok(Buffer.byteLength(JSON.stringify(view)) <= LIMITS.requestAnswerBytesMax + 1_024)
    assert.ok(LIMITS.requestAnswerBytesMax + 1_024 < LIMITS.controlPushBytesMax)
    assert.deepEqual([view.truncated === true, view.stdout === stdout, stdout.endsWith(view.stdout ?? '-')], [isCut, !isCut, true])
  })

test('files with names as long as they may be go through the channel beside as much output as is kept', async () => {
  const book = createRequestBook(system, faultEnding)
  const stdout = '\0'.repeat(LIMITS.commandOutputBytesMax)
  const name = Array.from({ length: LIMITS.useOutputDepthMax }, () => '"'.repeat(255)).join('/')
  const files = Array.from({ length: LIMITS.useOutputEntriesMax }, () => ({ name, bytes: 1, withheld: true as const }))
  const { id } = book.begin('one', 'secret.use_in', async () => ({ status: 'done', stdout, stderr: stdout, files }))
  const view = await book.await('one', id, 60_000, NEVER)
  assert.ok(Buffer.byteLength(JSON.stringify(view)) <= LIMITS.requestAnswerBytesMax + 1_024)
  assert.deepEqual([view.truncated, view.files?.length], [true, LIMITS.useOutputEntriesMax])
})

test('pieces of one answer are as many as fit: none is left out, and none comes twice', async () => {
  const { book, view, resolve, request } = opened()
  const { print } = await request
  const texts = Array.from({ length: LIMITS.outputPiecesAtOnceMax + 40 }, (_, n) => (n % 50 === 0 ? 'x'.repeat(20_000) : `${n}\n`))
  for (const text of texts) print('stdout', Buffer.from(text))
  resolve('done')
  await book.await('one', view.id, 60_000, NEVER)
  const seen: string[] = []
  for (let after = 0; ;) {
    const { pieces, next, lost, isEnded } = await book.output('one', view.id, after, 0, NEVER)
    assert.equal(lost, false)
    assert.ok(pieces.length <= LIMITS.outputPiecesAtOnceMax)
    assert.ok(pieces.reduce((sum, { text }) => sum + text.length, 0) <= LIMITS.outputCharsAtOnceMax)
    seen.push(...pieces.map(({ text }) => text))
    after = next
    if (isEnded) break
  }
  assert.deepEqual(seen, texts)
})
