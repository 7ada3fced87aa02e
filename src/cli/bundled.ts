import { createRequire } from 'node:module'
import { join } from 'node:path'
import { compileMain, GATE_COMMANDS, HOST_FILE, MAIN_FILE } from './code-cache.ts'

// The entry of what is built: runs one of the bundles beside it.
const require = createRequire(__filename)
if (GATE_COMMANDS.includes(process.argv[2] ?? '')) {
  const main = compileMain(__dirname).script.runInThisContext() as (require: NodeJS.Require, filename: string) => void
  main(require, join(__dirname, MAIN_FILE))
} else require(join(__dirname, HOST_FILE))
