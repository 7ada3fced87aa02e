import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Secret } from '../../../src/kernel/secret.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createRedactor } from '../../../src/redactor/redactor.ts'
import { redact, secretsOf } from '../../support/redaction.ts'

const SECRET = 'ghp_7f3A/9c+5e"1b'
const TOKEN = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const open = (...values: string[]) => createRedactor(secretsOf(values)).open()
const text = (given: string, ...values: string[]) => createRedactor(secretsOf(values)).text(given)

for (const { given, out, why } of [
  { given: `Bearer ${SECRET}`, out: 'Bearer *****************', why: 'as it is' },
  { given: `x${SECRET}${SECRET}y`, out: 'x**********************************y', why: 'twice in a row' },
  { given: 'k=ghp_7f3A%2F9c%2B5e%221b&', out: 'k=***********************&', why: 'URL-encoded' },
  { given: 'ghp_7f3A%252f9c%252B5e%25221b', out: '*****************************', why: 'URL-encoded twice, in either case' },
  { given: '"ghp_7f3A\\/9c+5e\\"1b"', out: '"*******************"', why: 'in JSON' },
  { given: '\\"ghp_7f3A\\\\\\/9c+5e\\\\\\"1b\\"', out: '\\"***********************\\"', why: 'in JSON in JSON' },
  { given: '"ghp_7f3A/9c\\u002B5e\\u00221b"', out: '"***************************"', why: 'in JSON as .NET writes it' },
  { given: '<b>ghp_7f3A&#x2F;9c&#43;5e&quot;1b</b>', out: '<b>*******************************</b>', why: 'in HTML' },
  { given: 'ghp_7f3A%2f9c&#43;5e\\"1b', out: '************************', why: 'encodings mixed' },
  { given: '0x6768705F376633412F39632B3565223162', out: '0x0000000000000000000000000000000000', why: 'in hexadecimal' },
  {
    given: 'dXNlcjpnaHBfN2YzQS85Yys1ZSIxYg==',
    out: 'dXNlcjAAAAAAAAAAAAAAAAAAAAAAAA==',
    why: 'in base64 behind "user:", with no bit of it left',
  },
  { given: 'eGdocF83ZjNBLzljKzVlIjFieQ', out: 'eAAAAAAAAAAAAAAAAAAAAAAAeQ', why: 'in base64 behind one byte' },
  { given: 'Z2hwXzdmM0Ev\r\nOWMrNWUiMWI=', out: 'AAAAAAAAAAAA\r\nAAAAAAAAAAA=', why: 'in base64 lines, which stay lines' },
  { given: 'Z2hwXzdmM0Ev\\nOWMrNWUiMWI=', out: 'AAAAAAAAAAAA\\nAAAAAAAAAAA=', why: 'in base64 lines in JSON, which stays JSON' },
])
  test(`I1 a secret ${why} is replaced byte by byte`, () =>
    assert.deepEqual(text(given, SECRET), { text: out, hits: given.startsWith('x') ? 2 : 1 }))

for (const { given, values, why } of [
  { given: SECRET.slice(0, -1), values: [SECRET], why: 'all but the last letter' },
  { given: SECRET.slice(1), values: [SECRET], why: 'all but the first letter' },
  { given: SECRET.toUpperCase(), values: [SECRET], why: 'the letters in another case' },
  { given: 'Z2hwXzdmM0Ev\n\nOWMrNWUiMWI=', values: [SECRET], why: 'base64 with an empty line in it' },
  { given: '', values: [SECRET], why: 'nothing' },
  { given: 'anything', values: [''], why: 'any text, when the secret is empty' },
  { given: 'ghp_%', values: [], why: 'any text, when there is no secret' },
])
  test(`${why} is left as it is`, () => assert.deepEqual(text(given, ...values), { text: given, hits: 0 }))

test('a secret with letters beyond ASCII is found as UTF-8, by code point and by UTF-16 unit', () => {
  const secret = 'pä€ß😀word'
  const written = [
    secret,
    encodeURIComponent(secret),
    'p\\u00e4\\u20AC\\u00df\\ud83d\\ude00word',
    'p&auml'.slice(0, 1) + '&#228;&#8364;&#xDF;&#128512;word',
  ]
  for (const one of written) assert.match(redact([secret], Buffer.from(one)).out.toString('latin1'), /^\*+$/)
  assert.deepEqual(redact([secret], Buffer.from(Buffer.from(secret).toString('hex'))).out.toString(), '0'.repeat(32))
})

