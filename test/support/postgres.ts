import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomBytes } from 'node:crypto'
import { ensureBaseImage } from '../../scripts/base-image.ts'
import { ensureImage } from '../../scripts/images.ts'
import { capture, type Outcome } from '../../scripts/steps.ts'
import { VERSION } from '../../src/kernel/version.ts'
import { eventually } from './eventually.ts'
import type { Place } from './upstream.ts'

/** A server with one user, who has to show a password, and one database of that name. */
export type Postgres = AsyncDisposable & {
  readonly user: string
  readonly password: string
  readonly database: string
  /** What it says of itself, with each connection that came. */
  log(): string
}

/** PostgreSQL on the engine, to be put on a session's uplink under a name. Its image has the clients too: it can be an agent's. */
export type ContainerPostgres = Omit<Postgres, 'log'> & {
  readonly container: string
  join(network: string, alias: string): Promise<void>
  leave(network: string): Promise<void>
  log(): Promise<string>
}

const DEBIAN = '/usr/lib/postgresql'
/** The server refuses root, and so does initdb. */
const NOBODY = { uid: 65_534, gid: 65_534 }
const USER = 'app'

/** Debian's own, as a process of this test, in a folder of its own. */
export async function openPostgres({ host, port }: Place): Promise<Postgres> {
  await using parts = new AsyncDisposableStack()
  const bin = await debianBin()
  const as: Partial<typeof NOBODY> = process.getuid?.() === 0 ? NOBODY : {}
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-postgres-'))
  parts.defer(() => rm(folder, { recursive: true, force: true }))
  const data = join(folder, 'data')
  const password = randomBytes(12).toString('hex')
  const passwordFile = join(folder, 'password')
  await writeFile(passwordFile, password, { mode: 0o600 })
  if (as === NOBODY) for (const path of [folder, passwordFile]) await chown(path, NOBODY.uid, NOBODY.gid)
  const how = ['--auth', 'scram-sha-256', '--encoding', 'UTF8', '--locale', 'C', '--no-sync']
  const made = await runAs(as, join(bin, 'initdb'), ['--pgdata', data, '--username', USER, '--pwfile', passwordFile, ...how])
  if (made.code !== 0) throw new Error(`initdb: ${made.stderr}`)
  const settings = [`listen_addresses=${host}`, `port=${port}`, 'unix_socket_directories=', 'log_connections=on', 'fsync=off']
  const flags = settings.flatMap((setting) => ['-c', setting])
  const server = spawn(join(bin, 'postgres'), ['-D', data, ...flags], { ...as, cwd: folder })
  const closed = once(server, 'close')
  let log = ''
  for (const stream of [server.stdout, server.stderr]) stream.on('data', (chunk: Buffer) => (log += chunk.toString()))
  parts.defer(async () => {
    // SIGQUIT: at once, without waiting for clients.
    server.kill('SIGQUIT')
    await closed
  })
  await eventually(() => {
    if (!log.includes('ready to accept connections')) throw new Error(`PostgreSQL is not ready: ${log}`)
  })
  const all = parts.move()
  return { user: USER, password, database: 'postgres', log: () => log, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

/** The image that `openContainerPostgres` runs: server and clients of Debian. Built once for a machine. */
export async function ensurePostgresImage(): Promise<string> {
  const image = `sallyport/test-postgres:${VERSION}`
  const file = 'test/support/postgres.Dockerfile'
  await ensureImage({ image, file, target: 'postgres', inputs: [] }, await ensureBaseImage())
  return image
}

export async function openContainerPostgres(): Promise<ContainerPostgres> {
  const image = await ensurePostgresImage()
  const container = `postgres-${randomBytes(6).toString('hex')}`
  const password = randomBytes(12).toString('hex')
  const script = `set -e
bin=$(ls -d ${DEBIAN}/*/bin)
printf %s "$POSTGRES_PASSWORD" > /tmp/password
"$bin/initdb" --pgdata /tmp/data --username ${USER} --pwfile /tmp/password --auth-host scram-sha-256 --auth-local trust --encoding UTF8 --locale C --no-sync
echo 'host all all all scram-sha-256' >> /tmp/data/pg_hba.conf
exec "$bin/postgres" -D /tmp/data -c listen_addresses=* -c unix_socket_directories=/tmp -c log_connections=on -c fsync=off`
  const log = async (): Promise<string> => {
    const { stdout, stderr } = await capture('docker', ['logs', container])
    return stdout + stderr
  }
  const remove = async (): Promise<void> => void (await capture('docker', ['rm', '-f', '-v', container]))
  try {
    const options = ['--detach', '--name', container, '--label', 'sallyport.test=upstream', '--user', `${NOBODY.uid}:${NOBODY.gid}`]
    await mustRun(['run', ...options, '--env', `POSTGRES_PASSWORD=${password}`, image, 'sh', '-c', script])
    await eventually(async () => {
      const said = await log()
      if (!said.includes('ready to accept connections')) throw new Error(`PostgreSQL is not ready: ${said}`)
    })
  } catch (error) {
    await remove()
    throw error
  }
  return {
    user: USER,
    password,
    database: 'postgres',
    container,
    join: (network, alias) => mustRun(['network', 'connect', '--alias', alias, network, container]),
    leave: (network) => mustRun(['network', 'disconnect', network, container]),
    log,
    [Symbol.asyncDispose]: remove,
  }
}

/** One statement by psql, as a program of the agent: `conninfo` says where. */
export function psql({ user, password, database }: Postgres, conninfo: string, sql: string): Promise<Outcome> {
  const info = `${conninfo} user=${user} dbname=${database} connect_timeout=20`
  const env = { PATH: process.env['PATH'], PGPASSWORD: password, HOME: '/nonexistent' }
  return capture('psql', ['--no-psqlrc', '--no-align', '--tuples-only', '--dbname', info, '--command', sql], { env, timeoutMs: 30_000 })
}

async function debianBin(): Promise<string> {
  const [version] = (await readdir(DEBIAN)).toSorted((a, b) => Number(b) - Number(a))
  return join(DEBIAN, version ?? '', 'bin')
}

async function runAs(as: { uid?: number; gid?: number }, program: string, argv: readonly string[]): Promise<Outcome> {
  const child = spawn(program, argv, { ...as, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] })
  const text = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) child[name].on('data', (chunk: Buffer) => (text[name] += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code: code ?? 1, ...text }
}

async function mustRun(argv: readonly string[]): Promise<void> {
  const { code, stderr } = await capture('docker', argv)
  if (code !== 0) throw new Error(`docker ${argv[0]} ${argv[1]}: ${stderr}`)
}
