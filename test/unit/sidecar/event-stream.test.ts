import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readEvents } from '../../../src/sidecar/gateway/event-stream.ts'

async function eventsOf(chunks: Iterable<string>, charsMax: number): Promise<readonly { data: string; id: string | undefined }[]> {
  async function* body(): AsyncGenerator<Buffer> {
    for (const chunk of chunks) yield Buffer.from(chunk)
  }
  const events: { data: string; id: string | undefined }[] = []
  for await (const event of readEvents(body(), charsMax)) events.push(event)
  return events
}

test('events are what they are however the stream is cut: line ends of all kinds, several lines of data, ids, comments', async () => {
  const text = ': hello\n\nid: 1\ndata: a\r\ndata:b\r\rdata: c\n\nid\nevent: x\n\ndata\n\nid: 2\ndata: ü\n\ndata: cut off'
  const whole = await eventsOf([text], 100)
  assert.deepEqual(whole, [
    { data: 'a\nb', id: '1' },
    { data: 'c', id: '1' },
    { data: '', id: '' },
    { data: 'ü', id: '2' },
  ])
  assert.deepEqual(await eventsOf(text, 100), whole)
})

test('an event has an end, also one whose lines are empty', async () => {
  for (const line of ['data:\n', 'data\n', 'x\n', ':\n'])
    await assert.rejects(
      eventsOf(
        Array.from({ length: 2_000 }, () => line),
        1_000,
      ),
      /too long/,
      line,
    )
  await assert.rejects(
    eventsOf(
      Array.from({ length: 2_000 }, () => 'x'),
      1_000,
    ),
    /too long/,
  )
})

test('a line that comes a byte at a time is looked at once: with each byte anew it would take minutes', async () => {
  const [event] = await eventsOf(['data:', ...Array.from({ length: 400_000 }, () => 'x'), '\n\n'], 1024 * 1024)
  assert.equal(event?.data.length, 400_000)
})
