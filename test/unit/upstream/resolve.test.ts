import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { createResolve, type AskDns, type Resolve } from '../../../src/sidecar/upstream/resolve.ts'
import { hostname, writeFiles } from '../../support/policy.ts'

type Records = readonly { address: string; ttl: number }[]

/** A resolver with a clock set by hand, a DNS that is a function, and a record of what was asked. */
function openTestResolve(
  answer: (host: string, family: 4 | 6) => Records | Promise<Records>,
  options: { fixed?: Record<string, string[]>; hosts?: string } = {},
): { resolve: Resolve; asked: string[]; clock: { ms: number } } {
  using files = writeFiles({ hosts: options.hosts ?? '' })
  const asked: string[] = []
  const clock = { ms: 1_000_000 }
  const ask: AskDns = async (host, family) => {
    asked.push(`${host} ${family}`)
    return answer(host, family)
  }
  const resolve = createResolve(
    { fixed: new Map(Object.entries(options.fixed ?? {})), hostsFile: files.at('hosts'), ask },
    { now: () => clock.ms },
  )
  return { resolve, asked, clock }
}

const API = hostname('api.example.com')
const failing = (code: string) => (): Promise<Records> => Promise.reject(Object.assign(new Error('dns'), { code }))
const one =
  (ttl: number, address = '192.0.2.1') =>
  (_host: string, family: 4 | 6): Records =>
    family === 4 ? [{ address, ttl }] : []

test('IPv4 addresses come before IPv6 ones, and none twice', async () => {
  const { resolve } = openTestResolve((_host, family) =>
    family === 6
      ? [{ address: '2001:db8::1', ttl: 60 }]
      : [
          { address: '192.0.2.2', ttl: 60 },
          { address: '192.0.2.1', ttl: 60 },
          { address: '192.0.2.2', ttl: 60 },
        ],
  )
  assert.deepEqual(await resolve(API), ['192.0.2.2', '192.0.2.1', '2001:db8::1'])
})

test('IPv4 addresses come first though the DNS answers for IPv6 earlier', async () => {
  let answerV4: (records: Records) => void = () => {}
  const v4 = new Promise<Records>((settle) => (answerV4 = settle))
  const { resolve } = openTestResolve((_host, family) => {
    if (family === 4) return v4
    answerV4([{ address: '192.0.2.1', ttl: 60 }])
    return [{ address: '2001:db8::1', ttl: 60 }]
  })
  assert.deepEqual(await resolve(API), ['192.0.2.1', '2001:db8::1'])
})

test('an address is its own answer and is not asked for', async () => {
  const { resolve, asked } = openTestResolve(one(60))
  assert.deepEqual(await resolve(hostname('192.0.2.9')), ['192.0.2.9'])
  assert.deepEqual(await resolve(hostname('[2001:db8::9]')), ['2001:db8::9'])
  assert.deepEqual(asked, [])
})

test("the operator's own address beats the hosts file, and that beats the DNS", async () => {
  const hosts = '# a comment\n192.0.2.7 api.example.com # and one more\n192.0.2.8\tOther.Example.com\talias.example.com\n'
  const { resolve, asked } = openTestResolve(one(60, '192.0.2.9'), { fixed: { 'api.example.com': ['192.0.2.6'] }, hosts })
  assert.deepEqual(await resolve(API), ['192.0.2.6'])
  assert.deepEqual(await resolve(hostname('other.example.com')), ['192.0.2.8'])
  assert.deepEqual(await resolve(hostname('alias.example.com')), ['192.0.2.8'])
  assert.deepEqual(asked, [])
  assert.deepEqual(await resolve(hostname('www.example.com')), ['192.0.2.9'])
})

test('a hosts file gives IPv4 first too, and its broken lines mean nothing', async () => {
  const hosts = '2001:db8::1 api.example.com\nnonsense api.example.com\n\n999.1.1.1 api.example.com\n192.0.2.7 api.example.com\n192.0.2.8\n'
  const { resolve } = openTestResolve(one(60), { hosts })
  assert.deepEqual(await resolve(API), ['192.0.2.7', '2001:db8::1'])
})

test('without a hosts file the DNS answers', async () => {
  const resolve = createResolve(
    { fixed: new Map(), hostsFile: '/nonexistent/hosts', ask: async () => [{ address: '192.0.2.1', ttl: 60 }] },
    Date,
  )
  assert.deepEqual(await resolve(API), ['192.0.2.1'])
})

