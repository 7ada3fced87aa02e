// Runs FILE.ts on a Node that can: `node scripts/bootstrap.mjs FILE.ts [args]`. Plain JavaScript without dependencies, because
// neither Node 24 nor node_modules need exist yet. Brings both, unless SALLYPORT_NO_INSTALL=1 forbids it.
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import path from 'node:path'
import { NODE_MIN, NODE_PACKAGE, ROOT, TOOLS, findNode } from '../bin/find-node.mjs'

const mayInstall = process.env.SALLYPORT_NO_INSTALL !== '1'

const [script, ...rest] = process.argv.slice(2)
if (script === undefined) fail('usage: node scripts/bootstrap.mjs FILE.ts [args]', [], 2)
const node = ensureNode()
ensureDependencies()
handOver()

/** The running Node, else the copy that an earlier run installed, else a fresh one from npm's package of Node itself. */
function ensureNode() {
  const found = findNode()
  if (found !== undefined) return found
  const hint = `install Node ${NODE_MIN.join('.')} or newer yourself (nodejs.org, or your package manager) and run the command with it`
  if (!mayInstall) {
    fail(
      `Node ${NODE_MIN.join('.')} or newer is needed, this is ${process.versions.node}, and SALLYPORT_NO_INSTALL=1 forbids installing it`,
      [`${hint}, or unset SALLYPORT_NO_INSTALL`],
    )
  }
  say(`Node ${process.versions.node} is too old; getting Node ${NODE_MIN[0]} into .sallyport/tools`)
  // Installed aside and renamed: an interrupted download must not look like a finished one.
  const aside = path.join(TOOLS, `node.${process.pid}`)
  mkdirSync(aside, { recursive: true })
  writeFileSync(path.join(aside, 'package.json'), '{"private": true}\n')
  npm(['install', '--prefix', aside, '--no-save', `${NODE_PACKAGE}@${NODE_MIN[0]}`], aside, 'Node could not be installed', [hint])
  rmSync(path.join(TOOLS, 'node'), { recursive: true, force: true })
  renameSync(aside, path.join(TOOLS, 'node'))
  return findNode() ?? fail(`the Node that npm installed for ${process.platform}-${process.arch} does not run`, [hint])
}

function ensureDependencies() {
  const missing = missingPackage()
  if (missing === undefined) return
  if (!mayInstall) {
    fail(`node_modules is not what package-lock.json says (${missing}), and SALLYPORT_NO_INSTALL=1 forbids installing`, ['run: npm ci'])
  }
  say('installing dependencies (npm ci)')
  npm(['ci', '--include=dev'], ROOT, 'the dependencies could not be installed', ['run: npm ci'])
}

/** The first package that node_modules lacks, by the list that npm leaves there when an installation is complete. */
function missingPackage() {
  const wanted = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')).packages
  let present
  try {
    present = JSON.parse(readFileSync(path.join(ROOT, 'node_modules', '.package-lock.json'), 'utf8')).packages
  } catch {
    return 'nothing is installed'
  }
  const name = Object.keys(wanted).find(
    (key) => key !== '' && !wanted[key].optional && !wanted[key].devOptional && present[key]?.version !== wanted[key].version,
  )
  return name === undefined ? undefined : `${name} ${wanted[name].version} is missing`
}

function npm(args, cwd, problem, hints) {
  // The npm that started us, if one did: a Node without npm in PATH is common.
  const [command, before] = process.env.npm_execpath?.endsWith('.js') ? [process.execPath, [process.env.npm_execpath]] : ['npm', []]
  const quiet = ['--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error']
  const began = Date.now()
  const done = spawnSync(command, [...before, ...args, ...quiet], { cwd, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  if (done.status === 0) {
    say(`done in ${((Date.now() - began) / 1000).toFixed(1)} s`)
    return
  }
  fail(problem, [...hints, `npm said: ${(done.error?.message ?? done.stderr ?? '').trim().split('\n').slice(-8).join('\n      ')}`])
}

/** Runs the script with our Node first in PATH; its end is our end, signals go to it. */
function handOver() {
  const env = { ...process.env, PATH: `${path.dirname(node)}${path.delimiter}${process.env.PATH ?? ''}` }
  const child = spawn(node, [path.resolve(ROOT, script), ...rest], { cwd: ROOT, env, stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => fail(`${node} could not be started: ${error.message}`, []))
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)))
}

function say(text) {
  process.stderr.write(`· ${text}\n`)
}

/** @returns {never} */
function fail(problem, hints, code = 1) {
  process.stderr.write(`${problem}\n${hints.map((hint) => `  ${hint}\n`).join('')}`)
  process.exit(code)
}
