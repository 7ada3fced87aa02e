import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Secret } from '../src/kernel/secret.ts'
import { createRedactor, type Redactor } from '../src/redactor/redactor.ts'
import { ROOT } from './steps.ts'

const BYTES = 8_000_000
const RUNS = 3
/** What a response body comes in. */
const CHUNK_BYTES = 64 * 1024

/** What looking for secrets costs, as lines of megabytes per second of processor time: the best of some runs. */
export function redactorCost(): string[] {
  const token = (): string => randomBytes(30).toString('base64url')
  const secrets = Array.from({ length: 20 }, token)
  const texts: readonly (readonly [name: string, text: Buffer])[] = [
    ['English', filled(readFileSync(path.join(ROOT, 'LICENSE')))],
    ['JSON', filled(readFileSync(path.join(ROOT, 'package-lock.json')))],
    ['base64', filled(Buffer.from(randomBytes(1_500_000).toString('base64')))],
    ['random bytes', filled(randomBytes(2_000_000))],
  ]
  const cost = (count: number, name: string, text: Buffer, chunkBytes: number): string => {
    const redactor = createRedactor(secrets.slice(0, count).map((value, i) => new Secret(`S${i}`, value)))
    const seconds = Math.min(...Array.from({ length: RUNS }, () => secondsFor(redactor, text, chunkBytes)))
    return `${`redact ${count} secrets, ${name}`.padEnd(44)} ${(text.length / 1e6 / seconds).toFixed(1).padStart(6)} MB/s`
  }
  const echoes = filled(Buffer.from(`${secrets[0]} `)).subarray(0, BYTES / 16)
  return [1, 5, 20].flatMap((count) => [
    ...texts.map(([name, text]) => cost(count, name, text, CHUNK_BYTES)),
    cost(count, 'English in chunks of 16 bytes', texts[0]?.[1].subarray(0, BYTES / 8) ?? echoes, 16),
    cost(count, 'nothing but a secret', echoes, CHUNK_BYTES),
  ])
}

function filled(text: Buffer): Buffer {
  return Buffer.alloc(BYTES, text)
}

function secondsFor(redactor: Redactor, text: Buffer, chunkBytes: number): number {
  const began = process.cpuUsage()
  const stream = redactor.open()
  for (let at = 0; at < text.length; at += chunkBytes) stream.push(text.subarray(at, at + chunkBytes))
  stream.flush()
  const { user, system } = process.cpuUsage(began)
  return (user + system) / 1e6
}
