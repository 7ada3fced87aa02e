/** I25: a body that is signed by the gate is whole before anything leaves, within bounds, and leaves nothing behind. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ClientHttp2Stream } from 'node:http2'
import type { Writable } from 'node:stream'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import { AWS_ACCOUNT, openAwsSetting, type AwsSetting } from '../support/aws-setting.ts'
import { eventually } from '../support/eventually.ts'
import { ask, fieldOf, named, openSession, readAnswer, type Approach, type Fields } from '../support/every-client.ts'
import { answerOf, speakFrames } from '../support/http2-agent.ts'
import { frame, headers, isPong, PING, reset, TYPE } from '../support/http2-frames.ts'
import { readToEnd } from '../support/raw-client.ts'

const { QUEUE, FILES, REGION } = AWS_ACCOUNT
const HTTP1: Approach = { way: 'CONNECT', version: 'HTTP/1.1' }
const HTTP2: Approach = { way: 'CONNECT', version: 'HTTP/2' }
const WHOLE: Approach = { way: 'absolute form', version: 'HTTP/1.1' }
const APPROACHES = [HTTP1, HTTP2, WHOLE]

let setting: AwsSetting

before(async () => {
  setting = await openAwsSetting()
})
after(() => setting[Symbol.asyncDispose]())

type Said = { readonly status: number; readonly code: string | undefined; readonly interim: readonly number[] }

/** A request whose body is written by hand. */
type Sending = { readonly body: Writable; readonly answer: Promise<Said>; readonly leave: () => void }

function fields(body: string | Buffer, more: Fields = []): Fields {
  const asked = { method: 'POST', host: QUEUE, path: '/', body, payload: 'none' }
  return [...setting.sign(asked, { region: REGION, service: 'sqs' }), ...more]
}

async function begin({ way, version }: Approach, sent: Fields): Promise<Sending> {
  if (version === 'HTTP/2' && way !== 'absolute form' && way !== 'route') {
    const socket = await setting.every.dialTls(way, QUEUE, 443, { ALPNProtocols: ['h2'] })
    const session = openSession(QUEUE, socket)
    const stream: ClientHttp2Stream = session.request({ ':method': 'POST', ':path': '/', ...Object.fromEntries(sent) })
    const interim: number[] = []
    stream.on('continue', () => interim.push(100))
    const answer = answerOf(stream).then(({ status, body }) => {
      session.destroy()
      return { status, code: /"code":"(\w+)"/.exec(body)?.[1], interim }
    })
    return { body: stream, answer, leave: () => socket.destroy() }
  }
  const { socket, target, authority } = await setting.every.open(way, 'https', QUEUE)
  const lines = sent.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.write(`POST ${target('/')} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n${lines}\r\n`)
  const answer = readToEnd(socket).then((text) => {
    const interim = [...text.matchAll(/^HTTP\/1\.1 (1\d\d) /gm)].map(([, status]) => Number(status))
    const { status, code } = readAnswer(Buffer.from(text, 'latin1'))
    return { status, code, interim }
  })
  return { body: socket, answer, leave: () => socket.destroy() }
}

/** On HTTP/1.1 the length has to be said. */
const lengthOf = ({ version }: Approach, bytes: number): Fields => (version === 'HTTP/2' ? [] : [['Content-Length', String(bytes)]])

function arrivals(): AwsSetting['arrivals'] {
  return setting.arrivals.filter(({ rawHeaders }) => fieldOf(rawHeaders, 'host') === QUEUE)
}

for (const approach of APPROACHES) {
  test(`nothing of a slow body arrives before its last byte, and then all of it: ${named(approach)}`, async () => {
    const since = arrivals().length
    const text = 'x'.repeat(1000)
    const { body, answer } = await begin(approach, [...fields(text), ...lengthOf(approach, text.length)])
    for (let at = 0; at < 999; at += 111) {
      body.write(text.slice(at, at + 111))
      assert.equal(
        (await ask(setting.every, HTTP1, { host: FILES, fields: setting.sign({ host: FILES }, { region: REGION, service: 's3' }) })).status,
        200,
      )
    }
    assert.equal(arrivals().length, since)
    if (approach.version === 'HTTP/2') body.end('x')
    else body.write('x')
    assert.equal((await answer).status, 200)
    assert.equal(String(arrivals().at(-1)?.body), text)
  })

  test(`a body that ends in the middle is not sent, and the audit says that the agent went: ${named(approach)}`, async () => {
    const since = arrivals().length
    const { gate } = setting.every
    const events = (await gate.audit()).length
    const { body, leave } = await begin(approach, [...fields('whole'), ...lengthOf(approach, 5)])
    await new Promise((resolve) => body.write('who', resolve))
    leave()
    await eventually(async () => {
      const gone = (await gate.audit()).slice(events).filter(({ code }) => code === 'agent_gone')
      assert.deepEqual(
        gone.map(({ event }) => event),
        ['decided', 'finished'],
      )
    })
    assert.equal(arrivals().length, since)
  })

  test(`Expect: 100-continue is answered once, and not where the body is too large: ${named(approach)}`, async () => {
    const expect = [['Expect', '100-continue']] as const
    const fine = await begin(approach, [...fields('whole', expect), ...lengthOf(approach, 5)])
    if (approach.version === 'HTTP/2') await once(fine.body, 'continue')
    fine.body.write('whole')
    if (approach.version === 'HTTP/2') fine.body.end()
    assert.deepEqual(await fine.answer, { status: 200, code: undefined, interim: [100] })
    const tooLarge = await begin(approach, [...fields('', expect), ['Content-Length', String(LIMITS.heldBodyBytesMax + 1)]])
    assert.deepEqual(await tooLarge.answer, { status: 413, code: 'body_too_large', interim: [] })
  })

  test(`a body that does not end is refused where it is too large, and read no further for ever: ${named(approach)}`, async () => {
    const since = arrivals().length
    const framing: Fields = approach.version === 'HTTP/2' ? [] : [['Transfer-Encoding', 'chunked']]
    const { body, answer } = await begin(approach, [...fields(''), ...framing])
    const piece = Buffer.alloc(64 * 1024, 'x')
    const chunk = approach.version === 'HTTP/2' ? piece : Buffer.concat([Buffer.from('10000\r\n'), piece, Buffer.from('\r\n')])
    body.on('error', () => {})
    const over = answer.then(() => 'over')
    while (body.writable) {
      if (!body.write(chunk) && (await Promise.race([once(body, 'drain').catch(() => {}), over])) === 'over') break
    }
    const { status, code } = await answer
    assert.deepEqual([status, code], [413, 'body_too_large'])
    assert.equal(arrivals().length, since)
  })
}

