import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseUpstreamProxy } from '../../src/sidecar/upstream/proxy.ts'
import { createUpstreams } from '../../src/sidecar/upstream/upstreams.ts'
import { openHttp2Upstream } from '../support/http2-upstream.ts'
import { openUpstream } from '../support/upstream.ts'
import { ask, HOST, keyFor, LEAF, TRUST } from '../support/upstream-client.ts'

/** The real program, in the foreground, that knows HOST as loopback. */
async function openSquid(): Promise<AsyncDisposable & { readonly port: number }> {
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-squid-'))
  const reserved = createServer()
  await once(reserved.listen(0, '127.0.0.1'), 'listening')
  const { port } = reserved.address() as AddressInfo
  await new Promise((resolve) => reserved.close(resolve))
  await chmod(folder, 0o755) // started by root it becomes another user
  const settings = [
    `http_port 127.0.0.1:${port}`,
    `hosts_file ${folder}/hosts`,
    'http_access allow all',
    'access_log none',
    'cache_log /dev/null',
    'pid_filename none',
    'cache deny all',
    'shutdown_lifetime 0 seconds',
    `coredump_dir ${folder}`,
    'netdb_filename none',
    'pinger_enable off',
  ]
  await writeFile(join(folder, 'hosts'), `127.0.0.1 ${HOST}\n`)
  await writeFile(join(folder, 'squid.conf'), `${settings.join('\n')}\n`)
  const program = spawn('squid', ['-N', '-f', join(folder, 'squid.conf')], { stdio: 'ignore' })
  const ended = once(program, 'exit')
  while (program.exitCode === null) {
    const socket = connect(port, '127.0.0.1')
    const isUp = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isUp) break
  }
  return {
    port,
    async [Symbol.asyncDispose]() {
      program.kill('SIGKILL')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}

test('by squid: HTTP/2 and HTTP/1.1 through a tunnel, plain http in absolute form', async () => {
  await using squid = await openSquid()
  await using upstreams = createUpstreams(TRUST, parseUpstreamProxy(`http://127.0.0.1:${squid.port}`))
  for (const protocol of ['h2', 'http/1.1'] as const) {
    await using server = await openHttp2Upstream(LEAF, { protocols: [protocol] })
    const answer = await ask(upstreams.pool(keyFor(server.port, { addresses: undefined })))
    assert.deepEqual([String(answer.body), server.requests[0]?.protocol], ['ok', protocol])
  }
  await using plain = await openUpstream()
  const key = keyFor(plain.port, { scheme: 'http', addresses: undefined })
  assert.equal(String((await ask(upstreams.pool(key), { path: '/a?b', headers: ['host', `${HOST}:${plain.port}`] })).body), 'ok')
  assert.equal(plain.requests[0]?.url, '/a?b')
})
