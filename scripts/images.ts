import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { VERSION } from '../src/kernel/version.ts'
import { ensureBaseImage, labelOf } from './base-image.ts'
import { ensureEngine } from './engine.ts'
import { ROOT, capture, main, run, step } from './steps.ts'

const INPUTS_LABEL = 'org.sallyport.inputs'
const BUILDERS = ['scripts/build.ts', 'scripts/record-code.ts', 'scripts/sample-gate.ts']
/** The page is the daemon's alone: no image has it, and none is built anew for it (.dockerignore). */
const PAGE = path.join('src', 'web')
/** Target in the Dockerfile → what its image is made from, besides the base image and the Dockerfile. */
const INPUTS = {
  sidecar: ['.dockerignore', 'package.json', 'package-lock.json', 'tsconfig.json', ...BUILDERS, 'src', 'policies'],
  agent: [],
  'demo-upstream': ['docker/demo-upstream.mjs'],
} as const satisfies Record<string, readonly string[]>

/** What compose.yaml calls a target's image: two versions on one machine keep an image each. */
export function imageOf(target: keyof typeof INPUTS): string {
  return `sallyport/${target}:${VERSION}`
}

/** Builds the image of every target whose inputs changed since its image was made. @throws SetupError */
export async function ensureImages(baseImage: string): Promise<void> {
  for (const [target, inputs] of Object.entries(INPUTS) as [keyof typeof INPUTS, readonly string[]][]) {
    await ensureImage({ image: imageOf(target), file: 'Dockerfile', target, inputs }, baseImage)
  }
}

/** Builds one target of one Dockerfile, unless its image was made of the same inputs. @throws SetupError */
export async function ensureImage(
  { image, file, target, inputs }: { image: string; file: string; target: string; inputs: readonly string[] },
  baseImage: string,
): Promise<void> {
  const base = (await capture('docker', ['image', 'inspect', '--format', '{{.Id}}', baseImage])).stdout.trim()
  const hash = hashOf([file, ...inputs], `${baseImage} ${base} ${INPUTS_LABEL}`)
  if ((await labelOf(image, INPUTS_LABEL)) === hash) return
  await step(`building ${image}`, async (onLine) => {
    const options = ['--progress=plain', '--load', '--file', file, '--target', target, '--tag', image, '--label', `${INPUTS_LABEL}=${hash}`]
    const secret = ['--secret', `id=extra_ca,src=${extraCa()}`]
    await run('docker', ['buildx', 'build', ...options, '--build-arg', `NODE_IMAGE=${baseImage}`, ...secret, '.'], {
      onLine,
      env: { ...process.env, BUILDX_NO_DEFAULT_ATTESTATIONS: '1' },
    })
  })
}

/** The authorities that this machine's own Node is told to trust: a proxy that inspects npm here does so in a build as well. */
function extraCa(): string {
  const named = process.env['SALLYPORT_EXTRA_CA'] || process.env['NODE_EXTRA_CA_CERTS']
  return named !== undefined && named !== '' && existsSync(named) ? named : path.join(ROOT, 'certs', 'none.pem')
}

function hashOf(inputs: readonly string[], seed: string): string {
  const hash = createHash('sha256').update(seed)
  for (const input of inputs) {
    for (const file of filesOf(input)) hash.update(`\0${file}\0`).update(readFileSync(path.join(ROOT, file)))
  }
  return hash.digest('hex').slice(0, 32)
}

function filesOf(input: string): string[] {
  if (input === PAGE) return []
  const full = path.join(ROOT, input)
  if (!existsSync(full)) return []
  if (!statSync(full).isDirectory()) return [input]
  return readdirSync(full)
    .toSorted()
    .flatMap((name) => filesOf(path.join(input, name)))
}

if (import.meta.main) {
  await main(async () => {
    await ensureEngine()
    await ensureImages(await ensureBaseImage())
    return 0
  })
}
