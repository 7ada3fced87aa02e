import { createHash } from 'node:crypto'
import { glob, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { ROOT, STATE, run, step } from './steps.ts'

/** Where the daemon reads the page. */
const PAGE = path.join(ROOT, 'dist', 'page')
const STAMP = path.join(STATE, 'page.sha256')
const INPUTS = ['src/web/**/*', 'src/wire/*.ts', 'src/kernel/*.ts', 'package-lock.json', 'scripts/build-page.ts']

/** Below that a smaller answer is not worth a second file. */
const COMPRESSED_BYTES_MIN = 512

/** Builds the operator's page into dist/page, each file also compressed as far as it goes. */
export async function buildPage(): Promise<void> {
  await run(path.join(ROOT, 'node_modules', '.bin', 'vite'), ['build', path.join(ROOT, 'src', 'web')])
  for await (const name of glob('**/*.{html,js,css,svg}', { cwd: PAGE })) {
    const file = path.join(PAGE, name)
    const bytes = await readFile(file)
    if (bytes.length < COMPRESSED_BYTES_MIN) continue
    await writeFile(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } }))
    await writeFile(`${file}.gz`, gzipSync(bytes, { level: 9 }))
  }
}

/** The same where what it is made of changed since, or it is gone. */
export async function ensurePage(): Promise<void> {
  const now = await digestOfInputs()
  const [built, document] = await Promise.allSettled([readFile(STAMP, 'utf8'), readFile(path.join(PAGE, 'index.html'))])
  if (document.status === 'fulfilled' && built.status === 'fulfilled' && built.value === now) return
  await step("building the operator's page", buildPage)
  await writeFile(STAMP, now)
}

async function digestOfInputs(): Promise<string> {
  const digest = createHash('sha256')
  for (const pattern of INPUTS)
    for (const entry of (await Array.fromAsync(glob(pattern, { cwd: ROOT, withFileTypes: true }))).filter((one) => one.isFile()))
      digest.update(entry.name).update(await readFile(path.join(entry.parentPath, entry.name)))
  return digest.digest('hex')
}

if (import.meta.main) await buildPage()
