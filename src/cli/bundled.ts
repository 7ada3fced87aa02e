import { createRequire } from 'node:module'
import { join } from 'node:path'
import { compileMain, MAIN_FILE } from './code-cache.ts'

// The entry of what is built: runs the bundle beside it.
const main = compileMain(__dirname).script.runInThisContext() as (require: NodeJS.Require, filename: string) => void
main(createRequire(__filename), join(__dirname, MAIN_FILE))
