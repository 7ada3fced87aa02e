import { programClass, programName } from '../wire/programs.ts'

/** What must not be reached by a command that an agent asked for. */
export type Guarded = { readonly home: string; readonly operatorPorts: readonly number[] }

/** Files of the engine and the daemon that are as good as root, or as the operator's word. */
const SOCKETS = /(?:docker|podman|containerd|crio|buildkitd|daemon)\.sock\b/i
const START_FILES =
  /(?:^|[/\\=:@~])\.?(?:bashrc|bash_profile|bash_login|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|authorized_keys)$|\/(?:LaunchAgents|LaunchDaemons|systemd\/user|cron\.d|sudoers\.d|autostart)(?:\/|$)|^\/etc\/(?:sudoers|crontab|profile|polkit-1)/i
const KILLERS = new Set(['kill', 'pkill', 'killall', 'skill', 'fuser'])

/**
 * Why a command could answer for the operator or change who does: it calls our own program, speaks with the operator's ports or with an
 * engine's socket, touches the daemon's home or what the operator's shell starts with, or ends the daemon. Nothing allows these.
 */
export function launderingOf(argv: readonly string[], { home, operatorPorts }: Guarded): string | undefined {
  const [program = '', ...given] = argv
  if (programClass(program) === 'own' || argv.some(isOurProgram)) return 'it calls Sallyport itself'
  const name = programName(program)
  if (KILLERS.has(name)) {
    const target = given.find((argument) => /sallyport|^-1$|^-?0$|^1$|^node(?:js)?$|^\.[*+]?$/i.test(argument) && !/^-\d+$/.test(argument))
    if (target !== undefined || (given.at(-1) === '-1' && given.length > 1))
      return `it ends processes that the daemon may be one of (${given.at(-1) ?? ''})`
  }
  for (const argument of argv) {
    if (mentionsHome(argument, home)) return `"${shorten(argument)}" is in the home of the daemon: its policy, vault, audit and socket`
    if (SOCKETS.test(argument)) return `"${shorten(argument)}" is the socket of an engine or of the daemon`
    if (START_FILES.test(argument)) return `"${shorten(argument)}" decides what the operator's shell, or the system, starts with`
    if (mentionsPort(argument, operatorPorts)) return `"${shorten(argument)}" is where the operator answers`
  }
  const port = given.find((argument) => operatorPorts.some((number) => argument === String(number)))
  if (port !== undefined && given.some((argument) => isLoopback(argument)))
    return `port ${port} of this machine is where the operator answers`
  if (
    /^(?:secret-tool|security|keyctl|kwallet-query|pkcheck|pkttyagent)$/.test(name) &&
    given.some((argument) => /sallyport/i.test(argument))
  )
    return 'it reaches what the vault is unlocked with, or how presence is proven'
  return undefined
}

function isOurProgram(argument: string): boolean {
  return /(?:^|[/\\])sallyport(?:\.(?:m?js|cjs|exe))?$/i.test(argument) && /[/\\]|\./.test(argument)
}

function mentionsHome(argument: string, home: string): boolean {
  const text = argument.toLowerCase()
  const folder = home.replace(/\/+$/, '').toLowerCase()
  if (folder !== '' && normalized(text).some((path) => path.includes(folder))) return true
  return /(?:^|[/\\=:@~"'])(?:~|\$home|\$\{home\})?\/?\.sallyport(?:\/|$)(?!policy\.ya?ml$)/.test(text) || /\$\{?sallyport_home/.test(text)
}

/** The text, and the same without what a path may have and still be itself. */
function normalized(text: string): string[] {
  const plain = text.replaceAll(/\/(?:\.\/)+/g, '/').replaceAll(/\/{2,}/g, '/')
  let before = plain
  for (let round = 0; round < 32; round += 1) {
    const after = before.replace(/\/[^/]+\/\.\.(?=\/|$)/, '')
    if (after === before) break
    before = after
  }
  return [text, plain, before]
}

/** Every spelling of this machine: names, 127/8 in one to four numbers of any base, ::1, the mapped form, any address. */
function isLoopback(host: string): boolean {
  const bare = host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
  if (/^(?:localhost|.*\.localhost|ip6-localhost|ip6-loopback|0|::|::1|0:0:0:0:0:0:0:[01]|host\.docker\.internal)$/.test(bare)) return true
  if (/^::(?:ffff:)?(?:127\.|7f|0\.0\.0\.0)/.test(bare)) return true
  if (/^(?:0x[0-9a-f]+|\d+)$/.test(bare)) {
    const value = Number(bare.startsWith('0x') ? bare : bare.startsWith('0') ? `0o${bare.slice(1) || '0'}` : bare)
    return value >= 0x7f_00_00_00 && value <= 0x7f_ff_ff_ff
  }
  return /^(?:127|0x7f|0177|0+)\.[\dxa-f.]*$/.test(bare)
}

function mentionsPort(argument: string, ports: readonly number[]): boolean {
  for (const found of argument.matchAll(/(\[[0-9a-f:.%]+\]|[a-z0-9._-]+):(\d{1,5})(?!\d)/gi))
    if (ports.includes(Number(found[2])) && isLoopback(found[1] ?? '')) return true
  return false
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
