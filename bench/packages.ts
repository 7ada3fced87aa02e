import { accessSync, chmodSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { aptInstall } from '../scripts/engine.ts'
import { SetupError, capture, mayInstall } from '../scripts/steps.ts'

/** Where programs are looked for: daemons of Debian are in /usr/sbin, which is not in every PATH. */
export const SEARCH_PATH = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`
/** Asked by Debian's maintainer scripts before they start a service. */
const START_POLICY = '/usr/sbin/policy-rc.d'

export type SystemPackage = { readonly program: string; readonly packages: readonly string[] }

/** What nothing can be measured without. */
export const NEEDED: readonly SystemPackage[] = [
  { program: 'cc', packages: ['build-essential', 'libssl-dev'] },
  { program: 'openssl', packages: ['openssl'] },
  { program: 'nginx', packages: ['nginx-light'] },
  { program: 'taskset', packages: ['util-linux'] },
]

/** Peers (and the client for HTTP/2) that are packages of Debian. */
export const SYSTEM_PEERS: Readonly<Record<string, SystemPackage>> = {
  squid: { program: 'squid', packages: ['squid-openssl'] },
  trafficserver: { program: 'traffic_server', packages: ['trafficserver'] },
  dante: { program: 'danted', packages: ['dante-server'] },
  haproxy: { program: 'haproxy', packages: ['haproxy'] },
  tinyproxy: { program: 'tinyproxy', packages: ['tinyproxy'] },
  mitmproxy: { program: 'mitmdump', packages: ['mitmproxy'] },
  goref: { program: 'go', packages: ['golang-go'] },
  h2load: { program: 'h2load', packages: ['nghttp2-client'] },
}

/** The path of a program; undefined when it is not installed. */
export function findProgram(name: string): string | undefined {
  if (name.includes('/')) return existsSync(name) ? name : undefined
  return SEARCH_PATH.split(':')
    .map((folder) => path.join(folder, name))
    .find(isExecutable)
}

/**
 * Installs what is missing of a list, those that are needed in one go, and gives back the names of peers that cannot be had,
 * each with the reason.
 * @throws SetupError when one is missing that nothing can be measured without.
 */
export async function installPackages(peers: readonly string[]): Promise<Map<string, string>> {
  const missing = NEEDED.filter(({ program }) => findProgram(program) === undefined)
  await withoutServices(async () => {
    if (missing.length > 0) await aptInstall(missing.flatMap(({ packages }) => packages))
  }, missing)
  const gone = NEEDED.find(({ program }) => findProgram(program) === undefined)
  if (gone !== undefined) throw new SetupError(`${gone.program} is missing`, [`run: apt-get install ${gone.packages.join(' ')}`])
  const skipped = new Map<string, string>()
  const wanted = peers.flatMap((peer) => {
    const one = SYSTEM_PEERS[peer]
    return one === undefined || findProgram(one.program) !== undefined ? [] : [{ peer, ...one }]
  })
  await withoutServices(async () => {
    // One after another: a package that cannot be had must not cost the others.
    for (const { peer, packages } of wanted) {
      try {
        await aptInstall(packages)
      } catch (error) {
        if (!(error instanceof SetupError)) throw error
        skipped.set(peer, `the package ${packages.join(', ')} cannot be installed`)
      }
    }
  }, wanted)
  for (const { peer, program } of wanted) {
    if (!skipped.has(peer) && findProgram(program) === undefined) skipped.set(peer, `${program} is not installed`)
  }
  return skipped
}

/** Runs an installation in which no service is started: what is measured is started here, and on its own ports. */
async function withoutServices(install: () => Promise<void>, wanted: readonly unknown[]): Promise<void> {
  if (wanted.length === 0 || !mayInstall || process.getuid?.() !== 0 || (await capture('apt-get', ['--version'])).code !== 0) return
  const isOurs = !existsSync(START_POLICY)
  if (isOurs) {
    writeFileSync(START_POLICY, '#!/bin/sh\nexit 101\n')
    chmodSync(START_POLICY, 0o755)
  }
  try {
    await install()
  } finally {
    if (isOurs) rmSync(START_POLICY, { force: true })
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
