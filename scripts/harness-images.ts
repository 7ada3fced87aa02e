import { HARNESS_NAMES, imageOfHarness } from '../src/controller/sessions/harness.ts'
import { ensureBaseImage } from './base-image.ts'
import { ensureEngine } from './engine.ts'
import { ensureImage } from './images.ts'
import { SetupError, main } from './steps.ts'

/** Those that have an image of ours. */
export const BUILT_HARNESSES: readonly string[] = HARNESS_NAMES.filter((name) => name !== 'plain' && imageOfHarness(name) !== undefined)

/** Builds the images of these harnesses, unless they are there. All of them take minutes and 2 GB. @throws SetupError */
export async function ensureHarnessImages(names: readonly string[], baseImage: string): Promise<void> {
  for (const name of names) {
    const image = imageOfHarness(name)
    if (image === undefined) throw new SetupError(`there is no image of ${name} to build`, [`build one with the program in it`])
    await ensureImage({ image, file: 'docker/agent.Dockerfile', target: name, inputs: [] }, baseImage)
  }
}

if (import.meta.main) {
  await main(async () => {
    await ensureEngine()
    const asked = process.argv.slice(2)
    await ensureHarnessImages(asked.length === 0 ? BUILT_HARNESSES : asked, await ensureBaseImage())
    return 0
  })
}