for (const { ttl, keptMs, why } of [
  { ttl: 20, keptMs: 20_000, why: 'its time to live' },
  { ttl: 0, keptMs: LIMITS.dnsTtlMinMs, why: 'the least time, where the record says none' },
  { ttl: 86_400, keptMs: LIMITS.dnsTtlMaxMs, why: 'the most time, where the record says a day' },
]) {
  test(`an answer is kept for ${why}: ${keptMs} ms`, async () => {
    const { resolve, asked, clock } = openTestResolve(one(ttl))
    await resolve(API)
    clock.ms += keptMs - 1
    await resolve(API)
    assert.equal(asked.length, 2, 'one question for each family')
    clock.ms += 1
    await resolve(API)
    assert.equal(asked.length, 4)
  })
}

test('the shortest time to live of all records counts', async () => {
  const { resolve, asked, clock } = openTestResolve((_host, family) => [
    { address: family === 4 ? '192.0.2.1' : '2001:db8::1', ttl: family === 4 ? 50 : 5 },
  ])
  await resolve(API)
  clock.ms += 5_000
  await resolve(API)
  assert.equal(asked.length, 4)
})

test('I4 an answer that expired is not used while the next question fails', async () => {
  let isDown = false
  const { resolve, clock } = openTestResolve((host, family) => (isDown ? failing('ESERVFAIL')() : one(5)(host, family)))
  await resolve(API)
  clock.ms += 5_000
  isDown = true
  await assert.rejects(async () => resolve(API), { code: 'upstream_name_failed' })
})

test('one look-up serves all who ask while it is under way', async () => {
  let answer: (records: Records) => void = () => {}
  const pending = new Promise<Records>((settle) => (answer = settle))
  const { resolve, asked, clock } = openTestResolve((_host, family) => (family === 4 ? pending : []))
  const all = Promise.all([resolve(API), resolve(API), resolve(API)])
  clock.ms += 3_600_000
  const late = resolve(API)
  assert.equal(asked.length, 2)
  answer([{ address: '192.0.2.1', ttl: 60 }])
  assert.deepEqual([...(await all), await late], [['192.0.2.1'], ['192.0.2.1'], ['192.0.2.1'], ['192.0.2.1']])
  assert.equal(asked.length, 2)
})

test('a failure is for those who asked, and is not kept', async () => {
  let isDown = true
  const { resolve, asked } = openTestResolve((host, family) => (isDown ? failing('ESERVFAIL')() : one(60)(host, family)))
  const both = await Promise.allSettled([resolve(API), resolve(API)])
  assert.deepEqual(
    both.map((result) => result.status),
    ['rejected', 'rejected'],
  )
  assert.equal(asked.length, 2)
  isDown = false
  assert.deepEqual(await resolve(API), ['192.0.2.1'])
})

for (const { why, answer, message } of [
  { why: 'does not exist', answer: failing('ENOTFOUND'), message: '"api.example.com" could not be resolved (ENOTFOUND)' },
  { why: 'has no records', answer: () => [], message: '"api.example.com" could not be resolved (no address)' },
  { why: 'is not answered in time', answer: failing('ETIMEOUT'), message: '"api.example.com" could not be resolved (ETIMEOUT)' },
]) {
  test(`a name that ${why} fails with upstream_name_failed and says so`, async () => {
    await assert.rejects(async () => openTestResolve(answer).resolve(API), { code: 'upstream_name_failed', message })
  })
}

test('one family that fails does not hide the other', async () => {
  const { resolve } = openTestResolve((host, family) => (family === 6 ? failing('ESERVFAIL')() : one(60)(host, family)))
  assert.deepEqual(await resolve(API), ['192.0.2.1'])
})

test('the cache is bounded: a name that came before as many others as it holds is asked for again', async () => {
  const { resolve, asked } = openTestResolve(one(60))
  await resolve(API)
  for (let i = 1; i < LIMITS.dnsCacheMax; i += 1) await resolve(hostname(`h${i}.example.com`))
  const before = asked.length
  await resolve(API)
  assert.equal(asked.length, before, 'it is the oldest of a full cache')
  await resolve(hostname('one-more.example.com'))
  await resolve(API)
  assert.equal(asked.length, before + 4)
})
