import { build, type BuildOptions, type Plugin } from 'esbuild'
import { spawnSync } from 'node:child_process'
import { chmod, readdir, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { GATE_COMMANDS, HOST_FILE, MAIN_FILE } from '../src/cli/code-cache.ts'

/** What Node is started with in the image: V8 takes code only from a cache that was made with the same flags. */
export const GATE_FLAGS = ['--max-semi-space-size=8', '--expose-gc'] as const
/**
 * What the image tells malloc: one pool instead of one for each of Node's threads, and limits that stay where they are, so that what is
 * freed after the start goes back to the system. 8 MB.
 */
export const GATE_ENV = { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '131072', MALLOC_TRIM_THRESHOLD_: '1048576' } as const

/** In the folder of the bundle. */
const PAGE_FOLDER = 'page'
const ROOT = path.resolve(import.meta.dirname, '..')

const COMMON: BuildOptions = {
  bundle: true,
  platform: 'node',
  target: 'node24.12',
  // Not as ES modules: for each of Node's own that one of them imports Node reads all its exports, and those of node:http bring
  // its client of the web platform along, 12 MB and 50 ms.
  format: 'cjs',
  minify: true,
  legalComments: 'none',
  logLevel: 'warning',
}

/**
 * The parser in WebAssembly is the exports of a CommonJS module, bytes, and bundlers give each property of such exports a getter when
 * they are imported: 54,000 of them, 10 MB.
 */
const bytesOfModules: Plugin = {
  name: 'bytes-of-modules',
  setup: (bundler) =>
    bundler.onLoad({ filter: /-wasm\.js$/ }, ({ path: file }) => ({
      contents: createRequire(import.meta.url)(file) as Uint8Array,
      loader: 'binary',
    })),
}

/** Leaves the other commands out of the gate's bundle, where nobody asks for them. */
const gateCommandsOnly: Plugin = {
  name: 'gate-commands-only',
  setup(bundler) {
    const kept = new Set([...GATE_COMMANDS, 'command'].map((name) => `./cli/${name}.ts`))
    bundler.onResolve({ filter: /^\.\/cli\/[\w-]+\.ts$/ }, ({ path: file, importer }) =>
      importer === path.join(ROOT, 'src/main.ts') && !kept.has(file) ? { path: file, namespace: 'absent' } : undefined,
    )
    bundler.onLoad({ filter: /./, namespace: 'absent' }, () => ({ contents: '' }))
  },
}

/**
 * Bundles src/main.ts into dist/, one level below the root so that `../policies/` is where it is in the sources, and lets V8
 * compile it once for all starts. Commands and the gateway are in functions that run when they are asked for: what a sidecar
 * doesn't need is neither compiled nor set up.
 * @throws Error when the gate that is recorded does not come up
 */
export async function bundle(): Promise<void> {
  await bundleInto(path.join(ROOT, 'dist'))
}

/** The same, into another folder. */
export async function bundleInto(outdir: string): Promise<void> {
  // But for the page, which is built by itself.
  for (const name of await readdir(outdir).catch(() => [])) if (name !== PAGE_FOLDER) await rm(path.join(outdir, name), { recursive: true })
  const main: BuildOptions = {
    ...COMMON,
    entryPoints: [path.join(ROOT, 'src/main.ts')],
    // Its CommonJS form asks for its parts in a way that no bundler sees.
    alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' },
    define: { 'import.meta.url': 'sallyportUrl' },
    banner: { js: "const sallyportUrl = require('node:url').pathToFileURL(__filename).href;" },
    supported: { 'dynamic-import': false },
    // The gateway keeps its framework from asking for them; the keyring is a program of the machine, and may be absent. The engine's
    // client is of the host alone: there it is installed beside, the image does without.
    external: ['dockerode', '@napi-rs/keyring', '@fastify/ajv-compiler', '@fastify/fast-json-stringify-compiler'],
  }
  await build({ ...main, outfile: path.join(outdir, MAIN_FILE), plugins: [bytesOfModules, gateCommandsOnly] })
  await build({ ...main, outfile: path.join(outdir, HOST_FILE), plugins: [bytesOfModules] })
  const entry = path.join(outdir, 'sallyport.js')
  await build({
    ...COMMON,
    entryPoints: [path.join(ROOT, 'src/cli/bundled.ts')],
    outfile: entry,
    banner: { js: '#!/usr/bin/env node' },
  })
  await chmod(entry, 0o755)
  await writeFile(path.join(outdir, 'package.json'), '{"type": "commonjs"}\n')
  const recorder = path.join(ROOT, 'scripts/record-code.ts')
  const { status, stderr } = spawnSync(process.execPath, [...GATE_FLAGS, recorder, outdir], { encoding: 'utf8', timeout: 60_000 })
  if (status !== 0) throw new Error(`what V8 compiles could not be recorded: ${stderr}`)
}

if (import.meta.main) await bundle()
