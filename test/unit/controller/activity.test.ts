/** The live list of what sessions do in the network: joined from the lines of their audit, bounded, and counted right. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { createActivity, type Activity } from '../../../src/controller/activity/activity.ts'
import { readEarlier } from '../../../src/controller/activity/read-back.ts'
import { encodeEvent, encodeIdentity, sealLine, type AuditEvent } from '../../../src/audit/line.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { matchesActivity, type ActivityLine } from '../../../src/wire/activity.ts'
import { decided, finished, NOW, recordingLog, temporaryFolder } from '../../support/audit.ts'
import { heapBytes, MB } from '../../support/memory.ts'

const log = { warn: () => undefined }
const EVERYTHING = LIMITS.activityPageMax * 100

/** A session's chain as its sidecar writes it, and what the controller does with what comes of it. */
function writing(activity: Activity, session = 's-1') {
  let [seq, offset] = [0, 0]
  const lines: string[] = []
  return {
    lines,
    write: (events: readonly AuditEvent[], timeMs = NOW): void => {
      const some = events.map((event) => {
        seq += 1
        return sealLine(seq, encodeEvent(encodeIdentity({ session }), event, timeMs), '0'.repeat(64)).line.slice(0, -1)
      })
      activity.take(some, { session, chain: 1, offset })
      offset += some.reduce((sum, { length }) => sum + length + 1, 0)
      lines.push(...some)
    },
  }
}

const at = (now = NOW) => createActivity({ now: () => now }, log)
const all = (activity: Activity): readonly ActivityLine[] => activity.list({}, undefined, EVERYTHING).lines

test('the lines of one request are one, with how it was decided and how it ended', () => {
  const activity = at()
  const { write, lines } = writing(activity)
  write([{ event: 'started', version: '1', policy: 'a'.repeat(64) }])
  write([decided('r1', { method: 'GET', scheme: 'https', path: '/user', credential: 'github,other', plane: 'control_plane' })])
  assert.equal(all(activity)[0]?.state, 'open')
  write([finished('r1')])
  const [line] = all(activity)
  assert.deepEqual(line, {
    n: 1,
    session: 's-1',
    request: 'r1',
    at: NOW,
    lane: 'connect',
    plane: 'control_plane',
    scheme: 'https',
    method: 'GET',
    host: 'api.example.com',
    port: 443,
    path: '/user',
    decision: 'allow',
    rule: 'api',
    credentials: ['github', 'other'],
    state: 'done',
    status: 200,
    bytesUp: 1,
    bytesDown: 2,
    durationMs: 3,
  })
  const held = activity.find('s-1', 'r1')
  assert.equal(held?.policy, 'a'.repeat(64))
  const text = `${lines.join('\n')}\n`
  assert.deepEqual(
    held?.places.map(({ offset, bytes }) => text.slice(offset, offset + bytes)),
    lines.slice(1),
    'where it is in the chain',
  )
})

test('what is refused while the operator is asked is neither allowed nor denied, and says that it was asked', () => {
  const activity = at()
  const { write } = writing(activity)
  write([decided('r1', { decision: 'deny', code: 'approval_pending' }), decided('r2', { decision: 'deny', code: 'approval_denied' })])
  write([decided('r3', { decision: 'deny', code: 'host_not_allowed' })])
  const shown = all(activity).map(({ decision, isAsked }) => [decision, isAsked])
  assert.deepEqual(shown, [
    ['deny', undefined],
    ['deny', true],
    ['ask', true],
  ])
  const { buckets } = activity.series({ minutes: 1 })
  assert.deepEqual([buckets.at(-1)?.requests, buckets.at(-1)?.denials, buckets.at(-1)?.asks], [3, 2, 2])
})

test('a request that the operator is asked about is there while it waits, and one line with what becomes of it', () => {
  const activity = at()
  const { write } = writing(activity)
  const subject = { kind: 'domain', rule: 'ask', lane: 'http', host: 'a.example', port: 80, method: 'GET', path: '/x?key=1' } as const
  activity.ask('s-1', { request: 'r1', subject })
  assert.deepEqual(
    all(activity).map(({ decision, state, path }) => [decision, state, path]),
    [['ask', 'open', '/x']],
  )
  assert.equal(activity.requestsPerMinute('s-1'), 0)
  write([decided('r1'), finished('r1')])
  assert.deepEqual(
    all(activity).map(({ n, decision, isAsked, state }) => [n, decision, isAsked, state]),
    [[1, 'allow', true, 'done']],
  )
  assert.equal(activity.requestsPerMinute('s-1'), 1)
})

test('calls of tools and exchanges of tokens are lines of their own', () => {
  const activity = at()
  const { write } = writing(activity)
  write([{ event: 'tool_called', server: 'files', tool: 'read', decision: 'deny' }])
  write([{ event: 'token_requested', host: 'login.example.com' }])
  assert.deepEqual(
    all(activity).map(({ request, lane, host, path, decision, state }) => [request, lane, host, path, decision, state]),
    [
      ['line-2', 'token', 'login.example.com', undefined, 'allow', 'done'],
      ['line-1', 'mcp', 'files', 'read', 'deny', 'done'],
    ],
  )
})

