// Plain JavaScript without dependencies: it runs on whatever Node there is.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..')
/** Where set-up puts a Node of its own. */
export const TOOLS = path.join(ROOT, '.sallyport', 'tools')
export const NODE_MIN = [24, 12]
/** npm's package of Node itself for this machine. */
export const NODE_PACKAGE = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`

/** A Node that is new enough: the running one, else the one that set-up brought; `undefined` without either. */
export function findNode() {
  if (isNewEnough(process.versions.node)) return process.execPath
  const cached = path.join(TOOLS, 'node', 'node_modules', NODE_PACKAGE, 'bin', 'node')
  if (!existsSync(cached)) return undefined
  const tried = spawnSync(cached, ['-p', 'process.versions.node'], { encoding: 'utf8' })
  return tried.status === 0 && isNewEnough(tried.stdout.trim()) ? cached : undefined
}

function isNewEnough(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])
}
