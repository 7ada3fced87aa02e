/** What an upstream does wrong is told to the agent with a code, is never made to look right, and leaves the gate as it was. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { bodyOf, exchangeRaw, readToEnd, statusOf } from '../support/raw-client.ts'
import { API, policyFor } from '../support/setting.ts'
import { openRawUpstream, type Upstream } from '../support/upstream.ts'

const GOOD = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngood'

/** An upstream whose first connection is answered by `first`, and every later one as it should be. */
async function openFaulty(
  first: (socket: Socket) => void,
): Promise<{ upstream: Upstream; gate: TestGate; ask: (more?: string) => Promise<string> } & AsyncDisposable> {
  let sockets = 0
  const upstream = await openRawUpstream((socket) => {
    sockets += 1
    const isFirst = sockets === 1
    socket.once('data', () => (isFirst ? first(socket) : void socket.end(GOOD)))
    socket.on('end', () => socket.end())
  })
  const gate = await openTestGate({ policy: policyFor([upstream.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } })
  return {
    upstream,
    gate,
    ask: (more = '') =>
      exchangeRaw(
        gate.port,
        `GET http://${API}:${upstream.port}/ HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\n${more}Connection: close\r\n\r\n`,
      ),
    async [Symbol.asyncDispose]() {
      await gate[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

const ask101 = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
for (const { why, bytes, code } of [
  { why: 'garbage', bytes: '\0\x01\x02garbage\r\n\r\n', code: 'upstream_invalid' },
  { why: 'a greeting of another protocol', bytes: 'SSH-2.0-OpenSSH_9.6\r\n', code: 'upstream_invalid' },
  { why: 'a TLS alert', bytes: '\x15\x03\x01\0\x02\x02\x46', code: 'upstream_invalid' },
  { why: 'HTTP/0.9, a body without a head', bytes: '<html>hello</html>', code: 'upstream_invalid' },
  { why: 'a head of 1 MB', bytes: `HTTP/1.1 200 OK\r\nX: ${'y'.repeat(1_048_576)}\r\n\r\n`, code: 'upstream_invalid' },
  { why: '100,000 headers', bytes: `HTTP/1.1 200 OK\r\n${'X: y\r\n'.repeat(100_000)}\r\n`, code: 'upstream_invalid' },
  { why: 'lines that end in a bare LF', bytes: 'HTTP/1.1 200 OK\nContent-Length: 4\n\ngood', code: 'upstream_invalid' },
  { why: 'a bare CR in a header', bytes: 'HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n', code: 'upstream_invalid' },
  { why: 'a NUL in a header', bytes: 'HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n', code: 'upstream_invalid' },
  { why: 'folded headers', bytes: 'HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n', code: 'upstream_invalid' },
  { why: 'a space before a colon', bytes: 'HTTP/1.1 200 OK\r\nContent-Length : 4\r\n\r\ngood', code: 'upstream_invalid' },
  { why: 'two lengths', bytes: 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\ngood', code: 'upstream_invalid' },
  {
    why: 'a length and chunks',
    bytes: 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    code: 'upstream_invalid',
  },
  { why: 'a negative length', bytes: 'HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n', code: 'upstream_invalid' },
  { why: 'a status that is none', bytes: 'HTTP/1.1 99 Odd\r\nContent-Length: 0\r\n\r\n', code: 'upstream_invalid' },
  { why: 'a status of four digits', bytes: 'HTTP/1.1 2000 Odd\r\nContent-Length: 0\r\n\r\n', code: 'upstream_invalid' },
  { why: 'HTTP/2', bytes: '\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0', code: 'upstream_invalid' },
  { why: 'a switch of protocols that nobody asked for', bytes: ask101, code: 'upstream_invalid' },
  { why: 'nothing but the end of the connection', bytes: '', code: 'upstream_unreachable' },
  { why: 'half a head and the end', bytes: 'HTTP/1.1 200 OK\r\nContent-Le', code: 'upstream_unreachable' },
]) {
  test(`an upstream that answers with ${why}: 502 ${code}, none of its bytes, and the next request works`, async () => {
    await using faulty = await openFaulty((socket) => void socket.end(Buffer.from(bytes, 'latin1')))
    const answer = await faulty.ask()
    assert.equal(statusOf(answer), 502, answer.slice(0, 200))
    const problem = JSON.parse(bodyOf(answer)) as { code: string; host: string }
    assert.equal(problem.code, code)
    assert.equal(problem.host, API)
    assert.doesNotMatch(answer, /good|hello|yyyy|OpenSSH/)
    assert.match(await faulty.ask(), /^HTTP\/1\.1 200 OK[^]*good$/)
    const finished = (await faulty.gate.audit()).find((event) => event['event'] === 'finished')
    assert.deepEqual([finished?.['status'], finished?.['code']], [502, code])
  })
}

test('an upstream that resets instead of answering: 502 upstream_unreachable, and the next request works', async () => {
  await using faulty = await openFaulty((socket) => void socket.resetAndDestroy())
  const answer = await faulty.ask()
  assert.equal(statusOf(answer), 502)
  assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'upstream_unreachable')
  assert.match(await faulty.ask(), /good$/)
})

for (const { why, bytes } of [
  { why: 'fewer bytes than its length', bytes: 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart' },
  { why: 'chunks without the last one', bytes: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n' },
  { why: 'a chunk size that is none', bytes: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\n' },
  { why: 'a bare LF after a chunk size', bytes: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n4\npart\r\n0\r\n\r\n' },
]) {
  test(`an answer with ${why} arrives broken, not as a whole one, and the audit has it as broken`, async () => {
    await using faulty = await openFaulty((socket) => {
      socket.write(bytes.slice(0, bytes.indexOf('part') + 4))
      setImmediate(() => socket.end(bytes.slice(bytes.indexOf('part') + 4)))
    })
    const answer = await faulty.ask()
    assert.ok(answer === '' || statusOf(answer) === 200 || statusOf(answer) === 502)
    assert.doesNotMatch(answer, /\r\n0\r\n\r\n$/, 'an end would say that it is whole')
    assert.doesNotMatch(answer, /content-length: 4\r\n/i)
    assert.match(await faulty.ask(), /good$/)
    const finished = (await faulty.gate.audit()).find((event) => event['event'] === 'finished')
    assert.match(String(finished?.['code']), /^upstream_(invalid|unreachable)$/)
  })
}

test('I10 bytes after the end of an answer are not taken for the answer to the next request', async () => {
  const poisoned = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirstHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned'
  await using faulty = await openFaulty((socket) => void socket.write(poisoned))
  assert.match(await faulty.ask(), /first$/)
  const next = await faulty.ask()
  assert.doesNotMatch(next, /poisoned/)
  assert.match(next, /good$/)
})

test('early hints pass, other interim answers do not, and the answer after them arrives', async () => {
  const hints = 'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
  await using faulty = await openFaulty((socket) => void socket.end(`${hints}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`))
  assert.match(await faulty.ask(), /^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a>\r\n\r\nHTTP\/1\.1 200 OK[^]*ok$/)
})

test('header bytes outside ASCII reach the agent as they are', async () => {
  await using faulty = await openFaulty((socket) =>
    socket.end(Buffer.from('HTTP/1.1 299 Odd\r\nX-Latin: caf\xe9\r\nContent-Length: 0\r\n\r\n', 'latin1')),
  )
  const answer = await faulty.ask()
  assert.match(answer, /^HTTP\/1\.1 299 Odd\r\n/)
  assert.match(answer, /x-latin: caf\xe9/i)
})

for (const reason of ['S\xf6lala', '\u00d6K', '\x80\xff', 'tab\tbed', 'a'.repeat(10_000)]) {
  test(`a reason phrase that Node would not write (${JSON.stringify(reason).slice(0, 20)}) ends no process: the answer arrives without it`, async () => {
    await using faulty = await openFaulty((socket) =>
      socket.end(Buffer.from(`HTTP/1.1 200 ${reason}\r\nContent-Length: 2\r\n\r\nok`, 'latin1')),
    )
    assert.match(await faulty.ask(), /^HTTP\/1\.1 200 [^]*ok$/)
    assert.match(await faulty.ask(), /good$/)
  })
}

test('an upstream that closes a kept connection does not cost the next request its answer', async () => {
  let sockets = 0
  await using upstream = await openRawUpstream((socket) => {
    sockets += 1
    socket.on('end', () => socket.end())
    socket.on('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      socket.end()
    })
  })
  await using gate = await openTestGate({ policy: policyFor([upstream.port], { inject: '' }), hosts: { [API]: ['127.0.0.1'] } })
  const agent = connect(gate.port, '127.0.0.1')
  await once(agent, 'connect')
  const request = `GET http://${API}:${upstream.port}/ HTTP/1.1\r\nHost: ${API}:${upstream.port}\r\n`
  for (let i = 0; i < 5; i += 1) {
    agent.write(`${request}\r\n`)
    assert.match(String(((await once(agent, 'data')) as [Buffer])[0]), /^HTTP\/1\.1 200 /)
  }
  agent.write(`${request}Connection: close\r\n\r\n`)
  assert.match(await readToEnd(agent), /^HTTP\/1\.1 200 /)
  assert.equal(sockets, 6)
})
