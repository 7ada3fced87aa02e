import { join } from 'node:path'

/** For `sh`: starts a program on this terminal that shows an agent's output, `$!`, and goes on once that program has said so to the others. */
export const ATTACH = `${process.execPath} ${join(import.meta.dirname, 'attached.ts')} & while ! [ -s "$SALLYPORT_HOME/terminals/"*"-$!" ]; do sleep 0.05; done;`
