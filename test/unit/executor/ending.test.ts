import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandSetting } from '../../support/executor.ts'
import { running } from '../../support/running-commands.ts'

/** Starts children and grandchildren that ignore what can be ignored, says that it has, and waits. */
const FAMILY = (mark: string): string =>
  `trap '' TERM INT HUP; (trap '' TERM; sh -c "trap '' TERM; : ${mark}; while :; do sleep 1; done" & wait) & echo begun; while :; do sleep 1; done`

test('I45 a command that is called off ends with its whole group, also with what ignores being asked', async () => {
  await using setting = await commandSetting()
  const mark = `executor-${process.pid}-cancel`
  const controller = new AbortController()
  const { code, signal, exitCode, stdout } = await setting.run(
    { argv: ['sh', '-c', FAMILY(mark)] },
    { signal: controller.signal, onOutput: async () => controller.abort() },
  )
  assert.deepEqual(
    { code, signal, exitCode, stdout },
    { code: 'command_cancelled', signal: 'SIGKILL', exitCode: undefined, stdout: 'begun\n' },
  )
  assert.deepEqual(running(mark), [])
})

test('I45 a command that takes too long ends with its whole group', async () => {
  await using setting = await commandSetting()
  const mark = `executor-${process.pid}-time`
  const { code, signal } = await setting.run({ argv: ['sh', '-c', FAMILY(mark)] }, { limits: { timeMs: 300 } })
  assert.deepEqual({ code, signal }, { code: 'command_timed_out', signal: 'SIGKILL' })
  assert.deepEqual(running(mark), [])
})

test('a command may end in its own way when it is called off', async () => {
  await using setting = await commandSetting()
  const controller = new AbortController()
  const { code, exitCode, stdout } = await setting.run(
    { argv: ['sh', '-c', 'trap "echo tidy; exit 4" TERM; echo begun; while :; do sleep 0.05; done'] },
    { signal: controller.signal, onOutput: async () => controller.abort() },
  )
  assert.deepEqual({ code, exitCode, stdout }, { code: 'command_cancelled', exitCode: 4, stdout: 'begun\ntidy\n' })
})

test('what was called off before it began never runs', async () => {
  await using setting = await commandSetting()
  const { code, stdout } = await setting.run({ argv: ['echo', 'x'] }, { signal: AbortSignal.abort() })
  assert.deepEqual({ code, stdout }, { code: 'command_cancelled', stdout: '' })
})

test('what a command leaves behind in its group ends with it', async () => {
  await using setting = await commandSetting()
  const mark = `executor-${process.pid}-behind`
  const { exitCode, stdout } = await setting.run({ argv: ['sh', '-c', `sh -c ': ${mark}; while :; do sleep 1; done' & echo done`] })
  assert.deepEqual({ exitCode, stdout }, { exitCode: 0, stdout: 'done\n' })
  assert.deepEqual(running(mark), [])
})

test('a reader that fails, and one that never takes anything, do not keep a command from its end', async () => {
  await using setting = await commandSetting()
  const failing = await setting.run({ argv: ['seq', '100'] }, { onOutput: () => Promise.reject(new Error('gone')) })
  assert.equal(failing.stdout.trim().split('\n').length, 100)
  const controller = new AbortController()
  const silent = await setting.run(
    { argv: ['sh', '-c', 'while :; do echo x; done'] },
    {
      signal: controller.signal,
      onOutput: () => {
        controller.abort()
        return new Promise(() => undefined)
      },
    },
  )
  assert.equal(silent.code, 'command_cancelled')
})