test('a secret of several lines is found with either line end, escaped and encoded', () => {
  const secret = '-----BEGIN KEY-----\nMIIEvQIBADAN\n-----END KEY-----'
  for (const write of [String, JSON.stringify, encodeURIComponent, (one: string) => one.replaceAll('\n', '\r\n')]) {
    assert.match(redact([secret], Buffer.from(write(secret))).out.toString(), /^"?\*+"?$/)
  }
  assert.match(
    redact([secret], Buffer.from(new URLSearchParams({ k: secret }).toString().replaceAll('%0A', '%0D%0A'))).out.toString(),
    /^k=\*+$/,
  )
})

test('matches of several secrets that overlap are replaced together and count as one', () => {
  assert.deepEqual(text('xabcdefghy', 'abcdef', 'defgh', 'abcdefg'), { text: 'x********y', hits: 1 })
  assert.deepEqual(text('abcdef abcdefg', 'abcdef', 'abcdefg'), { text: '****** *******', hits: 2 })
  assert.deepEqual(text('aaaaaaaaaaa', 'aaaaaa'), { text: '***********', hits: 1 })
})

test('a secret that ends in an escape sign is replaced with the escape behind it', () => {
  assert.equal(text('secret%25.', 'secret%').text, '*********.')
  assert.equal(text('secret%2', 'secret%').text, '*******2')
  assert.equal(text('secret&amp;x', 'secret&').text, '***********x')
})

test('a long secret is found whole, in part, and wherever its base64 is wrapped', () => {
  const secret = randomBytes(30_000).toString('base64url')
  assert.equal(redact([secret], Buffer.from(`x${secret}y`), [777]).out.toString(), `x${'*'.repeat(40_000)}y`)
  assert.match(redact([secret], Buffer.from(secret.slice(1_000, 3_000))).out.toString(), /\*{988,}/)
  const lines = Buffer.from(`user:${secret}`).toString('base64').replaceAll(/.{76}/g, '$&\r\n')
  assert.match(redact([secret], Buffer.from(lines), [1_000]).out.toString(), /^dXNlcj[A\r\n]+=*$/)
})

test('what is held back of a stream is bounded, however long the secret and the text are', () => {
  const secret = 'k'.repeat(LIMITS.secretBytesMax)
  const stream = open(secret)
  let held = 0
  for (let i = 0; i < 50; i++) {
    held += 1_000 - stream.push(Buffer.alloc(1_000, 'k'.repeat(200) + 'x')).length
    assert.ok(held <= 16 * 1024)
  }
  assert.equal(stream.flush().length, held)
})

test('a chunk with nothing to hold back or to replace goes on as it is, not as a copy', () => {
  const chunk = Buffer.from('{"id": 1}\n')
  assert.equal(open(SECRET).push(chunk), chunk)
  assert.equal(open().push(chunk), chunk)
  const bytes = new Uint8Array(chunk)
  assert.equal(open(SECRET).push(bytes).buffer, bytes.buffer)
})

for (const { chunk, gives, why } of [
  { chunk: 'data: {"text": "ghp_"}\n\n', gives: 24, why: 'an event that is complete' },
  { chunk: 'data: ghp_0123\n\n', gives: 16, why: 'an event that ends in the beginning of a secret' },
  { chunk: 'data: ghp_0123\r\n\r\n', gives: 18, why: 'the same with CR LF' },
  { chunk: '{"a": "ghp_0123"}\n', gives: 18, why: 'a line of JSON' },
  { chunk: 'data: ghp_0123', gives: 6, why: 'a word that may go on' },
  { chunk: 'data: Hello', gives: 6, why: 'a word that no secret begins with: it is held back as well' },
  { chunk: 'see Hello\r\n', gives: 4, why: 'a word and one line break, behind which base64 may go on' },
])
  test(`of ${why} ${gives} of ${chunk.length} bytes go on at once`, () => assert.equal(open(TOKEN).push(Buffer.from(chunk)).length, gives))

