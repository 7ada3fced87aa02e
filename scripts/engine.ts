import { spawn } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { STATE, SetupError, capture, main, mayInstall, run, step } from './steps.ts'

const API_MIN = [1, 41] as const
const COMPOSE_MIN = [2, 20] as const
const ENGINE_LOG = '/var/log/dockerd.log'
const START_LIMIT_MS = 60_000
/** The release whose docker-compose is version 2 and that has docker-buildx; bookworm has neither. */
const NEXT_RELEASE = 'trixie'

type State = { readonly api: string | undefined; readonly compose: string | undefined; readonly buildx: boolean; readonly why: string }

/**
 * Leaves a working Docker Engine (API ≥ 1.41) with Compose v2 and buildx behind. One that works already is used and nothing
 * is touched. On Debian as root it is installed and started; anywhere else the error says what is missing.
 * @throws SetupError
 */
export async function ensureEngine(): Promise<void> {
  let state = await look()
  if (problemOf(state) === undefined) return
  if (process.env['DOCKER_HOST'] !== undefined) {
    throw new SetupError(`the engine of DOCKER_HOST cannot be used: ${problemOf(state)}`, ['start it, or unset DOCKER_HOST', state.why])
  }
  if (missingPackages(state).length > 0) {
    refuseElsewhere(state)
    await installPackages(missingPackages(state))
    state = await look()
  }
  if (state.api === undefined) {
    refuseElsewhere(state)
    await step('starting the Docker Engine', startEngine)
    state = await look()
  }
  const problem = problemOf(state)
  if (problem !== undefined) throw new SetupError(problem, [...howToGet(), state.why])
}

async function look(): Promise<State> {
  const [server, compose, buildx] = await Promise.all([
    capture('docker', ['version', '--format', '{{.Server.APIVersion}}'], { timeoutMs: 15_000 }),
    capture('docker', ['compose', 'version', '--short'], { timeoutMs: 15_000 }),
    capture('docker', ['buildx', 'version'], { timeoutMs: 15_000 }),
  ])
  return {
    api: server.code === 0 ? server.stdout.trim() : undefined,
    compose: compose.code === 0 ? compose.stdout.trim().replace(/^v/, '') : undefined,
    buildx: buildx.code === 0,
    why: server.stderr.trim().split('\n').at(-1) ?? '',
  }
}

function problemOf({ api, compose, buildx }: State): string | undefined {
  if (api === undefined) return 'no Docker Engine answers'
  if (!isAtLeast(api, API_MIN)) return `the Docker Engine is too old: API ${api}, ${API_MIN.join('.')} (Engine 20.10) is needed`
  if (compose === undefined) return 'Docker Compose v2 (the plugin "docker compose") is missing'
  if (!isAtLeast(compose, COMPOSE_MIN)) return `Docker Compose is too old: ${compose}, ${COMPOSE_MIN.join('.')} is needed`
  if (!buildx) return 'docker buildx is missing'
  return undefined
}

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [a = 0, b = 0] = version.split('.').map((part) => Number.parseInt(part, 10))
  return a > major || (a === major && b >= minor)
}

function missingPackages(state: State): string[] {
  const packages: string[] = []
  if (state.api === undefined && !isInstalled('dockerd')) packages.push('docker.io')
  if (state.compose === undefined) packages.push('docker-compose')
  if (!state.buildx) packages.push('docker-buildx')
  return packages
}

function isInstalled(program: string): boolean {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin', '/usr/local/sbin']
  return folders.some((folder) => folder !== '' && existsSync(path.join(folder, program)))
}

function refuseElsewhere(state: State): void {
  const problem = problemOf(state) ?? 'the Docker Engine cannot be used'
  if (!isDebianRoot()) throw new SetupError(problem, [...howToGet(), state.why])
  if (!mayInstall && missingPackages(state).length > 0) {
    throw new SetupError(`${problem}, and SALLYPORT_NO_INSTALL=1 forbids installing`, [
      `install ${missingPackages(state).join(', ')} (bookworm: the latter two from ${NEXT_RELEASE}), or unset SALLYPORT_NO_INSTALL`,
    ])
  }
  if (state.api === undefined && isInstalled('dockerd') && existsSync('/run/systemd/system')) {
    throw new SetupError('the Docker Engine is installed but does not run', ['systemctl start docker', state.why])
  }
}

function howToGet(): string[] {
  if (process.platform === 'darwin') return ['install and start Docker Desktop, OrbStack or Colima; each brings Compose v2 and buildx']
  return [
    'install Docker Engine 20.10 or newer with its Compose v2 and buildx plugins (docs.docker.com/engine/install) and start it',
    'it must answer you: "docker version" shows a Server (permission denied: join the group docker, or use rootless mode)',
    'on Debian as root this command installs and starts one by itself',
  ]
}

function isDebianRoot(): boolean {
  return process.getuid?.() === 0 && osRelease('ID') === 'debian'
}

function osRelease(key: string): string | undefined {
  if (!existsSync('/etc/os-release')) return undefined
  return new RegExp(`^${key}="?([^"\n]*)"?$`, 'm').exec(readFileSync('/etc/os-release', 'utf8'))?.[1]
}

const APT_ENVIRONMENT = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', NEEDRESTART_MODE: 'l' }

