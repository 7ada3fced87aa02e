import path from 'node:path'
import { defineConfig } from 'vite'

/** The page as files with their hash in their names, so that a browser keeps them and never has two versions at once. */
export default defineConfig({
  base: '/',
  publicDir: false,
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  resolve: { dedupe: ['preact', '@codemirror/state', '@codemirror/view'] },
  build: {
    target: 'es2023',
    outDir: path.resolve(import.meta.dirname, '../../dist/page'),
    emptyOutDir: true,
    assetsDir: 'assets',
    // No inline script, and no data: URL of a script or style either.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
})
