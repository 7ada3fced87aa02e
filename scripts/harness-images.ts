import { HARNESS_NAMES, imageOfHarness } from '../src/controller/sessions/harness.ts'
import { ensureBaseImage } from './base-image.ts'
import { ensureEngine } from './engine.ts'
import { ensureImage } from './images.ts'
import { main } from './steps.ts'

/** Builds the images of these harnesses, unless they are there. All of them take minutes and 2 GB. @throws SetupError */
export async function ensureHarnessImages(names: readonly string[], baseImage: string): Promise<void> {
  for (const name of names) {
    await ensureImage({ image: imageOfHarness(name), file: 'docker/agent.Dockerfile', target: name, inputs: [] }, baseImage)
  }
}

if (import.meta.main) {
  await main(async () => {
    await ensureEngine()
    const asked = process.argv.slice(2)
    await ensureHarnessImages(asked.length === 0 ? HARNESS_NAMES.filter((name) => name !== 'plain') : asked, await ensureBaseImage())
    return 0
  })
}
