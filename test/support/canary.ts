import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createReadStream, existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { TestContext } from 'node:test'
import { capture } from '../../scripts/steps.ts'
import { hostPids, inspected } from './inspected.ts'

/** A value in the spellings in which something might keep it. */
export function spellingsOf(value: string): Buffer[] {
  const bytes = Buffer.from(value)
  const base64 = [0, 1, 2].map((shift) => {
    const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64')
    // Without the characters that other bytes before and after would change.
    return encoded.slice(Math.ceil((shift * 8) / 6), -4)
  })
  return [value, bytes.toString('hex'), ...base64, ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'))].map((text) =>
    Buffer.from(text),
  )
}

/** Whether one of the spellings is in the stream, also across its chunks. */
export async function isInStream(stream: Readable, needles: readonly Buffer[]): Promise<boolean> {
  const overlap = Math.max(...needles.map(({ length }) => length)) - 1
  let rest = Buffer.alloc(0)
  let isFound = false
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const whole = Buffer.concat([rest, chunk])
    isFound ||= needles.some((needle) => whole.includes(needle))
    rest = whole.subarray(Math.max(0, whole.length - overlap))
  }
  return isFound
}

/** The files below a folder that have one of the spellings in them. */
export async function filesWith(folder: string, needles: readonly Buffer[]): Promise<string[]> {
  const found: string[] = []
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const path = join(folder, name)
    const stat = lstatSync(path)
    if (stat.isDirectory()) found.push(...(await filesWith(path, needles)))
    else if (stat.isFile() && (await isInStream(createReadStream(path), needles))) found.push(path)
  }
  return found
}

export function isAbsent(bytes: Buffer, needles: readonly Buffer[]): boolean {
  return needles.every((needle) => !bytes.includes(needle))
}

export function streamOf([file = '', ...argv]: readonly string[], env: Record<string, string> = {}) {
  return spawn(file, argv, { stdio: ['ignore', 'pipe', 'ignore'], env: { ...process.env, ...env } }).stdout
}

/** What the engine says and keeps of a container, what its processes were started with, and all of its files. */
export async function searchContainer(id: string, needles: readonly Buffer[], t: TestContext): Promise<void> {
  const image = await inspected<string>(id, '.Image')
  const writable = 'tar -C / -cf - --ignore-failed-read tmp run home var/lib etc/sallyport dev/shm 2>/dev/null'
  for (const argv of [
    ['docker', 'inspect', id],
    ['docker', 'logs', id],
    ['docker', 'image', 'inspect', image],
    ['docker', 'history', '--no-trunc', image],
    ['docker', 'export', id],
    ['docker', 'exec', id, 'sh', '-c', writable],
  ])
    assert.equal(await isInStream(streamOf(argv), needles), false, argv.join(' '))
  const pids = await hostPids(id)
  assert.ok(pids.length > 0)
  for (const pid of pids)
    for (const name of ['environ', 'cmdline']) {
      try {
        assert.ok(isAbsent(readFileSync(`/proc/${pid}/${name}`), needles), `${name} of ${pid}`)
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
        t.diagnostic(`/proc/${pid}/${name} cannot be read by this user`)
      }
    }
  const root = (await capture('docker', ['info', '--format', '{{.DockerRootDir}}'])).stdout.trim()
  try {
    assert.ok(readdirSync(join(root, 'containers', id)).length > 0)
    assert.deepEqual(await filesWith(join(root, 'containers', id), needles), [])
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error
    t.diagnostic(`${root} cannot be read by this user`)
  }
}
