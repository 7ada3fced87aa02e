import { build } from 'esbuild'
import { rm } from 'node:fs/promises'
import path from 'node:path'

/**
 * Bundles src/main.ts into dist/, one level below the root so that `../policies/` is where it is in the sources. Each command
 * is a part of its own, loaded when it is run: what a sidecar doesn't need takes none of its memory.
 */
export async function bundle(): Promise<void> {
  const root = path.resolve(import.meta.dirname, '..')
  const outdir = path.join(root, 'dist')
  await rm(outdir, { recursive: true, force: true })
  await build({
    entryPoints: { sallyport: path.join(root, 'src/main.ts') },
    outdir,
    bundle: true,
    splitting: true,
    platform: 'node',
    target: 'node24.12',
    format: 'esm',
    minify: true,
    legalComments: 'none',
    // Its CommonJS form asks for its parts in a way that no bundler sees.
    alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' },
    // CommonJS packages call require() for Node's own modules, which an ES module does not have.
    banner: {
      js: "#!/usr/bin/env node\nimport { createRequire as sallyportCreateRequire } from 'node:module'; const require = sallyportCreateRequire(import.meta.url);",
    },
    logLevel: 'warning',
  })
}

if (import.meta.main) await bundle()