/** Installs Debian packages from the machine's own sources. @throws SetupError */
export async function aptInstall(packages: readonly string[], extra: readonly string[] = []): Promise<void> {
  await step(`installing ${packages.join(', ')} (apt)`, async (onLine) => {
    await run('apt-get', [...extra, 'update', '-q'], { env: APT_ENVIRONMENT, onLine })
    await run('apt-get', [...extra, 'install', '-y', '-q', '--no-install-recommends', ...packages], { env: APT_ENVIRONMENT, onLine })
  })
}

async function installPackages(packages: readonly string[]): Promise<void> {
  const plugins = packages.filter((name) => name !== 'docker.io')
  const hasNewPlugins = osRelease('VERSION_CODENAME') !== 'bookworm'
  // docker.io of newer releases leaves the client to a package of its own; iptables is only recommended there.
  const engine = packages.includes('docker.io') ? ['docker.io', ...(hasNewPlugins ? ['docker-cli', 'iptables'] : [])] : []
  if (engine.length > 0) await aptInstall(engine)
  if (plugins.length > 0) await aptInstall(plugins, hasNewPlugins ? [] : nextReleaseOptions())
}

/**
 * apt options for a source list of the next release that lives in our own folder, with lists and a pin of its own: the
 * machine's apt configuration stays as it was, and nothing but the plugins can come from there.
 */
function nextReleaseOptions(): string[] {
  const home = path.join(STATE, 'tools', 'apt')
  for (const folder of ['sources', 'preferences', 'lists/partial']) mkdirSync(path.join(home, folder), { recursive: true })
  const code = osRelease('VERSION_CODENAME') ?? 'bookworm'
  for (const name of readdirSync('/etc/apt/sources.list.d').filter((file) => file === 'debian.sources')) {
    const present = readFileSync(path.join('/etc/apt/sources.list.d', name), 'utf8')
    writeFileSync(path.join(home, 'sources', 'present.sources'), present)
    writeFileSync(path.join(home, 'sources', 'next.sources'), present.replaceAll(code, NEXT_RELEASE))
  }
  if (existsSync('/etc/apt/sources.list')) {
    const present = readFileSync('/etc/apt/sources.list', 'utf8')
    writeFileSync(path.join(home, 'sources', 'present.list'), present)
    writeFileSync(path.join(home, 'sources', 'next.list'), present.replaceAll(code, NEXT_RELEASE))
  }
  writeFileSync(
    path.join(home, 'preferences', 'plugins'),
    [
      `Package: *\nPin: release n=${NEXT_RELEASE}*\nPin-Priority: -1\n`,
      `Package: docker-compose docker-buildx\nPin: release n=${NEXT_RELEASE}*\nPin-Priority: 600\n`,
    ].join('\n'),
  )
  return [
    'Dir::Etc::SourceList=/dev/null',
    `Dir::Etc::SourceParts=${home}/sources`,
    `Dir::Etc::PreferencesParts=${home}/preferences`,
    `Dir::State::Lists=${home}/lists`,
    'Dir::Cache::pkgcache=',
    'Dir::Cache::srcpkgcache=',
  ].flatMap((option) => ['-o', option])
}

async function startEngine(onLine: (line: string) => void): Promise<void> {
  // Newer packages start the engine themselves where a service manager runs.
  if (existsSync('/run/systemd/system') && (await answers(10_000))) return
  dropStalePid('/var/run/docker.pid', 'dockerd')
  dropStalePid('/var/run/docker/containerd/containerd.pid', 'containerd')
  const tries = [[], ['--storage-driver=vfs']]
  for (const options of tries) {
    onLine(`dockerd ${options.join(' ')} (log: ${ENGINE_LOG})`)
    if (await startDockerd(options)) return
  }
  const log = existsSync(ENGINE_LOG) ? readFileSync(ENGINE_LOG, 'utf8').trim().split('\n').slice(-8) : []
  throw new SetupError('the Docker Engine does not start', [`see ${ENGINE_LOG}; its last lines:`, ...log])
}

/** Starts a dockerd that outlives us. True once it answers; false when it ended or took too long. */
async function startDockerd(options: readonly string[]): Promise<boolean> {
  const log = openSync(ENGINE_LOG, 'a', 0o640)
  const env = { ...process.env, PATH: `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin` }
  const child = spawn('dockerd', options, { detached: true, stdio: ['ignore', log, log], env, cwd: '/' })
  closeSync(log)
  let ended = false
  child.on('error', () => (ended = true)).on('exit', () => (ended = true))
  child.unref()
  for (const until = Date.now() + START_LIMIT_MS; Date.now() < until;) {
    if (await answers(5_000)) return true
    // Another set-up may have been a little earlier: ours ends because of its pid file, and theirs answers soon.
    if (ended) return answers(8_000)
    await sleep(200)
  }
  child.kill()
  return false
}

async function answers(limitMs: number): Promise<boolean> {
  for (const until = Date.now() + limitMs; Date.now() < until;) {
    const { code } = await capture('docker', ['version', '--format', '{{.Server.APIVersion}}'], { timeoutMs: 5_000 })
    if (code === 0) return true
    await sleep(200)
  }
  return false
}

/** A pid file that a dead engine left behind keeps a new one from starting once another program has that number. */
function dropStalePid(file: string, program: string): void {
  if (!existsSync(file)) return
  const comm = `/proc/${readFileSync(file, 'utf8').trim()}/comm`
  const alive = existsSync(comm) && readFileSync(comm, 'utf8').startsWith(program)
  if (!alive) rmSync(file, { force: true })
}

if (import.meta.main) {
  await main(async () => {
    await ensureEngine()
    return 0
  })
}