test('a stream that is reset in the middle of its body is not sent', async () => {
  const since = arrivals().length
  const { gate } = setting.every
  const events = (await gate.audit()).length
  const agent = speakFrames(await setting.every.dialTls('CONNECT', QUEUE, 443, { ALPNProtocols: ['h2'] }))
  const head = [
    [':method', 'POST'],
    [':scheme', 'https'],
    [':authority', QUEUE],
    [':path', '/'],
  ] as const
  const more = fields('whole').map(([name, value]) => [name.toLowerCase(), value] as const)
  agent.send(headers(1, [...head, ...more]), frame(TYPE.DATA, 0, 1, Buffer.from('who')), reset(1, 8), PING)
  await agent.until(isPong)
  await eventually(async () => assert.equal((await gate.audit()).slice(events).at(-1)?.['code'], 'agent_gone'))
  assert.equal(arrivals().length, since)
  agent.socket.destroy()
})

test('a chunked body is signed as the body that it is, and arrives with its length', async () => {
  const { body, answer } = await begin(
    HTTP1,
    fields('hello world', [
      ['Transfer-Encoding', 'chunked'],
      ['Trailer', 'x-sum'],
    ]),
  )
  for (const piece of ['5;a=b\r\nhello\r\n', '6\r\n world\r', '\n0\r\nx-sum: 1\r\n\r\n']) body.write(piece)
  assert.equal((await answer).status, 200)
  const arrived = arrivals().at(-1)
  assert.equal(String(arrived?.body), 'hello world')
  assert.deepEqual(
    [fieldOf(arrived?.rawHeaders ?? [], 'content-length'), fieldOf(arrived?.rawHeaders ?? [], 'transfer-encoding')],
    ['11', undefined],
  )
})

test('a hash that ends at the gate is none: the body is held and hashed', async () => {
  // Named in Connection, the field is of this hop alone (RFC 9110 §7.6.1).
  const sent = fields('hello', [
    ['Content-Length', '5'],
    ['X-Amz-Content-Sha256', '0'.repeat(64)],
    ['Connection', 'x-amz-content-sha256'],
  ])
  const { body, answer } = await begin(HTTP1, sent)
  body.write('hello')
  assert.equal((await answer).status, 200)
  assert.equal(fieldOf(arrivals().at(-1)?.rawHeaders ?? [], 'x-amz-content-sha256'), undefined)
})

const COUNT = LIMITS.heldBodiesBytesMax / LIMITS.heldBodyBytesMax
const LARGEST = Buffer.alloc(LIMITS.heldBodyBytesMax, 0x20)

/** As many of the largest bodies as fit, each but for its last byte. All of it has come when this resolves: the gate says so. */
async function fill(): Promise<{ readonly finish: () => void; readonly answers: readonly Promise<number>[] }> {
  const head = { ':method': 'POST', ':path': '/', ...Object.fromEntries(fields(LARGEST)) }
  const streams = await Promise.all(
    Array.from({ length: COUNT }, async () => {
      const session = openSession(QUEUE, await setting.every.dialTls('CONNECT', QUEUE, 443, { ALPNProtocols: ['h2'] }))
      const stream = session.request(head)
      const answer = answerOf(stream).then(({ status }) => {
        session.destroy()
        return status
      })
      await new Promise((resolve) => stream.write(LARGEST.subarray(1), resolve))
      // RFC 9113 §6.7: it is answered behind all that came before it.
      await new Promise((resolve) => session.ping(resolve))
      return { stream, answer }
    }),
  )
  return { finish: () => streams.forEach(({ stream }) => stream.end(' ')), answers: streams.map(({ answer }) => answer) }
}

/** Asks with a body that fits only where there is room. */
async function tryOne(): Promise<Said> {
  const { body, answer } = await begin(HTTP1, [...fields('x'.repeat(100)), ['Content-Length', '100']])
  body.write('x'.repeat(100))
  return answer
}

test('bodies that wait together are bounded; what is over is refused, what waits goes on, and afterwards there is room for as many', async () => {
  for (const _ of ['once', 'again']) {
    const { finish, answers } = await fill()
    assert.deepEqual(await tryOne(), { status: 503, code: 'overloaded', interim: [] })
    // The last byte of each makes it exactly what is allowed: one byte that was left behind would be one too many.
    const { promise, resolve } = Promise.withResolvers<void>()
    const since = arrivals().length
    setting.until = promise
    finish()
    await eventually(() => assert.equal(arrivals().length, since + COUNT))
    // They are whole and on their way, and still in memory.
    assert.equal((await tryOne()).code, 'overloaded')
    setting.until = undefined
    resolve()
    for (const status of await Promise.all(answers)) assert.equal(status, 200)
    await eventually(async () => assert.equal((await tryOne()).status, 200))
  }
})
