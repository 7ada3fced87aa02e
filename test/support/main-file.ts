import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')

/** The command as a clone has it. */
export const SOURCES = join(ROOT, 'src/main.ts')
/** The command that tests start: the bundle that `npm test` made of these sources, which starts in a third of the time, else the sources. */
export const MAIN = process.env['SALLYPORT_BUNDLED'] === '1' ? join(ROOT, 'dist/sallyport.js') : SOURCES
