import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { aptInstall, ensureEngine } from './engine.ts'
import { STATE, SetupError, capture, main, mayInstall, run, step } from './steps.ts'

/** What a machine with a registry builds on. */
const OFFICIAL = 'node:24-bookworm-slim'
/** What a machine with none builds on: the same from Debian's packages and npm's package of Node. */
const OWN = 'sallyport/node-base:24'
const RECIPE_LABEL = 'org.sallyport.recipe'
const SUITE = 'bookworm'
/** A registry that has sent nothing at all by then is taken for none. */
const PULL_LIMIT_MS = 120_000
const PULL_SILENCE_MS = 12_000

/**
 * The image for `NODE_IMAGE`: the one that the environment names, else the official one (present, or pulled), else our own
 * from debootstrap, built once a machine.
 * @throws SetupError
 */
export async function ensureBaseImage(): Promise<string> {
  const asked = process.env['NODE_IMAGE']
  if (asked !== undefined && asked !== '') return asked
  if (await isPresent(OFFICIAL)) return OFFICIAL
  const recipe = createHash('sha256')
    .update(readFileSync(import.meta.filename))
    .digest('hex')
    .slice(0, 16)
  if ((await labelOf(OWN, RECIPE_LABEL)) === recipe) return OWN
  if (await step(`looking for ${OFFICIAL} in a registry`, (onLine) => pull(OFFICIAL, onLine))) return OFFICIAL
  await buildOwn(recipe)
  return OWN
}

/** The value of an image's label; undefined when either does not exist. */
export async function labelOf(image: string, label: string): Promise<string | undefined> {
  const { code, stdout } = await capture('docker', ['image', 'inspect', '--format', `{{index .Config.Labels "${label}"}}`, image])
  return code === 0 ? stdout.trim() : undefined
}

async function isPresent(image: string): Promise<boolean> {
  return (await capture('docker', ['image', 'inspect', '--format', '{{.Id}}', image])).code === 0
}

async function pull(image: string, onLine: (line: string) => void): Promise<boolean> {
  const stop = new AbortController()
  const silence = setTimeout(() => stop.abort(), PULL_SILENCE_MS)
  const pulled = capture('docker', ['pull', image], {
    timeoutMs: PULL_LIMIT_MS,
    signal: stop.signal,
    onLine: (line) => {
      clearTimeout(silence)
      onLine(line)
    },
  })
  const { code } = await pulled
  clearTimeout(silence)
  onLine(code === 0 ? 'pulled' : 'no registry answers')
  return code === 0
}

