import { spawn } from 'node:child_process'
import { once } from 'node:events'

const MARK = 'SALLYPORT_TEST_NETWORK'
/** SIOCSIFFLAGS with IFF_UP. There is no other program for this that is on every machine with a browser. */
const LOOPBACK_UP = `import fcntl, os, socket, struct, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 1))
os.execv(sys.argv[1], sys.argv[1:])`

/**
 * Goes on only in a network of its own, with loopback and nothing else: a file of tests that awaits this at its top is run
 * there as a process of its own, whose results are this one's. What it opens reaches nobody outside, and a container that
 * another test starts changes nothing here: Chromium ends all that it loads when an interface of the machine comes or goes.
 */
export async function enterOwnNetwork(file: string): Promise<void> {
  if (process.env[MARK] === 'own' || process.platform !== 'linux') return
  const namespace = process.getuid?.() === 0 ? ['--net'] : ['--map-root-user', '--net']
  const argv = [...namespace, 'python3', '-c', LOOPBACK_UP, process.execPath, ...process.execArgv, file]
  const child = spawn('unshare', argv, { env: { ...process.env, [MARK]: 'own' }, stdio: 'inherit' })
  process.once('SIGTERM', () => child.kill())
  const [code] = (await once(child, 'exit')) as [number | null]
  process.exit(code ?? 1)
}
