import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { aptInstall } from './engine.ts'
import { SetupError, main, mayInstall } from './steps.ts'

/** A program that tests run: the names that it may have, and Debian's package of it. */
export type Program = {
  readonly names: readonly string[]
  readonly package: string
  /** Where it is, when that is not a folder of PATH. */
  readonly folders?: () => readonly string[]
}

const POSTGRES = '/usr/lib/postgresql'

/** What agents' and operators' programs are tried with, besides Node itself. */
const CLIENTS: readonly Program[] = [
  ...['curl', 'wget', 'git', 'openssl', 'python3'].map((name) => ({ names: [name], package: name })),
  // The proxy of many an office.
  { names: ['squid'], package: 'squid' },
  // Signs in what a browser trusts.
  { names: ['certutil'], package: 'libnss3-tools' },
  // Where operators keep secrets.
  { names: ['pass'], package: 'pass' },
  { names: ['gpg'], package: 'gnupg' },
  { names: ['secret-tool'], package: 'libsecret-tools' },
  { names: ['gnome-keyring-daemon'], package: 'gnome-keyring' },
  { names: ['dbus-daemon'], package: 'dbus' },
  // What commands that run code of a workspace are confined with, and one that runs such code.
  { names: ['bwrap'], package: 'bubblewrap' },
  { names: ['make'], package: 'make' },
  // A database, and a program that speaks with one and knows no proxy.
  { names: ['psql'], package: 'postgresql-client' },
  { names: ['initdb'], package: 'postgresql', folders: postgresFolders },
  // A terminal that shows what it was sent, programs that fill one, and what kills a program at a certain call.
  ...['tmux', 'vim', 'less', 'strace'].map((name) => ({ names: [name], package: name })),
]

/** The shell opens a tab in a tenth of the time: it has no windows with menus around it. */
const CHROMIUM: Program = {
  names: ['chromium-headless-shell', 'chrome-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
  package: 'chromium-headless-shell',
}

/**
 * Leaves the clients behind that the tests run, and with `chromium` a browser: what is there is used, what is missing is
 * installed on Debian as root in one go, anywhere else the error names it.
 * @throws SetupError
 */
export async function ensureClients(options: { chromium: boolean }): Promise<void> {
  await ensurePrograms(options.chromium ? [...CLIENTS, CHROMIUM] : CLIENTS)
}

/** Where the browser is. @throws SetupError when there is none */
export function findChromium(): string {
  const found = find(CHROMIUM)
  if (found === undefined)
    throw new SetupError(`none of ${CHROMIUM.names.join(', ')} is installed`, ['run the tests with: npm test -- test/browser'])
  return found
}

async function ensurePrograms(programs: readonly Program[]): Promise<void> {
  const missing = programs.filter((program) => find(program) === undefined)
  if (missing.length === 0) return
  const problem = `${missing.map(({ names }) => names[0]).join(', ')}: needed by the tests and not installed`
  const packages = missing.map((program) => program.package)
  if (!isDebianRoot()) throw new SetupError(problem, [`install ${packages.join(', ')} (on Debian as root this command does)`])
  if (!mayInstall)
    throw new SetupError(`${problem}, and SALLYPORT_NO_INSTALL=1 forbids installing`, [`run: apt-get install ${packages.join(' ')}`])
  if (packages.includes('postgresql')) await keepServersOut()
  await aptInstall(packages)
}

/** Debian's package makes a server of the machine's own and starts it, unless it is told before not to. */
async function keepServersOut(): Promise<void> {
  await aptInstall(['postgresql-common'])
  appendFileSync('/etc/postgresql-common/createcluster.conf', '\ncreate_main_cluster = false\n')
}

/** Of each version that is installed: Debian keeps the server's programs out of PATH. */
function postgresFolders(): readonly string[] {
  return existsSync(POSTGRES) ? readdirSync(POSTGRES).map((version) => path.join(POSTGRES, version, 'bin')) : []
}

function find({ names, folders: own }: Program): string | undefined {
  const folders = own?.() ?? (process.env['PATH'] ?? '').split(':').filter(Boolean)
  return names.flatMap((name) => folders.map((folder) => path.join(folder, name))).find((file) => existsSync(file))
}

function isDebianRoot(): boolean {
  return process.getuid?.() === 0 && existsSync('/etc/os-release') && /^ID="?debian"?$/m.test(readFileSync('/etc/os-release', 'utf8'))
}

if (import.meta.main) {
  await main(async () => {
    await ensureClients({ chromium: true })
    console.log(findChromium())
    return 0
  })
}
