import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Owner } from './agent-files.ts'

/** Makes the folder of a compose project's secrets; with the demo's token in it, made at random once, where the demo is asked for. */
export function makeSecretsFolder(secretsDir: string, demo: boolean): void {
  mkdirSync(secretsDir, { recursive: true, mode: 0o700 })
  const token = demoTokenFile(secretsDir)
  if (demo && !existsSync(token)) writeFileSync(token, randomBytes(32).toString('base64url'), { mode: 0o400, flag: 'wx' })
}

/** By what the demo's upstream knows the token that it never holds: SHA-256, hex. */
export function demoTokenHash(secretsDir: string): string {
  return createHash('sha256')
    .update(readFileSync(demoTokenFile(secretsDir), 'utf8').trim())
    .digest('hex')
}

/** Only the sidecar's uid reads the secrets. The owner can be set by root only; anybody else is that uid already. */
export function handOver(secretsDir: string, owner: Owner): void {
  const isRoot = process.getuid?.() === 0
  for (const name of readdirSync(secretsDir)) {
    const file = join(secretsDir, name)
    if (!lstatSync(file).isFile()) continue
    chmodSync(file, 0o400)
    if (isRoot) chownSync(file, owner.uid, owner.gid)
  }
  chmodSync(secretsDir, 0o700)
  if (isRoot) chownSync(secretsDir, owner.uid, owner.gid)
}

function demoTokenFile(secretsDir: string): string {
  return join(secretsDir, 'DEMO_TOKEN')
}
