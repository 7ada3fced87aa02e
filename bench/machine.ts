import { cpus, loadavg, release } from 'node:os'

import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { capture } from '../scripts/steps.ts'
import { VERSION } from '../src/kernel/version.ts'
import { NPM_PEERS } from './npm-peers.ts'
import { SEARCH_PATH, SYSTEM_PEERS } from './packages.ts'
import { inWork } from './places.ts'
import type { Machine } from './results.ts'

/** How each program says its version. */
const VERSION_FLAGS: Readonly<Record<string, readonly string[]>> = {
  squid: ['-v'],
  trafficserver: ['--version'],
  dante: ['-v'],
  haproxy: ['-v'],
  tinyproxy: ['-v'],
  mitmproxy: ['--version'],
  goref: ['version'],
  h2load: ['--version'],
}

/** This machine, and the versions of everything that is compared on it. */
export async function describeMachine(peers: readonly string[]): Promise<Machine> {
  const versions: Record<string, string> = { sallyport: VERSION, node: process.versions.node, openssl: process.versions.openssl }
  versions['nginx'] = firstVersion(await say('nginx', ['-v']))
  for (const peer of [...peers, 'h2load']) {
    const flags = VERSION_FLAGS[peer]
    const program = SYSTEM_PEERS[peer]?.program
    const manifest = inWork('npm', peer, 'node_modules', nameOf(NPM_PEERS[peer]?.install ?? ''), 'package.json')
    if (flags !== undefined && program !== undefined) versions[peer === 'goref' ? 'go' : peer] = firstVersion(await say(program, flags))
    else if (peer in NPM_PEERS && existsSync(manifest))
      versions[peer] = (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
  }
  return {
    type: 'machine',
    date: new Date().toISOString().slice(0, 10),
    cpu: cpus()[0]?.model ?? 'cpu',
    cpus: cpus().length,
    kernel: release(),
    loadAverage: loadavg()[0] ?? 0,
    versions,
  }
}

async function say(program: string, flags: readonly string[]): Promise<string> {
  const { stdout, stderr } = await capture(program, flags, { env: { ...process.env, PATH: SEARCH_PATH }, timeoutMs: 10_000 })
  return stdout + stderr
}

/** The first thing in a text that looks like a version. */
export function firstVersion(text: string): string {
  return /\d+(?:\.\d+)+/.exec(text)?.[0] ?? 'unknown'
}

function nameOf(install: string): string {
  return path.join(...install.slice(0, install.lastIndexOf('@')).split('/'))
}