async function buildOwn(recipe: string): Promise<void> {
  const architecture = { x64: 'amd64', arm64: 'arm64' }[process.arch as string]
  if (process.platform !== 'linux' || architecture === undefined || process.getuid?.() !== 0 || !existsSync('/etc/debian_version')) {
    throw new SetupError(`${OFFICIAL} is not here and no registry answers`, [
      `let the engine reach a registry, load the image (docker load), or name another one: NODE_IMAGE=my-registry/node:24-bookworm-slim`,
      'on Debian as root (amd64, arm64) a base image is made from Debian packages instead',
    ])
  }
  if ((await capture('sh', ['-c', 'command -v debootstrap'])).code !== 0) {
    if (!mayInstall) {
      throw new SetupError('debootstrap is missing, and SALLYPORT_NO_INSTALL=1 forbids installing it', ['run: apt-get install debootstrap'])
    }
    await aptInstall(['debootstrap'])
  }
  const node = await step('getting Node for the image (npm)', fetchNode)
  const folder = mkdtempSync(path.join(tmpdir(), 'sallyport-base-'))
  try {
    const root = path.join(folder, 'root')
    await step(`making ${OWN} from Debian ${SUITE}`, async (onLine) => {
      await debootstrap(root, architecture, onLine)
      installNode(node, root)
      await trim(root, onLine)
      onLine('importing it into the engine')
      await importRoot(root, recipe)
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The folder of npm's packages `node-linux-ARCH` and `npm`, kept between runs. */
async function fetchNode(onLine: (line: string) => void): Promise<string> {
  const home = path.join(STATE, 'tools', 'image-node')
  mkdirSync(home, { recursive: true })
  writeFileSync(path.join(home, 'package.json'), '{"private": true}\n')
  const packages = [`node-linux-${process.arch}@24`, 'npm@11']
  const npm = process.env['npm_execpath']
  const [command, before] = npm?.endsWith('.js') === true ? [process.execPath, [npm]] : ['npm', []]
  await run(command, [...before, 'install', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error', ...packages], {
    cwd: home,
    onLine,
  })
  return path.join(home, 'node_modules')
}

async function debootstrap(root: string, architecture: string, onLine: (line: string) => void): Promise<void> {
  const { main: mirror, security } = mirrors()
  const packages = 'ca-certificates,libstdc++6,libatomic1'
  await run('debootstrap', ['--variant=minbase', `--arch=${architecture}`, `--include=${packages}`, SUITE, root, mirror], { onLine })
  writeFileSync(
    path.join(root, 'etc/apt/sources.list'),
    [`deb ${mirror} ${SUITE} main`, `deb ${mirror} ${SUITE}-updates main`, `deb ${security} ${SUITE}-security main`, ''].join('\n'),
  )
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }
  // debootstrap knows the release only; the fixes since are in the security archive.
  for (const args of [
    ['update', '-q'],
    ['upgrade', '-y', '-q'],
  ])
    await run('chroot', [root, 'apt-get', ...args], { onLine, env: environment })
  await run('chroot', [root, 'useradd', '--uid', '1000', '--create-home', '--shell', '/bin/bash', 'node'], { env: environment })
}

/** The mirrors that this machine uses itself. */
function mirrors(): { main: string; security: string } {
  const files = ['/etc/apt/sources.list']
  const folder = '/etc/apt/sources.list.d'
  if (existsSync(folder))
    files.push(
      ...readdirSync(folder)
        .filter((name) => /\.(list|sources)$/.test(name))
        .map((name) => path.join(folder, name)),
    )
  const text = files
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n')
  const found = [...text.matchAll(/https?:\/\/[^\s\]]+/g)].map(([url]) => url.replace(/\/$/, ''))
  const release = found.find((url) => url.endsWith('/debian'))
  if (release === undefined)
    throw new SetupError('no Debian mirror is in /etc/apt', [
      'add one to /etc/apt/sources.list: a line like "deb MIRROR/debian bookworm main"',
    ])
  return { main: release, security: found.find((url) => url.endsWith('/debian-security')) ?? `${release}-security` }
}

/** Lays Node and npm out as the official image has them. */
function installNode(modules: string, root: string): void {
  const local = path.join(root, 'usr/local')
  cpSync(path.join(modules, `node-linux-${process.arch}`, 'bin/node'), path.join(local, 'bin/node'))
  cpSync(path.join(modules, 'npm'), path.join(local, 'lib/node_modules/npm'), { recursive: true, verbatimSymlinks: true })
  for (const name of ['npm', 'npx']) symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, path.join(local, 'bin', name))
}

async function trim(root: string, onLine: (line: string) => void): Promise<void> {
  onLine('trimming')
  await run('chroot', [root, 'apt-get', 'clean'])
  for (const folder of ['var/lib/apt/lists', 'var/log', 'usr/share/doc', 'usr/share/man', 'usr/share/locale', 'usr/share/info']) {
    for (const name of readdirSync(path.join(root, folder))) rmSync(path.join(root, folder, name), { recursive: true, force: true })
  }
  // What debootstrap took over from this machine.
  writeFileSync(path.join(root, 'etc/resolv.conf'), '')
  writeFileSync(path.join(root, 'etc/hostname'), 'localhost\n')
}

async function importRoot(root: string, recipe: string): Promise<void> {
  const changes = [
    'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    `LABEL ${RECIPE_LABEL}=${recipe}`,
    'CMD ["node"]',
  ].flatMap((change) => ['--change', change])
  const script = 'root=$1; shift; tar -C "$root" --numeric-owner -c . | docker import "$@"'
  await run('bash', ['-o', 'pipefail', '-c', script, 'import', root, ...changes, '-', OWN])
  await run('docker', ['run', '--rm', '--network=none', OWN, 'node', '-e', 'process.exit(0)'])
}

if (import.meta.main) {
  await main(async () => {
    await ensureEngine()
    console.log(await ensureBaseImage())
    return 0
  })
}
