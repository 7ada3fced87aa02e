import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { ensureBaseImage } from './base-image.ts'
import { ensurePage } from './build-page.ts'
import { bundle } from './build.ts'
import { check } from './check.ts'
import { ensureClients } from './clients.ts'
import { ensureEngine } from './engine.ts'
import { BUILT_HARNESSES, ensureHarnessImages } from './harness-images.ts'
import { ensureImages } from './images.ts'
import { ROOT, STATE, SetupError, main } from './steps.ts'

/** Of one test, and of one file. */
const LIMIT_MS = 600_000
const CONCURRENT_MIN = 3
/** Below `test/`: where tests take longest comes first. */
const ROOMS = ['docker', 'e2e', 'attack', 'property', 'anomaly', 'contract', 'browser', 'unit'] as const

/** Rooms whose tests start the command again and again. */
const BY_COMMAND = ['docker', 'e2e', 'attack', 'browser'] as const

const asked = process.argv.slice(2)
const files = asked.length === 0 ? globSync('test/**/*.test.ts', { cwd: ROOT }).toSorted() : filesOf(asked)

await main(async () => {
  if (files.length === 0)
    throw new SetupError(`no test file is meant by ${asked.join(' ') || 'test/'}`, ['name files or folders below test/'])
  const isMeant = (room: string): boolean => files.some((file) => file.startsWith(path.join('test', room)))
  if (isMeant('e2e') || isMeant('browser')) await ensureClients({ chromium: isMeant('browser') })
  const inContainers = isMeant('docker')
  if (inContainers) await ensureEngine()
  const [checked] = await Promise.all([
    asked.length > 0 || check(),
    inContainers && ensureBaseImage().then(ensureImages),
    BY_COMMAND.some(isMeant) && bundled(),
    isMeant('browser') && ensurePage(),
  ])
  // Programs of agents are large, and come from their makers while other tests run. A test that needs one tells why it did not come.
  if (files.some(waitsForImages))
    ensureBaseImage()
      .then((base) => ensureHarnessImages(BUILT_HARNESSES, base))
      .catch(() => {})
  // The tests come last: what stands at the end of the output is their count.
  const tested = await test(files)
  return checked && tested ? 0 : 1
})

function waitsForImages(file: string): boolean {
  return file.startsWith(path.join('test', 'docker', 'harness-'))
}

function filesOf(paths: readonly string[]): string[] {
  return paths.flatMap((name) => (name.endsWith('.ts') ? [name] : globSync(path.join(name, '**/*.test.ts'), { cwd: ROOT }).toSorted()))
}

/** Has the tests start the command from what a package has of it, which takes a third of the time of the sources. */
async function bundled(): Promise<void> {
  await bundle()
  process.env['SALLYPORT_BUNDLED'] = '1'
}

/** Runs the files in this order, and prints in it too. Gives whether all passed. */
async function test(paths: readonly string[]): Promise<boolean> {
  Object.assign(process.env, {
    NODE_ENV: 'test',
    // Containers are removed by the tests that made them; a reaper would be one more image to have.
    TESTCONTAINERS_RYUK_DISABLED: 'true',
    // Files and the commands that they start load the same sources.
    NODE_COMPILE_CACHE: path.join(STATE, 'compile-cache'),
  })
  let passed = true
  const running = run({
    files: ordered(paths).map((file) => path.resolve(ROOT, file)),
    cwd: ROOT,
    timeout: LIMIT_MS,
    // Much of it is waiting, for an engine or for a limit of time.
    concurrency: Math.max(CONCURRENT_MIN, availableParallelism() - 1),
  })
  running.on('test:fail', () => (passed = false))
  running.on('test:summary', ({ success }) => (passed &&= success))
  await pipeline(running.compose(new spec()), process.stdout, { end: false })
  return passed
}

/**
 * Containers first, as they take longest, each beside something that waits for no engine; what is short comes last, so that nobody waits
 * for one long file at the end.
 */
function ordered(paths: readonly string[]): string[] {
  const costOf = (file: string): number => ROOMS.findIndex((room) => file.startsWith(path.join('test', room)))
  const sorted = paths.toSorted((a, b) => costOf(a) - costOf(b))
  const isFirst = (file: string): boolean => file.startsWith(path.join('test', ROOMS[0]))
  // Those come last of them that wait for images which are built meanwhile.
  const first = sorted.filter(isFirst).toSorted((a, b) => Number(waitsForImages(a)) - Number(waitsForImages(b)))
  const others = sorted.filter((file) => !isFirst(file))
  return [...first.flatMap((file, index) => [file, others[index] ?? []].flat()), ...others.slice(first.length)]
}
