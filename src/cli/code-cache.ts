import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { Script } from 'node:vm'

/** What the gate's bundle is called, beside `CACHE_FILE`. */
export const MAIN_FILE = 'main.js'
/** The bundle of all commands: a gate that carried the host's code would start later and be larger. */
export const HOST_FILE = 'host.js'
/** The commands of the gate's bundle. */
export const GATE_COMMANDS: readonly string[] = ['proxy', 'sidecar', 'probe']
/** What V8 made of the bundle once, behind a digest of both. */
export const CACHE_FILE = 'main.cache'

const DIGEST_BYTES = 32

export type Compiled = {
  readonly script: Script
  /** The code was not compiled but taken from the cache. */
  readonly isCached: boolean
  /** The contents of a `CACHE_FILE` for this bundle, with the functions that have run until now. */
  seal(): Buffer
}

/**
 * Compiles the bundle in `folder`: a function of `require` and its own path. Takes the code from `CACHE_FILE` where that belongs to it:
 * our digest tells that source and cache are those that were made together (V8 itself compares the length of the source alone), V8
 * tells that its version and its flags are those of then. Anything else is as if there were no cache.
 * @throws ENOENT without a bundle
 */
export function compileMain(folder: string): Compiled {
  // The flag of the image that V8 compares: a command that is started without it takes the same code.
  setFlagsFromString('--expose-gc')
  const filename = join(folder, MAIN_FILE)
  // The bundle is ASCII: one byte a character in memory as well.
  const source = `(function (require, __filename) {${readFileSync(filename, 'latin1')}\n})`
  const cachedData = unsealed(source, readCache(folder))
  const script = new Script(source, { filename, ...(cachedData !== undefined && { cachedData }) })
  return {
    script,
    isCached: cachedData !== undefined && script.cachedDataRejected === false,
    seal() {
      const code = script.createCachedData()
      return Buffer.concat([digestOf(source, code), code])
    },
  }
}

function readCache(folder: string): Buffer | undefined {
  try {
    return readFileSync(join(folder, CACHE_FILE))
  } catch {
    return undefined
  }
}

function unsealed(source: string, sealed: Buffer | undefined): Buffer | undefined {
  if (sealed === undefined || sealed.length <= DIGEST_BYTES) return undefined
  const code = sealed.subarray(DIGEST_BYTES)
  return digestOf(source, code).equals(sealed.subarray(0, DIGEST_BYTES)) ? code : undefined
}

function digestOf(source: string, code: Buffer): Buffer {
  return Buffer.from(hash('sha256', `${hash('sha256', source)} ${hash('sha256', code)}`), 'hex')
}
