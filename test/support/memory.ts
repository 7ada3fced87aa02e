import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

export const MB = 1024 * 1024

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Memory of buffers in this process that is still needed. */
export function bufferBytes(): number {
  collectGarbage()
  return process.memoryUsage().arrayBuffers
}

/** Memory of objects in this process that is still needed. */
export function heapBytes(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}
