import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'

/**
 * The text of a file of `LIMITS.mcpUserFileBytesMax` at most; undefined where there is none.
 * @throws Error with why it cannot be read; never with what is in it
 */
export function readBoundedText(file: string): string | undefined {
  let descriptor: number | undefined
  try {
    // A FIFO in its place must not hold the start up.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const stat = fstatSync(descriptor)
    if (!stat.isFile()) throw new Error('it is no file')
    if (stat.size > LIMITS.mcpUserFileBytesMax) throw new Error(`it is larger than ${LIMITS.mcpUserFileBytesMax} bytes`)
    const bytes = Buffer.alloc(stat.size)
    let length = 0
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(descriptor, bytes, length, bytes.length - length, null)
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length))
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') throw new Error('it is not UTF-8', { cause: error })
    throw code === 'Error' ? error : new Error(`it cannot be read (${code})`, { cause: error })
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}