test('what is open when its session ends is lost, and what of other sessions is open stays', () => {
  const activity = at()
  writing(activity, 's-1').write([decided('r1')])
  writing(activity, 's-2').write([decided('r1')])
  activity.end('s-1')
  assert.deepEqual(
    all(activity).map(({ session, state }) => [session, state]),
    [
      ['s-2', 'open'],
      ['s-1', 'lost'],
    ],
  )
})

test('only the newest are kept, pages follow one another without a gap, and an end of what is gone changes nothing', () => {
  const activity = at()
  const { write } = writing(activity)
  const more = 7
  const names = Array.from({ length: LIMITS.activityLinesMax + more }, (_, index) => `r${index}`)
  for (const name of names) write([decided(name)])
  write([finished('r0')])
  const seen: string[] = []
  let before: number | undefined
  do {
    const page = activity.list({}, before, 999)
    seen.push(...page.lines.map(({ request }) => request))
    before = page.before
  } while (before !== undefined)
  assert.deepEqual(seen, names.slice(more).toReversed())
})

test('lines that are none, and members of another type, are left out without a word', () => {
  const activity = at()
  const lines = ['', '{"event":"decided"', '{"event":"decided","time":5}', '[]"event":"decided"', 'null']
  activity.take(lines, { session: 's-1', chain: 1, offset: 0 })
  activity.take(['{"seq":1,"time":"2026-01-01T00:00:00.000Z","event":"decided","request":"r","port":"1","host":{},"lane":"x"}'], {
    session: 's-1',
    chain: 1,
    offset: 0,
  })
  const [line] = all(activity)
  assert.deepEqual([all(activity).length, line?.lane, line?.host, line?.port], [1, 'http', undefined, undefined])
})

const REQUEST = fc.record({
  session: fc.constantFrom('s-1', 's-2'),
  plane: fc.constantFrom('agent' as const, 'control_plane' as const),
  isAllowed: fc.boolean(),
  isFinished: fc.boolean(),
  up: fc.nat(1_000_000),
  down: fc.nat(1_000_000),
  agoMs: fc.nat(3_000_000),
})

test('property: what is counted over time is what was sent, of each session and plane and of all together', () => {
  fc.assert(
    fc.property(fc.array(REQUEST, { maxLength: 60 }), (requests) => {
      const activity = at()
      const chains = { 's-1': writing(activity, 's-1'), 's-2': writing(activity, 's-2') }
      requests.forEach(({ session, plane, isAllowed, isFinished, up, down, agoMs }, index) => {
        chains[session].write([decided(`r${index}`, { plane, decision: isAllowed ? 'allow' : 'deny' })], NOW - agoMs)
        if (isFinished)
          chains[session].write([{ event: 'finished', request: `r${index}`, bytes_up: up, bytes_down: down, duration_ms: 1 }], NOW - agoMs)
      })
      for (const session of ['s-1', 's-2', undefined] as const)
        for (const plane of ['agent', 'control_plane', undefined] as const)
          for (const minutes of [60, 24 * 60]) {
            const { buckets } = activity.series({ session, plane, minutes })
            const own = requests.filter((one) => (session ?? one.session) === one.session && (plane ?? one.plane) === one.plane)
            const ended = own.filter(({ isFinished }) => isFinished)
            const sum = (of: (bucket: (typeof buckets)[number]) => number): number => buckets.reduce((so, bucket) => so + of(bucket), 0)
            assert.equal(
              sum((bucket) => bucket.requests),
              own.length,
            )
            assert.equal(
              sum((bucket) => bucket.denials),
              own.filter(({ isAllowed }) => !isAllowed).length,
            )
            assert.equal(
              sum((bucket) => bucket.bytesUp),
              ended.reduce((so, { up }) => so + up, 0),
            )
            assert.equal(
              sum((bucket) => bucket.bytesDown),
              ended.reduce((so, { down }) => so + down, 0),
            )
          }
    }),
    { numRuns: 20 },
  )
})

test('of lines that a gate made as long as they may be no more is kept than is shown', () => {
  const before = heapBytes()
  const activity = at()

  for (let seq = 1; seq <= 200; seq += 1) {
    const long = `${seq}${'x'.repeat(30_000)}`
    const texts = Object.fromEntries(
      ['network', 'scheme', 'method', 'host', 'path', 'rule', 'note', 'credential'].map((name) => [name, long]),
    )
    const fields = { seq, time: new Date(NOW).toISOString(), event: 'decided', request: `r${seq}`, decision: 'allow', ...texts }
    activity.take([JSON.stringify(fields)], { session: 's-1', chain: 1, offset: 0 })
  }
  assert.equal(all(activity).length, 200)
  assert.ok(heapBytes() - before < 4 * MB)
})

