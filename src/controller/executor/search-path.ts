import { constants } from 'node:fs'
import { access, realpath, stat } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { isWithin } from '../sessions/real-path.ts'
import { agentFolders, type Place } from './place.ts'

const USUAL = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/**
 * The folders that programs are looked for in: those of the operator's PATH that are absolute, exist, and that no agent could have
 * written, by name or by what they lead to. An empty part means the current folder to execvp(3), which is the agent's.
 */
export async function searchPath(place: Place): Promise<readonly string[]> {
  const named = place.environment['PATH']?.split(':') ?? USUAL
  const agents = await agentFolders(place)
  const kept: string[] = []
  for (const folder of new Set(named)) {
    if (!isAbsolute(folder)) continue
    const real = await realpath(folder).catch(() => undefined)
    if (real === undefined || agents.some((agent) => isWithin(agent, real) || isWithin(agent, folder))) continue
    // Where everybody may write, anybody's program would be found.
    const { mode } = await stat(real)
    if ((mode & 0o002) === 0) kept.push(folder)
  }
  return kept
}

/** The first file of that name that may be executed, as its folder names it, or `undefined`. */
export async function findOnPath(name: string, folders: readonly string[]): Promise<string | undefined> {
  if (name === '' || name.includes('/') || name === '.' || name === '..') return undefined
  for (const folder of folders) {
    const path = join(folder, name)
    if (await isExecutable(path)) return path
  }
  return undefined
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}
