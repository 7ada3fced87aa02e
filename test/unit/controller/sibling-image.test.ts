import assert from 'node:assert/strict'
import { test } from 'node:test'
import { siblingImage } from '../../../src/controller/sessions/sibling-image.ts'
import type { SessionParts, SessionRecord } from '../../../src/controller/sessions/session-parts.ts'

test('a program that the image has where a sibling has an empty folder is not the one that runs, nor is what a link there leads to', async () => {
  const files = new Map([
    ['/home/agent/.local/bin/tool', { kind: 'file', isExecutable: true }],
    ['/data/bin/tool', { kind: 'file', isExecutable: true }],
    ['/opt/bin/tool', { kind: 'link', linkTarget: '/run/tool' }],
    ['/run/tool', { kind: 'file', isExecutable: true }],
    ['/usr/bin/tool', { kind: 'file', isExecutable: true }],
    ['/tmp/only', { kind: 'file', isExecutable: true }],
  ])
  const removed: string[] = []
  const engine = {
    image: async () => ({
      id: 'sha256:1111',
      environment: ['PATH=/home/agent/.local/bin:/data/bin:/opt/bin:/usr/bin:/tmp'],
      volumes: ['/data/'],
      labels: {},
      user: '',
      entrypoint: [],
      command: [],
    }),
    create: async () => 'look',
    stat: async (_: string, path: string) => files.get(path),
    remove: async (container: string) => void removed.push(container),
  }
  const parts = { engine, home: '/home', system: { random: (bytes: number) => Buffer.alloc(bytes) } } as unknown as SessionParts
  const record = { agent: { options: { Image: 'agent', User: '1000:1000', HostConfig: { Runtime: 'runc' } } } } as unknown as SessionRecord
  const image = await siblingImage(parts, 'abcdefghijklmnop', record)
  assert.equal(await image.resolve('tool'), '/usr/bin/tool')
  for (const name of ['only', '/home/agent/.local/bin/tool', '/data/bin/tool', '/opt/bin/tool', '../tmp/only'])
    assert.equal(await image.resolve(name), undefined, name)
  assert.equal(removed.length, 6)
})
