import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { capture, mayInstall, step } from '../scripts/steps.ts'
import { BENCH, inWork } from './places.ts'

/** Peers that are packages of npm, pinned, each with the script that starts it. */
export const NPM_PEERS: Readonly<Record<string, { readonly install: string; readonly script: string }>> = {
  'proxy-chain': { install: 'proxy-chain@3.0.1', script: 'proxy-chain.mjs' },
  mockttp: { install: 'mockttp@4.6.5', script: 'mockttp.mjs' },
  'http-mitm-proxy': { install: 'http-mitm-proxy@1.1.0', script: 'http-mitm-proxy.cjs' },
  srt: { install: '@anthropic-ai/sandbox-runtime@0.0.78', script: 'srt.mjs' },
}

/** Installs the npm peers of a list, each in a folder of its own, and gives back those that cannot be had with the reason. */
export async function installNpmPeers(peers: readonly string[]): Promise<Map<string, string>> {
  const skipped = new Map<string, string>()
  for (const peer of peers) {
    const one = NPM_PEERS[peer]
    if (one === undefined) continue
    const home = inWork('npm', peer)
    const note = path.join(home, '.installed')
    mkdirSync(home, { recursive: true })
    if (!existsSync(note) || readFileSync(note, 'utf8') !== one.install) {
      if (!mayInstall) {
        skipped.set(peer, `${one.install} is missing, and SALLYPORT_NO_INSTALL=1 forbids installing it`)
        continue
      }
      const { code } = await step(`getting ${one.install} (npm)`, (onLine) => npmInstall(home, one.install, onLine))
      if (code !== 0) {
        skipped.set(peer, `${one.install} cannot be installed`)
        continue
      }
      writeFileSync(note, one.install)
    }
    // Beside the packages that it imports.
    copyFileSync(path.join(BENCH, 'peers', one.script), path.join(home, one.script))
  }
  return skipped
}

function npmInstall(home: string, what: string, onLine: (line: string) => void): ReturnType<typeof capture> {
  writeFileSync(path.join(home, 'package.json'), '{"private": true}\n')
  const npm = process.env['npm_execpath']
  const [command, before] = npm?.endsWith('.js') === true ? [process.execPath, [npm]] : ['npm', []]
  const quiet = ['--save-exact', '--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error']
  return capture(command, [...before, 'install', '--prefix', home, ...quiet, what], { cwd: home, onLine })
}
