/** The first policy of a workspace from the page. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fastify } from 'fastify'
import { addStartRoutes } from '../../../src/controller/operator/start-routes.ts'
import { system } from '../../../src/kernel/system.ts'
import type { PlanView } from '../../../src/wire/first-run.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { ROOT } from '../../support/tree.ts'

test('I80 a first policy that cannot be recorded is not written, and neither is one that is not what was shown', async () => {
  await using folder = await temporaryFolder()
  const [home, workspace] = [join(folder.path, 'home'), join(folder.path, 'workspace')]
  for (const one of [home, workspace]) mkdirSync(one)
  let isFull = true
  await using app = fastify()
  addStartRoutes(app, {
    place: { home, packageRoot: ROOT, environment: {} },
    state: { live: () => [], leases: () => [] },
    audit: { append: async () => (isFull ? Promise.reject(new Error('the disk is full')) : undefined) },
    system,
    signal: new AbortController().signal,
  })
  const post = async (url: string, payload: object) => (await app.inject({ method: 'POST', url, payload })).json<PlanView>()
  const wish = { workspace, harness: 'claude' }
  const { file, digest, text } = await post('/v1/start/plan', wish)
  await post('/v1/start/policy', { ...wish, digest, replace: false })
  assert.ok(!existsSync(file))
  isFull = false
  writeFileSync(join(workspace, 'package.json'), '{}')
  await post('/v1/start/policy', { ...wish, digest, replace: false })
  assert.ok(!existsSync(file))
  await post('/v1/start/policy', { ...wish, digest: (await post('/v1/start/plan', wish)).digest, replace: false })
  assert.notEqual(readFileSync(file, 'utf8'), text)
})
