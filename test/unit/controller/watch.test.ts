import assert from 'node:assert/strict'
import { test } from 'node:test'
import { watchEngine } from '../../../src/controller/sessions/watch.ts'
import type { Engine } from '../../../src/controller/sessions/engine.ts'

for (const [how, end] of [
  ['ends its events', () => undefined],
  ['breaks them off', () => Promise.reject(new Error('gone'))],
] as const)
  test(`everything is looked at again when the engine ${how}, before it is listened to again`, async () => {
    const over = new AbortController()
    const done: string[] = []
    const engine = {
      info: async () => void done.push('info'),
      async *events() {
        done.push('events')
        if (done.length > 1) over.abort()
        else await end()
        yield* []
      },
    } as unknown as Engine
    const resync = async (): Promise<void> => void done.push('resync')
    await watchEngine(
      engine,
      '/home',
      async () => {},
      resync,
      () => {},
      over.signal,
    )
    assert.deepEqual(done, ['events', 'info', 'resync', 'events'])
  })
