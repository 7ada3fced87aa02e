import { execFile } from 'node:child_process'
import { accessSync, constants, lstatSync, realpathSync, statSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { DoctorOutcome as Outcome } from '../../wire/first-run.ts'

const OLDEST_NODE = [24, 12] as const
/** The kernel takes 108 bytes with the final zero; the rest is left for the names below the folder. */
const SOCKET_PATH_BYTES_MAX = 100
/** As long as the longest socket below the home is. */
const LONGEST_SOCKET = 's/xxxxxxxx/control.sock'

export function checkNode(version: string): Outcome {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number)
  const isNew = major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])
  return isNew ? { state: 'ok', found: version } : { state: 'failure', found: version, todo: `use Node ${OLDEST_NODE.join('.')} or newer` }
}

/** `$SALLYPORT_HOME` holds keys, leases and the operator's policies: nobody else's, and with names that sockets can have. */
export function checkHome(home: string): Outcome {
  const bytes = Buffer.byteLength(join(home, LONGEST_SOCKET))
  if (bytes > SOCKET_PATH_BYTES_MAX)
    return {
      state: 'failure',
      found: `${home} is too long: a socket below it would have a path of ${bytes} bytes`,
      todo: `set SALLYPORT_HOME to a folder with a path of ${SOCKET_PATH_BYTES_MAX - LONGEST_SOCKET.length - 1} bytes or fewer`,
    }
  try {
    const stat = lstatSync(home)
    if (stat.isSymbolicLink()) return judgeFolder(realpathSync(home), `${home} → `)
    return judgeFolder(home, '')
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') return { state: 'failure', found: `${home}: ${codeOf(error)}`, todo: 'make it a folder of yours' }
  }
  const parent = nearestFolder(dirname(home))
  try {
    accessSync(parent, constants.W_OK)
    return { state: 'ok', found: `${home} will be made` }
  } catch {
    return { state: 'failure', found: `${home} cannot be made in ${parent}`, todo: 'set SALLYPORT_HOME to a folder of yours' }
  }
}

function judgeFolder(folder: string, before: string): Outcome {
  const { mode, uid } = statSync(folder)
  const found = `${before}${folder}, mode ${(mode & 0o7777).toString(8).padStart(4, '0')}`
  if (!statSync(folder).isDirectory()) return { state: 'failure', found: `${folder} is not a folder`, todo: 'move it away' }
  if (process.getuid !== undefined && uid !== process.getuid())
    return { state: 'failure', found: `${found}, of uid ${uid}`, todo: `it holds keys: make it yours (chown), or set SALLYPORT_HOME` }
  if ((mode & 0o022) !== 0) return { state: 'failure', found, todo: `others can write it: chmod 700 ${folder}` }
  if ((mode & 0o077) !== 0) return { state: 'warning', found, todo: `others can look into it: chmod 700 ${folder}` }
  return { state: 'ok', found }
}

function nearestFolder(path: string): string {
  for (let at = path; ; at = dirname(at)) {
    try {
      if (statSync(at).isDirectory() || dirname(at) === at) return at
    } catch {
      if (dirname(at) === at) return at
    }
  }
}

/** Bytes that are free for this user; undefined where the folder is not on this machine. */
export async function freeBytesOf(folder: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(folder)
    return bavail * bsize
  } catch {
    return undefined
  }
}

/** Asks for an entry that nobody has. Nothing is written. */
const LOOK = `
const { AsyncEntry } = await import('@napi-rs/keyring')
const entry = new AsyncEntry('sallyport vault', 'doctor', { linux: { store: 'secret-service' } })
try { await entry.getSecret() } catch (error) { if (!/no (matching )?(entry|secret)/i.test(String(error))) throw error }
process.stdout.write('ok')`

/**
 * Whether the operating system's keyring answers. In a process of its own: a keyring that is locked may hold the caller until somebody
 * answers a dialog.
 */
export function checkKeyring(packageRoot: string, environment: Readonly<Record<string, string | undefined>>): Promise<Outcome> {
  const todo = 'the vault is unlocked by a passphrase or a key file instead'
  return new Promise((resolve) => {
    const options = { cwd: packageRoot, env: environment, timeout: LIMITS.doctorCallMs, killSignal: 'SIGKILL', encoding: 'utf8' } as const
    execFile(process.execPath, ['--input-type=module', '--eval', LOOK], options, (error, stdout, stderr) => {
      if (error === null && stdout === 'ok') return resolve({ state: 'ok', found: 'it answers' })
      if (/ERR_MODULE_NOT_FOUND/.test(stderr)) return resolve({ state: 'warning', found: '@napi-rs/keyring is not installed', todo })
      if (error?.killed === true) return resolve({ state: 'warning', found: 'it does not answer (a dialog may be open)', todo })
      const said = /(?:Error|error): (.+)/.exec(stderr)?.[1] ?? 'it does not answer'
      resolve({ state: 'warning', found: said.slice(0, 200), todo })
    })
  })
}
