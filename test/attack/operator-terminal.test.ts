/** Somebody else than the operator's page asks for a terminal of a session, or one that was opened does not keep to its protocol. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { FrameDecoder } from '../../src/channel/channel.ts'
import { LIMITS } from '../../src/kernel/limits.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { eventually } from '../support/eventually.ts'
import { openTestTerminals, typing, type TestProgram, type TestTerminals } from '../support/page-terminals.ts'

let page: TestTerminals
before(async () => {
  page = await openTestTerminals()
})
after(() => page[Symbol.asyncDispose]())

/** The program that a terminal was connected with just now. */
async function begun(count: number): Promise<TestProgram> {
  return await eventually(() => {
    const program = page.programs[count]
    assert.ok(program)
    return program
  })
}

async function opened(ticket?: string) {
  const count = page.programs.length
  const socket = await page.open(ticket ?? (await page.ticket()))
  return { socket, program: await begun(count) }
}

async function knocked() {
  const count = page.programs.length
  const { status, answer, socket } = await page.knock(await page.ticket())
  assert.equal(status, 101, answer)
  return { socket, answer, program: await begun(count) }
}

test('the operator’s own page opens a terminal by its ticket: what the attacks below change is all that they are refused for', async () => {
  const { answer, socket, program } = await knocked()
  assert.match(answer, /sec-websocket-protocol: sallyport\.terminal\r\n/i)
  assert.doesNotMatch(answer, /ticket|deflate/)
  assert.equal(program.kind, 'attach')
  socket.destroy()
})