test('half of the answers took at most a quarter less than p50 says, and a tunnel is no answer', () => {
  const activity = at()
  const { write } = writing(activity)
  for (let ms = 1; ms <= 1_000; ms += 1)
    write([decided(`r${ms}`, { method: 'GET' }), { event: 'finished', request: `r${ms}`, bytes_up: 0, bytes_down: 0, duration_ms: ms }])
  write([decided('t', { note: 'tcp' }), { event: 'finished', request: 't', bytes_up: 0, bytes_down: 0, duration_ms: 500_000 }])
  const { p50 = 0, p95 = 0 } = activity.series({ minutes: 1 }).buckets.at(-1) ?? {}
  assert.ok(p50 >= 500 && p50 <= 625, `${p50}`)
  assert.ok(p95 >= 950 && p95 <= 1_188, `${p95}`)
})

test('sessions without end take no more room than is set, and all together are still counted', () => {
  const activity = at()
  const count = LIMITS.activityTracksMax * 2
  for (let index = 0; index < count; index += 1) writing(activity, `s-${index}`).write([decided('r')])
  assert.equal(activity.requestsPerMinute('s-0'), 0)
  assert.equal(activity.requestsPerMinute(`s-${count - 1}`), 1)
  assert.equal(activity.series({ minutes: 1 }).buckets.at(-1)?.requests, count)
})

test('who listens is told each line as it is last, some at a time, and how many were too many', async () => {
  const activity = at()
  const { write } = writing(activity)
  const ended = new AbortController()
  const batches = activity.listen(ended.signal)
  assert.deepEqual((await batches.next()).value, { begins: true, lines: [], missed: 0 })
  const more = 3
  for (let index = 0; index < LIMITS.activityWaitingMax + more; index += 1) write([decided(`r${index}`), finished(`r${index}`)])
  const first = (await batches.next()).value
  assert.equal(first?.missed, more)
  assert.equal(first?.lines.length, LIMITS.activityBatchLinesMax)
  assert.deepEqual([first?.lines[0]?.request, first?.lines[0]?.state], [`r${more}`, 'done'])
  const second = (await batches.next()).value
  assert.deepEqual([second?.missed, second?.lines[0]?.request], [0, `r${more + LIMITS.activityBatchLinesMax}`])
  ended.abort()
  assert.equal((await batches.next()).done, true)
})

for (const { host, wanted, matches } of [
  { host: 'api.example.com', wanted: 'EXAMPLE', matches: true },
  { host: 'api.example.com', wanted: '*.example.com', matches: true },
  { host: 'example.com', wanted: '*.example.com', matches: false },
  { host: 'evilexample.com', wanted: '*.example.com', matches: false },
  { host: undefined, wanted: 'a', matches: false },
])
  test(`the filter "${wanted}" ${matches ? 'shows' : 'leaves out'} ${host ?? 'a line without a host'}`, () => {
    const line = { credentials: [], ...(host !== undefined && { host }) } as unknown as ActivityLine
    assert.equal(matchesActivity(line, { host: wanted }), matches)
  })

test('what an earlier daemon kept is read back in the order in which it happened, with where it is', async () => {
  await using folder = await temporaryFolder()
  const other = at()
  const [a, b] = [writing(other, 's-1'), writing(other, 's-2')]
  a.write([decided('r1')], NOW - 3_000)
  b.write([decided('r1'), finished('r1')], NOW - 2_000)
  a.write([finished('r1'), decided('r2')], NOW - 1_000)
  writeFileSync(join(folder.path, 's-1.jsonl'), `${a.lines.join('\n')}\n{"seq":9,"event":"decided"`)
  writeFileSync(join(folder.path, 's-2.3.jsonl'), `${b.lines.join('\n')}\n`)
  writeFileSync(join(folder.path, 'else.txt'), `${b.lines.join('\n')}\n`)
  const activity = at()
  activity.takeEarlier(await readEarlier(folder.path, recordingLog().log), (session) => session === 's-1')
  assert.deepEqual(
    all(activity).map(({ session, request, state }) => [session, request, state]),
    [
      ['s-1', 'r2', 'lost'],
      ['s-2', 'r1', 'done'],
      ['s-1', 'r1', 'done'],
    ],
  )
  const place = activity.find('s-1', 'r2')?.places[0]
  const text = `${a.lines.join('\n')}\n`
  assert.equal(text.slice(place?.offset, (place?.offset ?? 0) + (place?.bytes ?? 0)), a.lines[2])
  assert.equal(activity.find('s-2', 'r1')?.places[0]?.chain, 's-2.3')
})

test('of chains that are longer than what is read the newest lines are there, and none that was cut in two', async () => {
  await using folder = await temporaryFolder()
  const { write, lines } = writing(at())
  const path = `/${'x'.repeat(900)}`
  while (lines.length * 1_200 < LIMITS.activityReadBytesMax * 1.2)
    write(Array.from({ length: 500 }, (_, index) => decided(`r${lines.length + index}`, { path })))
  writeFileSync(join(folder.path, 's-1.jsonl'), `${lines.join('\n')}\n`)
  const earlier = await readEarlier(folder.path, recordingLog().log)
  assert.ok(earlier.length < lines.length && earlier.length > 1_000)
  assert.deepEqual(
    earlier.map(({ text }) => text),
    lines.slice(-earlier.length),
  )
})
