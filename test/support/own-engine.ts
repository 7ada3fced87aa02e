import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createDockerEngine } from '../../src/controller/sessions/docker-engine.ts'
import type { Engine } from '../../src/controller/sessions/engine.ts'
import { capture } from '../../scripts/steps.ts'
import { AGENT_IMAGE, SIDECAR_IMAGE } from './controller-sessions.ts'

/** An engine of the test's own, which may be killed: nothing of it is shared with the machine's but the kernel and the program. */
export type OwnEngine = AsyncDisposable & {
  readonly engine: Engine
  /** SIGKILL, as a crash of it is. Its containers' processes live on. */
  kill(): Promise<void>
  start(): Promise<void>
}

export async function openOwnEngine(): Promise<OwnEngine> {
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-engine-'))
  const socket = join(folder, 'docker.sock')
  await writeFile(join(folder, 'daemon.json'), '{}')
  let child: ChildProcess
  const engine = createDockerEngine({ socketPath: socket })
  const start = async (): Promise<void> => {
    const place = ['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec'), '--pidfile', join(folder, 'pid')]
    const names = ['--containerd-namespace', 'sallyport-test', '--containerd-plugins-namespace', 'sallyport-test-plugins']
    // A network of its own: it would rewrite the machine's packet filter.
    const argv = [
      '--net',
      'dockerd',
      '--config-file',
      join(folder, 'daemon.json'),
      '--host',
      `unix://${socket}`,
      '--bridge',
      'none',
      ...place,
      ...names,
    ]
    child = spawn('unshare', argv, { stdio: 'ignore' })
    await answering(engine)
  }
  const end = async (signal: 'SIGKILL' | 'SIGTERM'): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }
  const endContainerd = async (): Promise<void> => {
    const pid = await readFile(join(folder, 'exec/containerd/containerd.pid'), 'utf8').catch(() => '')
    if (pid !== '') await capture('kill', ['-9', pid.trim()])
  }
  await start()
  const archive = join(folder, 'images.tar')
  await capture('docker', ['save', '--output', archive, AGENT_IMAGE, SIDECAR_IMAGE])
  await capture('docker', ['--host', `unix://${socket}`, 'load', '--input', archive])
  await rm(archive)
  return {
    engine,
    start,
    async kill() {
      await end('SIGKILL')
      await endContainerd()
      // What it found there of its predecessor it would wait for in vain.
      for (const name of [
        'pid',
        'exec/containerd/containerd.pid',
        'exec/containerd/containerd.sock',
        'exec/containerd/containerd.sock.ttrpc',
      ])
        await rm(join(folder, name), { force: true })
    },
    async [Symbol.asyncDispose]() {
      await end('SIGTERM')
      await endContainerd()
      // Containers' own processes, of which no engine knows any more.
      for (const pid of await processesOf(folder)) process.kill(pid, 'SIGKILL')
      await capture('sh', ['-c', `grep -o "${folder}[^ ]*" /proc/mounts | sort -r | xargs -r umount -l`])
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Processes that were started with a path of this folder. */
async function processesOf(folder: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const found = await Promise.all(
    pids.map(async (pid) => ((await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).includes(`${folder}/`) ? [Number(pid)] : [])),
  )
  return found.flat().filter((pid) => pid !== process.pid)
}

/** It builds up its state for seconds. */
async function answering(engine: Engine): Promise<void> {
  for (let look = 0; ; look += 1) {
    try {
      return void (await engine.info())
    } catch (error) {
      if (look === 600) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
