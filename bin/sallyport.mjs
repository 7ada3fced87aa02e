#!/usr/bin/env node
// The command: from a clone it runs the sources, from a package the bundle, on a Node that can.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { constants } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { NODE_MIN, ROOT, findNode } from './find-node.mjs'

const sources = path.join(ROOT, 'src', 'main.ts')
const isClone = existsSync(sources)
const entry = isClone ? sources : path.join(ROOT, 'dist', 'sallyport.js')
const node = findNode()

if (node === undefined) fail(`Node ${NODE_MIN.join('.')} or newer is needed, this is ${process.versions.node}`)
else if (isClone && !existsSync(path.join(ROOT, 'node_modules', 'zod'))) fail('the dependencies are not installed')
else if (node === process.execPath) await import(pathToFileURL(entry).href)
else handOver(node)

function handOver(file) {
  const child = spawn(file, [entry, ...process.argv.slice(2)], { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => fail(`${file} could not be started: ${error.message}`))
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)))
}

function fail(problem) {
  process.stderr.write(`config_invalid: ${problem}\nhint: "npm start" brings what is missing, or install it yourself\n`)
  process.exitCode = 2
}
