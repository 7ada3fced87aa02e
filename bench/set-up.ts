import { existsSync, mkdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { SetupError, run } from '../scripts/steps.ts'
import { makeCertificates } from './certificates.ts'
import { makeWebRoot, preparePeers, writeConfiguration } from './configuration.ts'
import { installNpmPeers } from './npm-peers.ts'
import { findProgram, installPackages } from './packages.ts'
import { BENCH, WORK, inWork } from './places.ts'

/**
 * Makes the work folder ready for these peers; may run again at any time. Gives back those that cannot be had, with the reason.
 * @throws SetupError when nothing could be measured
 */
export async function setUp(peers: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (/\s/.test(WORK)) throw new SetupError(`the work folder's path must have no spaces: ${WORK}`, ['set BENCH_WORK'])
  for (const name of ['bin', 'ca', 'conf', 'log', 'npm', 'results', 'run']) mkdirSync(inWork(name), { recursive: true })
  const skipped = new Map([...(await installPackages([...peers, 'h2load'])), ...(await installNpmPeers(peers))])
  await compile('pload', ['-lssl', '-lcrypto'])
  await compile('h2dial', ['-lpthread'])
  if (peers.includes('goref') && findProgram('go') !== undefined) await buildGoref()
  await makeCertificates()
  await writeConfiguration(makeWebRoot())
  for (const [peer, why] of await preparePeers(peers)) skipped.set(peer, why)
  if (process.getuid?.() === 0) warnOfClosedFolders()
  for (const [peer, why] of skipped) process.stderr.write(`· without ${peer}: ${why}\n`)
  return skipped
}

async function compile(name: string, libraries: readonly string[]): Promise<void> {
  const source = path.join(BENCH, 'load', `${name}.c`)
  if (isNewer(inWork('bin', name), source)) return
  await run('cc', ['-O2', '-o', inWork('bin', name), source, ...libraries])
}

async function buildGoref(): Promise<void> {
  const source = path.join(BENCH, 'peers', 'goref.go')
  if (isNewer(inWork('bin', 'goref'), source)) return
  // One file of the standard library: no module, nothing to download.
  const env = { ...process.env, GO111MODULE: 'off', GOFLAGS: '', GOCACHE: inWork('run', 'go-cache') }
  await run('go', ['build', '-o', inWork('bin', 'goref'), source], { env })
}

function isNewer(made: string, source: string): boolean {
  return existsSync(made) && statSync(made).mtimeMs > statSync(source).mtimeMs
}

/** squid, trafficserver and dante run as users of their own, and read their files as these. */
function warnOfClosedFolders(): void {
  for (let folder = WORK; folder !== path.dirname(folder); folder = path.dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0)
      process.stderr.write(`· ${folder} cannot be entered by other users: squid, trafficserver and dante will fail\n`)
  }
}
