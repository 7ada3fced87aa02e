import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { PresenceEvidence, PresenceProof } from '../../src/wire/question.ts'
import { temporaryFolder } from './audit.ts'
import { runProgram } from './command.ts'
import { openPty, type Pty } from './pty.ts'

const INSTALL = join(import.meta.dirname, '../../host/polkit/install.sh')
const CHILD = join(import.meta.dirname, 'presence-child.ts')
const PROGRAMS = [
  '/usr/lib/polkit-1/polkitd',
  '/usr/bin/pkcheck',
  '/usr/bin/pkttyagent',
  '/usr/bin/dbus-daemon',
  '/usr/bin/nsenter',
  '/usr/bin/setpriv',
]

export const LOGIN_PASSWORD = 'the login password'
/** Users of the machine that the test makes for itself: who runs the daemon, and who does not. */
export const OPERATOR = { name: 'spoperator', uid: 23_456 } as const
export const OTHER = { name: 'spother', uid: 23_457 } as const

const BUS = `<busconfig>
  <type>system</type>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/><allow send_destination="*"/><allow receive_sender="*"/>
  </policy>
</busconfig>`

/** A system bus of its own, users, actions and rules of polkit, over those of the machine: nobody else sees them, and they end with it. */
const SCRIPT = `set -eu
for file in passwd shadow group; do mount --bind "$1/$file" "/etc/$file"; done
mount --bind "$1/actions" /usr/share/polkit-1/actions
mount --bind "$1/rules" /etc/polkit-1/rules.d
"$2" "$3" >/dev/null
mount -t tmpfs tmpfs /run
mkdir /run/dbus
dbus-daemon --config-file="$1/bus.conf" --nofork --nopidfile 2>/dev/null &
while [ ! -S /run/dbus/system_bus_socket ]; do sleep 0.02; done
/usr/lib/polkit-1/polkitd --replace 2>&1 &
wait`

/** It closes a descriptor when it is known to polkitd. */
const AGENT = 'pkttyagent --process "$0" --notify-fd 3 3>&1 1>/dev/tty | { cat; echo registered >/dev/tty; }'

export type Answer = { readonly evidence?: PresenceEvidence; readonly code?: string; readonly message?: string; readonly hint?: string }

export type DaemonOnPolkit = AsyncDisposable & {
  readonly pid: number
  readonly startTime: string
  readonly available: readonly string[]
  /** Proves a question of T2. */
  prove(proof: PresenceProof, digest: string): Promise<Answer>
  breakOff(): void
}

export type Polkit = AsyncDisposable & {
  /** The presence of a daemon that this user runs. */
  daemon(user?: { readonly uid: number }): Promise<DaemonOnPolkit>
  /** A program of a user, among the same mounts. */
  start(user: { readonly uid: number }, argv: readonly string[]): Promise<ChildProcess>
  /** The agent that shows prompts for a process on a terminal, ready to. */
  agent(of: { readonly pid: number; readonly startTime: string }): Promise<Pty>
}

/** A real polkitd with PAM and users behind it, on a bus of its own; a reason where that cannot be. `rule`: JavaScript for its rules. */
export async function openPolkit({ rule = '', owner = OPERATOR.name }: { rule?: string; owner?: string } = {}): Promise<
  Polkit | { readonly missing: string }
> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return { missing: 'a polkitd of its own needs root on Linux' }
  for (const program of PROGRAMS)
    if ((await runProgram(['/usr/bin/test', '-x', program], {})).code !== 0) return { missing: `there is no ${program}` }
  await using parts = new AsyncDisposableStack()
  const { path } = parts.use(await temporaryFolder())
  await prepare(path, rule)
  const main = spawn('unshare', ['--mount', 'true'], { stdio: 'ignore' })
  if (((await once(main, 'exit')) as [number | null])[0] !== 0) return { missing: 'mounts of its own are not permitted here' }
  const host = spawn('unshare', ['--mount', 'sh', '-c', SCRIPT, 'polkit', path, INSTALL, owner], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  parts.defer(async () => {
    const ended = once(host, 'exit')
    process.kill(-(host.pid ?? 0), 'SIGKILL')
    await ended
  })
  for await (const line of createInterface({ input: host.stdout })) if (line.includes('Acquired the name')) break
  host.stdout.resume()
  const within = (uid: number, argv: readonly string[]): string[] => [
    'nsenter',
    `--mount=/proc/${host.pid}/ns/mnt`,
    'setpriv',
    `--reuid=${uid}`,
    `--regid=${uid}`,
    '--clear-groups',
    ...argv,
  ]
  const env = { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', LANG: 'C.UTF-8' }
  const running = new AsyncDisposableStack()
  const launch = async (uid: number, argv: readonly string[]): Promise<ChildProcess> => {
    const [file = '', ...args] = within(uid, argv)
    const child = spawn(file, args, { env, stdio: ['pipe', 'pipe', 'inherit'] })
    running.defer(() => void child.kill('SIGKILL'))
    await once(child, 'spawn')
    return child
  }
  const below = parts.move()
  running.use(below)
  return {
    start: (user, argv) => launch(user.uid, argv),
    async daemon(user = OPERATOR) {
      const home = join(path, `home-${user.uid}`)
      await mkdir(home, { recursive: true, mode: 0o700 })
      await chown(home, user.uid, user.uid)
      return daemonOf(await launch(user.uid, [process.execPath, CHILD, home]))
    },
    async agent({ pid, startTime }) {
      const terminal = openPty(within(OPERATOR.uid, ['sh', '-c', AGENT, `${pid},${startTime}`]), { env, columns: 200 })
      running.use(terminal)
      await terminal.sees('registered')
      return terminal
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function prepare(path: string, rule: string): Promise<void> {
  await chmod(path, 0o755)
  await mkdir(join(path, 'actions'))
  await mkdir(join(path, 'rules'))
  await copyFile('/usr/share/polkit-1/actions/org.freedesktop.policykit.policy', join(path, 'actions', 'org.freedesktop.policykit.policy'))
  await writeFile(join(path, 'rules', '10-test.rules'), rule)
  await writeFile(join(path, 'bus.conf'), BUS)
  const { stdout } = await runProgram(['openssl', 'passwd', '-6', LOGIN_PASSWORD], { PATH: process.env['PATH'] ?? '' })
  const users = [OPERATOR, OTHER]
  const add = async (name: string, lines: readonly string[], mode: number): Promise<void> => {
    await writeFile(join(path, name), `${await readFile(`/etc/${name}`, 'utf8')}${lines.join('\n')}\n`)
    await chmod(join(path, name), mode)
  }
  await add(
    'passwd',
    users.map(({ name, uid }) => `${name}:x:${uid}:${uid}::/nonexistent:/bin/sh`),
    0o644,
  )
  await add(
    'group',
    users.map(({ name, uid }) => `${name}:x:${uid}:`),
    0o644,
  )
  await add(
    'shadow',
    users.map(({ name }) => `${name}:${stdout.trim()}:19000:0:99999:7:::`),
    0o600,
  )
}

async function daemonOf(child: ChildProcess): Promise<DaemonOnPolkit> {
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]()
  const next = async <T>(): Promise<T> => JSON.parse(String((await lines.next()).value)) as T
  const first = await next<{ pid: number; startTime: string; available: string[] }>()
  return {
    ...first,
    async prove(proof, digest) {
      child.stdin?.write(`${JSON.stringify({ proof, digest })}\n`)
      return next<Answer>()
    },
    breakOff: () => void child.stdin?.write('\n'),
    async [Symbol.asyncDispose]() {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
  }
}
