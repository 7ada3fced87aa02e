import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createDockerEngine } from '../../../src/controller/sessions/docker-engine.ts'
import { controlWay } from '../../../src/controller/sessions/plan-session.ts'

const LOCAL = {
  ServerVersion: '28.0.0',
  OperatingSystem: 'Debian GNU/Linux 12 (bookworm)',
  NCPU: 2,
  DockerRootDir: '/var/lib/docker',
  DefaultRuntime: 'runc',
  Runtimes: { runc: {} },
  Driver: 'overlay2',
  SecurityOptions: ['name=seccomp,profile=builtin', 'name=cgroupns'],
}

/** What is chosen for an engine that says this of itself, on a socket of this machine or by TCP. */
async function chosen(info: Partial<typeof LOCAL>, by: 'socket' | 'tcp'): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-way-'))
  const server = createServer((request, response) => {
    const isVersion = request.url?.endsWith('/version') === true || request.url?.includes('/version?') === true
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(isVersion ? { ApiVersion: '1.48' } : { ...LOCAL, ...info }))
  })
  const socketPath = join(folder, 'docker.sock')
  server.listen(by === 'socket' ? { path: socketPath } : { port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  try {
    const tcp = { host: '127.0.0.1', port: (server.address() as AddressInfo).port, protocol: 'http' } as const
    return controlWay(await createDockerEngine(by === 'socket' ? { socketPath } : tcp).info())
  } finally {
    server.close()
    server.closeAllConnections()
    rmSync(folder, { recursive: true })
  }
}

for (const { what, info = {}, by = 'socket', way } of [
  { what: 'an engine on this machine', way: 'unix' },
  { what: 'one with crun', info: { DefaultRuntime: 'crun' }, way: 'unix' },
  { what: 'one whose agents may run in gVisor, while the gate does not', info: { Runtimes: { runc: {}, runsc: {} } }, way: 'unix' },
  { what: 'one that is reached by TCP', by: 'tcp' as const, way: 'stdio' },
  { what: 'Docker Desktop', info: { OperatingSystem: 'Docker Desktop' }, way: 'stdio' },
  { what: 'one that moves uids', info: { SecurityOptions: ['name=userns'] }, way: 'stdio' },
  { what: 'a rootless one', info: { SecurityOptions: ['name=seccomp,profile=builtin', 'name=rootless'] }, way: 'stdio' },
  { what: 'one that runs all in gVisor', info: { DefaultRuntime: 'runsc' }, way: 'stdio' },
  { what: 'one that runs all in gVisor by another name', info: { DefaultRuntime: 'runsc-kvm' }, way: 'stdio' },
  { what: 'one that runs all in machines of their own', info: { DefaultRuntime: 'io.containerd.kata.v2' }, way: 'stdio' },
] as { what: string; info?: Partial<typeof LOCAL>; by?: 'socket' | 'tcp'; way: string }[])
  test(`for ${what} the control channel goes over ${way === 'unix' ? 'a socket' : 'the engine’s streams'}`, async () => {
    assert.equal(await chosen(info, by), way)
  })
