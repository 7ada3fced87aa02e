import assert from 'node:assert/strict'
import { test } from 'node:test'
import { oneDoctorRun } from '../../../src/controller/doctor/one-run.ts'
import type { DoctorRow } from '../../../src/wire/first-run.ts'

const row = (id: string): DoctorRow => ({ id, what: id, state: 'ok', found: '' })

function setting() {
  const runs: { tell: (row: DoctorRow) => void; end: () => void; signal: AbortSignal }[] = []
  const daemon = new AbortController()
  const follow = oneDoctorRun((signal, tell) => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly DoctorRow[]>()
    signal.addEventListener('abort', () => reject(new Error('given up')))
    runs.push({ tell, end: () => resolve([]), signal })
    return promise
  }, daemon.signal)
  return { runs, follow }
}

test('who asks while it looks joins the same look, and is told what is known already', async () => {
  const { runs, follow } = setting()
  const [first, second]: [string[], string[]] = [[], []]
  const one = follow(({ id }) => first.push(id), new AbortController().signal)
  runs[0]?.tell(row('node'))
  const other = follow(({ id }) => second.push(id), new AbortController().signal)
  runs[0]?.tell(row('home'))
  runs[0]?.end()
  assert.deepEqual(await Promise.all([one, other]), [2, 2])
  assert.deepEqual([first, second, runs.length], [['node', 'home'], ['node', 'home'], 1])
  const next = follow(() => undefined, new AbortController().signal)
  assert.equal(runs.length, 2)
  runs[1]?.end()
  await next
})

test('it is given up when the last who follows it has gone, and not before', async () => {
  const { runs, follow } = setting()
  const [a, b] = [new AbortController(), new AbortController()]
  const both = [follow(() => undefined, a.signal), follow(() => undefined, b.signal)]
  a.abort()
  assert.equal(runs[0]?.signal.aborted, false)
  b.abort()
  assert.equal(runs[0]?.signal.aborted, true)
  for (const one of both) await assert.rejects(one, /given up/)
})