type Attack = {
  readonly why: string
  readonly change?: (ticket: string, own: string) => Record<string, string | readonly string[] | undefined>
  readonly first?: string
}
const ATTACKS: readonly Attack[] = [
  { why: 'no Origin, as a program of this machine sends none', change: () => ({ origin: undefined }) },
  { why: 'the Origin of another site', change: () => ({ origin: 'https://evil.test' }) },
  { why: 'the Origin of another port of localhost', change: () => ({ origin: 'http://localhost:3000' }) },
  { why: 'the Origin of our address', change: (_, own) => ({ origin: `http://${own.replace('localhost', '127.0.0.1')}` }) },
  { why: 'our Origin by https', change: (_, own) => ({ origin: `https://${own}` }) },
  { why: 'the Origin of a frame without one', change: () => ({ origin: 'null' }) },
  { why: 'two Origins', change: (_, own) => ({ origin: [`http://${own}`, 'https://evil.test'] }) },
  { why: 'DNS rebinding', change: () => ({ host: 'evil.test', origin: 'http://evil.test' }) },
  { why: 'our address as the Host', change: (_, own) => ({ host: own.replace('localhost', '127.0.0.1') }) },
  { why: 'no Host', change: () => ({ host: undefined }) },
  { why: 'a page of another site', change: () => ({ 'sec-fetch-site': 'cross-site' }) },
  { why: 'a page of another port of localhost', change: () => ({ 'sec-fetch-site': 'same-site' }) },
  { why: 'a navigation', change: () => ({ 'sec-fetch-mode': 'navigate' }) },
  { why: 'a frame', change: () => ({ 'sec-fetch-dest': 'iframe' }) },
  { why: 'another protocol', change: () => ({ upgrade: 'sallyport-stream' }) },
  { why: 'h2c', change: () => ({ upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__' }) },
  { why: 'another path', first: 'GET /v1/sessions/s-terminal/attach HTTP/1.1' },
  { why: 'a path with a query', first: 'GET /v1/terminal?x HTTP/1.1' },
  { why: 'another method', first: 'POST /v1/terminal HTTP/1.1' },
  { why: 'a body', change: () => ({ 'content-length': '3' }) },
  { why: 'no subprotocol', change: () => ({ 'sec-websocket-protocol': undefined }) },
  { why: 'no ticket', change: () => ({ 'sec-websocket-protocol': 'sallyport.terminal' }) },
  { why: 'a ticket alone', change: (ticket) => ({ 'sec-websocket-protocol': `sallyport.ticket.${ticket}` }) },
  {
    why: 'two tickets',
    change: (ticket) => ({ 'sec-websocket-protocol': `sallyport.terminal, sallyport.ticket.${ticket}, sallyport.ticket.x` }),
  },
  {
    why: 'the ticket in a line of its own',
    change: (ticket) => ({ 'sec-websocket-protocol': ['sallyport.terminal', `sallyport.ticket.${ticket}`] }),
  },
  {
    why: 'a ticket that was made up',
    change: () => ({ 'sec-websocket-protocol': `sallyport.terminal, sallyport.ticket.${'A'.repeat(43)}` }),
  },
  {
    why: 'the ticket as a token',
    change: (ticket) => ({ 'sec-websocket-protocol': 'sallyport.terminal', authorization: `Bearer ${ticket}` }),
  },
  { why: 'a link’s ticket', change: () => ({ 'sec-websocket-protocol': `sallyport.terminal, sallyport.ticket.${page.logins.ticket()}` }) },
  { why: 'no key', change: () => ({ 'sec-websocket-key': undefined }) },
  { why: 'a version that there is none of', change: () => ({ 'sec-websocket-version': '7' }) },
]
for (const { why, change, first } of ATTACKS)
  test(`I77 with a ticket that is good, ${why} is attached to nothing`, async () => {
    const count = page.programs.length
    const ticket = await page.ticket()
    const { status, answer, socket } = await page.knock(ticket, change?.(ticket, `localhost:${page.web.port}`), first)
    assert.ok(status === 403 || status === 400 || status === 0, answer)
    assert.ok(!answer.includes(ticket))
    socket.destroy()
    // Another way in shows that all that came before was dealt with.
    await page.ask(page.login().token)
    assert.equal(page.programs.length, count)
  })

test('I77 a ticket that comes twice opens nothing, and closes what it opened', async () => {
  const ticket = await page.ticket()
  const { socket: first, program } = await opened(ticket)
  const closed = once(first, 'close')
  assert.equal((await page.knock(ticket)).status, 403)
  await closed
  await eventually(() => assert.equal(program.isGone, true))
})

test('a ticket is good for half a minute', async () => {
  const count = page.programs.length
  const ticket = await page.ticket()
  page.clock.pass(LIMITS.pageTerminalTicketMs + 1)
  assert.equal((await page.knock(ticket)).status, 403)
  assert.equal(page.programs.length, count)
})

test('I77 the end of its login ends a terminal, and the ticket that it has not used; that of another login neither', async () => {
  const [own, other] = [page.login(), page.login()]
  const unused = await page.ticket(own.token)
  const { socket, program } = await opened(await page.ticket(own.token))
  page.logins.end(other.id)
  socket.send(typing('still here'))
  await eventually(() => assert.equal(program.typed, 'still here'))
  const closed = once(socket, 'close')
  page.logins.end(own.id)
  await closed
  await eventually(() => assert.equal(program.isGone, true))
  assert.equal((await page.knock(unused)).status, 403)
})

test('I77 the end of its session ends a terminal', async () => {
  const { socket, program } = await opened()
  const closed = once(socket, 'close')
  page.emit('ended')
  await closed
  await eventually(() => assert.equal(program.isGone, true))
})

test('no more terminals are open than there may be', async () => {
  const token = page.login().token
  const sockets = []
  for (let i = 0; i < LIMITS.pageTerminalsMax; i += 1) sockets.push(await page.open(await page.ticket(token)))
  const { status, body } = await page.ask(token)
  assert.deepEqual([status, body['code']], [403, 'terminal_refused'])
  const closed = sockets.map((socket) => once(socket, 'close'))
  for (const socket of sockets) socket.close()
  await Promise.all(closed)
  await eventually(async () => assert.equal((await page.ask(token)).status, 200))
})

type Sent = { readonly why: string; readonly bytes: readonly Buffer[] }
const frame = (first: number, payload: Buffer, isMasked = true): Buffer => {
  const length = payload.length < 126 ? Buffer.from([payload.length]) : Buffer.alloc(9, 127)
  if (length.length === 9) length.writeBigUInt64BE(BigInt(payload.length), 1)
  length[0] = (length[0] as number) | (isMasked ? 0x80 : 0)
  // A mask of zeros leaves the payload as it is.
  return Buffer.concat([Buffer.from([first]), length, isMasked ? Buffer.alloc(4) : Buffer.alloc(0), payload])
}
const [TEXT, BINARY, CONTINUATION, FIN] = [1, 2, 0, 0x80]
const large = Buffer.alloc(LIMITS.pageTerminalMessageBytesMax + 1)
const BROKEN: readonly Sent[] = [
  { why: 'a frame that is not masked', bytes: [frame(FIN | BINARY, typing('harm'), false)] },
  { why: 'a message that is too long', bytes: [frame(FIN | BINARY, large)] },
  { why: 'a length of 2^63 bytes', bytes: [Buffer.from([FIN | BINARY, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0])] },
  { why: 'fragments that are too long together', bytes: [frame(BINARY, large.subarray(1)), frame(FIN | CONTINUATION, Buffer.alloc(2))] },
  { why: 'a fragment of nothing', bytes: [frame(FIN | CONTINUATION, typing('harm'))] },
  { why: 'a reserved opcode', bytes: [frame(FIN | 3, typing('harm'))] },
  { why: 'compression that nobody agreed on', bytes: [frame(FIN | 0x40 | BINARY, typing('harm'))] },
  { why: 'text that is no number', bytes: [frame(FIN | TEXT, Buffer.from('{"typed":"harm"}'))] },
  { why: 'to have shown more than was sent', bytes: [frame(FIN | TEXT, Buffer.from('9999999'))] },
  { why: 'a flood of texts', bytes: Array.from({ length: 5_000 }, () => frame(FIN | TEXT, Buffer.from('harm'))) },
  {
    why: 'pings, which no page can, to be answered without end',
    bytes: Array.from({ length: 5_000 }, () => frame(FIN | 9, Buffer.alloc(125))),
  },
  { why: 'a type of frame that there is none of', bytes: [frame(FIN | BINARY, Buffer.from([99, 0, 0, 0, 0]))] },
  { why: 'a frame that only the daemon sends', bytes: [frame(FIN | BINARY, Buffer.from([1, 0, 0, 0, 1, 65]))] },
  { why: 'a size that no terminal has', bytes: [frame(FIN | BINARY, Buffer.from([3, 0, 0, 0, 2, 123, 125]))] },
]
for (const { why, bytes } of BROKEN)
  test(`a terminal that sends ${why} is closed, and types nothing`, async () => {
    const { socket, program } = await knocked()
    socket.resume()
    const closed = new Promise((resolve) => socket.on('close', resolve))
    for (const one of bytes) socket.write(one)
    await closed
    await eventually(() => assert.equal(program.isGone, true))
    assert.equal(program.typed, '')
  })

test('a message in fragments is one message', async () => {
  const { socket, program } = await knocked()
  const whole = typing('in pieces')
  const pieces = [...whole].map((byte, at) =>
    frame((at === 0 ? BINARY : CONTINUATION) | (at === whole.length - 1 ? FIN : 0), Buffer.from([byte])),
  )
  for (const piece of pieces) socket.write(piece)
  await eventually(() => assert.equal(program.typed, 'in pieces'))
  socket.destroy()
})

test('I77 what the program prints comes filtered and without the session’s secrets', async () => {
  page.secrets = [new Secret('API_KEY', 'key-0123456789abcdef')]
  const { socket, program } = await opened()
  let seen = ''
  const decoder = new FrameDecoder()
  socket.on(
    'message',
    (data: Buffer) =>
      (seen += decoder
        .push(data)
        .map(({ payload }) => payload.toString('latin1'))
        .join('')),
  )
  program.print(
    '\u001b]52;c;c3RvbGVu\u0007\u001b]0;evil\u0007\u001b]8;;https://evil.test/\u0007link\u001b]8;;\u0007 key-0123456789abcdef end\r\n',
  )
  await eventually(() => assert.match(seen, /end/))
  assert.doesNotMatch(seen, /key-0123456789abcdef|c3RvbGVu|evil/)
  socket.close()
})

test('a page that does not say what it has shown has the program wait', async () => {
  await using flooded = await openTestTerminals(true)
  const socket = await flooded.open(await flooded.ticket())
  let bytes = 0
  socket.on('message', (data: Buffer) => (bytes += data.length))
  const isStill = async (): Promise<void> => {
    const [program] = flooded.programs
    const printed = program?.printed
    for (let turn = 0; turn < 200; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    assert.ok(bytes > LIMITS.pageTerminalAheadBytesMax / 2)
    assert.equal(program?.printed, printed)
  }
  await eventually(isStill)
  const [program] = flooded.programs
  const most = LIMITS.pageTerminalAheadBytesMax * 2
  assert.ok((program?.printed ?? 0) < most && bytes < most, `${program?.printed} printed, ${bytes} sent`)
  const sent = bytes
  socket.send(String(sent))
  await eventually(() => assert.ok(bytes > sent))
})