test('flush ends a message: what begins before it and ends behind it is no match, and matches are counted on', () => {
  const stream = open(TOKEN)
  const parts = [stream.push(Buffer.from(TOKEN.slice(0, 20))), stream.flush(), stream.push(Buffer.from(TOKEN.slice(20))), stream.flush()]
  assert.equal(Buffer.concat(parts).toString(), TOKEN)
  assert.equal(stream.hits, 0)
  for (let i = 1; i <= 3; i++) {
    assert.equal(Buffer.concat([stream.push(Buffer.from(TOKEN)), stream.flush()]).toString(), '*'.repeat(40))
    assert.equal(stream.hits, i)
  }
  assert.equal(stream.flush().length, 0)
})

test('a match is counted by the time that its last byte has come, before anything behind it', () => {
  const stream = open(TOKEN)
  assert.equal(stream.push(Buffer.from(`x ${TOKEN.slice(0, 39)}`)).toString(), 'x ')
  assert.equal(stream.hits, 0)
  assert.equal(stream.push(Buffer.from('z')).length, 0)
  assert.equal(stream.hits, 1)
  assert.equal(stream.flush().toString(), '*'.repeat(40))
})

test('of many values together it is known whether one has a secret, and none has one over their borders', () => {
  const controls = String.fromCharCode(...Array.from({ length: 32 }, (_, i) => i))
  for (const secrets of [[TOKEN], [TOKEN, 'QQ'], [TOKEN, `${controls}!`], []]) {
    const redactor = createRedactor(secretsOf(secrets))
    assert.equal(redactor.areClean(['', TOKEN.slice(0, 20), TOKEN.slice(20), TOKEN.slice(0, -1), '']), true)
    assert.equal(redactor.areClean([TOKEN.slice(0, 20), TOKEN, '']), secrets.length === 0)
    assert.equal(redactor.areClean([`${'~'.repeat(40_000)}${TOKEN}`, '']), secrets.length === 0)
    assert.equal(redactor.areClean(['~'.repeat(40_000), Buffer.from(TOKEN).toString('hex')]), secrets.length === 0)
    assert.equal(redactor.areClean([]), true)
  }
})

test('values that would be a secret if they were one are none, whatever may stand between them', () => {
  const controls = Array.from({ length: 32 }, (_, i) => String.fromCharCode(i))
  for (const control of controls) {
    const secrets = [`left${control}right`, TOKEN]
    for (const more of [[], controls.map((one) => `left${one}right`)]) {
      const redactor = createRedactor(secretsOf([...secrets, ...more]))
      assert.equal(redactor.areClean(['left', 'right', 'left', 'right']), true)
      // A line break within base64 would be part of it.
      assert.equal(redactor.areClean(Buffer.from(TOKEN).toString('base64').match(/.{20}/g) ?? []), true)
      assert.equal(redactor.areClean(['left', `left${control}right`]), false)
    }
  }
})

test('the last chunk gives what push and flush would give, whether a secret begins before it or not', () => {
  const echo = `a ${TOKEN} ${Buffer.from(`~${TOKEN}`).toString('base64')} ${TOKEN.slice(0, -1)}`
  for (let at = 0; at <= echo.length; at++) {
    const [one, other] = [open(TOKEN), open(TOKEN)]
    const chunks = [Buffer.from(echo.slice(0, at)), Buffer.from(echo.slice(at))] as const
    const out = Buffer.concat([one.push(chunks[0]), one.last(chunks[1])])
    assert.deepEqual(out, Buffer.concat([other.push(chunks[0]), other.push(chunks[1]), other.flush()]))
    assert.deepEqual([one.hits, other.hits], [2, 2])
    assert.equal(one.flush().length, 0)
    assert.equal(one.last(Buffer.from(TOKEN)).toString(), '*'.repeat(40))
  }
})

test('streams of one redactor do not know of each other', () => {
  const redactor = createRedactor([new Secret('S', TOKEN)])
  const [one, other] = [redactor.open(), redactor.open()]
  one.push(Buffer.from(TOKEN.slice(0, 20)))
  other.push(Buffer.from(TOKEN.slice(20)))
  assert.equal(one.flush().toString() + other.flush().toString(), TOKEN)
  assert.equal(one.hits + other.hits, 0)
})

test('values of one host that are too large together are refused; the same value again takes no room', () => {
  const large = (): string => randomBytes(LIMITS.secretBytesMax / 2).toString('hex')
  assert.throws(() => createRedactor(secretsOf(Array.from({ length: 16 }, large))), { code: 'secret_invalid' })
  assert.ok(createRedactor(secretsOf(Array.from<string>({ length: 16 }).fill(large()))))
})
