import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { openContent } from '../../src/sidecar/egress/scrub/content.ts'
import type { ScrubPlan } from '../../src/sidecar/egress/scrub/plan.ts'
import { scrubbableRequest } from '../../src/sidecar/egress/scrub/request.ts'
import { WebSocketFrames } from '../../src/sidecar/egress/scrub/websocket-frames.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { createRedactor } from '../../src/redactor/redactor.ts'
import { frame, framesOf, messagesOf } from '../support/server-frames.ts'

const SECRET = 'p4ss/w0rd+="x'
const MARKS = '*'.repeat(SECRET.length)
const plan: ScrubPlan = { redactor: createRedactor([new Secret('token', SECRET)]), mode: 'replace', onHits: () => true }

/** Text that has the secret, parts of it, and other things that are not in any encoding of it. */
const text = fc
  .array(fc.constantFrom(SECRET, SECRET.slice(0, 6), SECRET.slice(6), '!', '\n\n', '~'.repeat(200)), { maxLength: 6 })
  .map((parts) => parts.join(''))
const clean = (value: string): string => value.replaceAll(SECRET, MARKS)

/** The same bytes in pieces. */
function cutAt(bytes: Buffer, borders: readonly number[]): Buffer[] {
  const at = [0, ...borders.map((border) => border % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end))
}
const borders = fc.array(fc.nat(), { maxLength: 8 })

function message(payload: string): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(Buffer.byteLength(payload), 1)
  return Buffer.concat([head, Buffer.from(payload)])
}

test('messages of gRPC come out whole, each without the secret, however they are cut', () => {
  fc.assert(
    fc.property(fc.array(text, { maxLength: 5 }), borders, (texts, cuts) => {
      const content = openContent(plan, 'application/grpc')
      const out = cutAt(Buffer.concat(texts.map(message)), cuts).map((chunk) => content.push(chunk))
      // Nothing was waiting for the end.
      assert.deepEqual(Buffer.concat(out), Buffer.concat(texts.map((one) => message(clean(one)))))
      assert.equal(content.end().length, 0)
    }),
  )
})

test('text and events come out without the secret and as long as they came, however they are cut', () => {
  fc.assert(
    fc.property(text, borders, fc.constantFrom('text/event-stream', 'text/plain', ''), (body, cuts, type) => {
      const content = openContent(plan, type)
      const out = cutAt(Buffer.from(body), cuts).map((chunk) => content.push(chunk))
      assert.equal(Buffer.concat([...out, content.end()]).toString(), clean(body))
    }),
  )
})

const fragments = fc.record({
  parts: fc.array(text, { minLength: 1, maxLength: 4 }),
  opcode: fc.constantFrom(1, 2),
  ping: fc.option(text.filter((one) => one.length < 126)),
})

test('messages of a WebSocket come out whole and without the secret, control frames in between, however they are cut', () => {
  fc.assert(
    fc.property(fc.array(fragments, { maxLength: 4 }), borders, (messages, cuts) => {
      const bytes = messages.flatMap(({ parts, opcode, ping }) =>
        parts.flatMap((part, i) => [
          frame((i === 0 ? opcode : 0) | (i === parts.length - 1 ? 0x80 : 0), part),
          ...(ping === null ? [] : [frame(0x89, ping)]),
        ]),
      )
      const frames = new WebSocketFrames(plan)
      const out = framesOf(Buffer.concat(cutAt(Buffer.concat(bytes), cuts).map((chunk) => frames.push(chunk))))
      assert.deepEqual(
        messagesOf(out).map(String),
        messages.map(({ parts }) => clean(parts.join(''))),
      )
      assert.deepEqual(
        out.filter(({ first }) => first === 0x89).map(({ payload }) => payload.toString()),
        messages.flatMap(({ parts, ping }) => (ping === null ? [] : parts.map(() => clean(ping)))),
      )
      assert.deepEqual(
        out.filter(({ first }) => [1, 2, 0x81, 0x82].includes(first)).map(({ first }) => first & 0x0f),
        messages.map(({ opcode }) => opcode),
      )
    }),
  )
})

test('any bytes in the place of frames or messages are refused, or come out as frames and messages', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), borders, (bytes, cuts) => {
      for (const pushed of [new WebSocketFrames(plan), openContent(plan, 'application/grpc')]) {
        try {
          for (const chunk of cutAt(Buffer.from(bytes), cuts)) pushed.push(chunk)
        } catch (error) {
          assert.equal((error as { code?: string }).code, 'answer_not_scrubbable')
        }
      }
    }),
  )
})

test('what is asked for can be asked for again: a request that is scrubbable stays as it is', () => {
  const name = fc.constantFrom('Accept-Encoding', 'accept-encoding', 'Range', 'x', 'grpc-accept-encoding', 'Sec-WebSocket-Extensions')
  const value = fc.array(fc.constantFrom('gzip', 'br;q=0.1', '*', 'exi', ' zstd ', ''), { maxLength: 4 }).map((items) => items.join(','))
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value), { maxLength: 6 }), (fields) => {
      const once = scrubbableRequest(fields.flat())
      assert.deepEqual(scrubbableRequest(once), once)
    }),
  )
})
