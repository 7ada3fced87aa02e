/** I10 Where an answer ends does not depend on how its bytes arrive. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { MessageParser, type MessageHead } from '../../src/http1/parser.ts'

type Told =
  | { readonly head: Pick<MessageHead, 'status' | 'reason' | 'version' | 'headers' | 'keepsAlive'> }
  | { readonly body: string }
  | { readonly trailers: readonly string[] }

/** One answer: what it says, and its bytes. `isLast` when only the end of the connection ends it, or nothing comes behind it. */
type Sample = { readonly bytes: Buffer; readonly told: readonly Told[]; readonly isBare: boolean; readonly isLast: boolean }

const TOKEN = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}$/)
// White space at the ends of a value is no part of it.
const VALUE = fc.stringMatching(/^([!-~\x80-\xff]([ \t!-~\x80-\xff]{0,20}[!-~\x80-\xff])?)?$/)
const FRAMING = new Set(['content-length', 'transfer-encoding', 'connection', 'proxy-connection', 'upgrade', 'keep-alive'])
const FIELDS = fc
  .array(fc.tuple(TOKEN, VALUE), { maxLength: 5 })
  .map((fields) => fields.filter(([name]) => !FRAMING.has(name.toLowerCase())).flat())
const BODY = fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes).toString('latin1'))
const REASON = fc.stringMatching(/^[!-~]{0,10}$/)

function headOf(version: string, status: number, reason: string, fields: readonly string[]): string {
  let text = `HTTP/${version} ${status} ${reason}\r\n`
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  return `${text}\r\n`
}

function sample(
  head: {
    readonly version?: MessageHead['version']
    readonly status: number
    readonly reason: string
    readonly headers: string[]
    readonly keepsAlive?: boolean
  },
  wire: string,
  body: string,
  trailers: string[] = [],
  more: { readonly isBare?: boolean; readonly isLast?: boolean } = {},
): Sample {
  const { version = '1.1', status, reason, headers, keepsAlive = true } = head
  return {
    bytes: Buffer.from(headOf(version, status, reason, headers) + wire, 'latin1'),
    told: [{ head: { status, reason, version, headers, keepsAlive } }, ...(body === '' ? [] : [{ body }]), { trailers }],
    isBare: false,
    isLast: false,
    ...more,
  }
}

const START = { reason: REASON, headers: FIELDS }
const FINAL = fc.constantFrom(200, 201, 299, 400, 404, 500, 599)
const interim = fc.record({ ...START, status: fc.constantFrom(100, 102, 103) }).map((head) => sample(head, '', ''))
const empty = fc.record({ ...START, status: fc.constantFrom(204, 304) }).map((head) => sample(head, '', ''))
const sized = fc
  .tuple(fc.record({ ...START, status: FINAL }), BODY)
  .map(([head, body]) => sample({ ...head, headers: [...head.headers, 'Content-Length', `${body.length}`] }, body, body))
const bare = fc
  .record({ ...START, status: FINAL })
  .map((head) => sample({ ...head, headers: [...head.headers, 'Content-Length', '5'] }, '', '', [], { isBare: true }))
const chunked = fc
  .tuple(fc.record({ ...START, status: FINAL }), fc.array(BODY, { maxLength: 4 }), FIELDS)
  .map(([head, pieces, trailers]) => {
    const chunks = pieces.filter((piece) => piece !== '').map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
    const last = headOf('1.1', 200, '', trailers).replace(/^[^\n]*\n/, '')
    return sample(
      { ...head, headers: [...head.headers, 'Transfer-Encoding', 'chunked'] },
      `${chunks.join('')}0\r\n${last}`,
      pieces.join(''),
      trailers,
    )
  })
const closing = fc
  .tuple(fc.record({ ...START, status: FINAL }), BODY, fc.constantFrom<MessageHead['version'][]>('1.0', '1.1'))
  .map(([head, body, version]) => sample({ ...head, version, keepsAlive: false }, body, body, [], { isLast: true }))

const ANSWERS = fc.tuple(fc.array(fc.oneof(interim, empty, sized, bare, chunked), { maxLength: 5 }), closing).map((all) => all.flat())
const CUTS = fc.array(fc.integer({ min: 0, max: 2_000 }), { maxLength: 30 })

/** What a parser tells of these bytes in pieces, with pieces of a body joined. `stops` has it held up behind every piece of a body. */
function read(answers: readonly Sample[], cuts: readonly number[], stops: boolean): Told[] {
  const told: Told[] = []
  let messages = 0
  using parser = new MessageParser(
    'response',
    {
      onHead({ status, reason, version, headers, keepsAlive }) {
        told.push({ head: { status, reason, version, headers, keepsAlive } })
        return answers[messages]?.isBare === true ? 'nothing' : 'body'
      },
      onBody(bytes) {
        const last = told.at(-1)
        const text = bytes.toString('latin1')
        if (last && 'body' in last) told[told.length - 1] = { body: last.body + text }
        else told.push({ body: text })
        if (stops) parser.stop()
      },
      onEnd(trailers) {
        told.push({ trailers })
        messages += 1
      },
    },
    32 * 1024,
  )
  const bytes = Buffer.concat(answers.map((answer) => answer.bytes))
  const places = [0, ...cuts.filter((cut) => cut < bytes.length).toSorted((a, b) => a - b), bytes.length]
  for (const [i, from] of places.entries()) {
    let piece = bytes.subarray(from, places[i + 1] ?? bytes.length)
    while (piece.length > 0) piece = piece.subarray(parser.execute(piece))
  }
  parser.execute(Buffer.alloc(0))
  parser.finish()
  return told
}

test('I10 answers in pieces of any sizes say what they say as a whole: where each ends, its fields, its body, its trailers', () => {
  fc.assert(
    fc.property(ANSWERS, CUTS, fc.boolean(), (answers, cuts, stops) => {
      assert.deepEqual(
        read(answers, cuts, stops),
        answers.flatMap(({ told }) => told),
      )
    }),
    { numRuns: 500 },
  )
})

test('I10 answers byte by byte say the same', () => {
  fc.assert(
    fc.property(ANSWERS, (answers) => {
      const every = Array.from({ length: answers.reduce((sum, { bytes }) => sum + bytes.length, 0) }, (_, at) => at)
      assert.deepEqual(
        read(answers, every, false),
        answers.flatMap(({ told }) => told),
      )
    }),
    { numRuns: 100 },
  )
})
