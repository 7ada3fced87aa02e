import type { CommandHazard } from '../wire/command.ts'
import { programName } from '../wire/programs.ts'
import { tableOf } from './hazards/hazards.ts'

/** What is behind these names is dangerous whatever the program. */
const SENSITIVE = new Set(
  `.git .ssh .aws .gnupg .kube .docker .netrc _netrc .npmrc .pypirc .gitconfig .git-credentials .config .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc
  .zshenv .zprofile .zlogin .zlogout .inputrc .vimrc .gdbinit .psqlrc .curlrc .wgetrc authorized_keys known_hosts crontab cron.d launchagents launchdaemons sudoers sudoers.d shadow
  passwd .sallyport .pgpass .my.cnf .terraformrc .cargo .envrc docker.sock podman.sock containerd.sock .bash_history .zsh_history keychains .password-store id_rsa id_ed25519`.split(
    /\s+/,
  ),
)
const DEVICES = /^\/(?:dev\/(?!null$|stdout$|stderr$|zero$)|sys(?:\/|$)|proc\/[^/]+\/(?:mem|environ|fd|root|cwd|exe|maps))/
/** What shows as nothing, turns the text around it or is a control. CVE-2021-42574 */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]|\p{Default_Ignorable_Code_Point}/u
const LONG_CHARS = 4_096

/** What is a hazard in any program's arguments: places outside of the workspace, files that decide or keep something, text that misleads. */
export function placeHazards(argv: readonly string[], workspace: string): CommandHazard[] {
  const [program = '', ...given] = argv
  const table = tableOf(program)
  const found: CommandHazard[] = []
  const say = (token: string, letter: CommandHazard['letter'], why: string): void => {
    if (!found.some((hazard) => hazard.why === why)) found.push({ program: '*', token, letter, why })
  }
  if (/\/shims\/|\/\.(?:asdf|pyenv|rbenv|nodenv|rustup)\//.test(program))
    say(program, 'C', 'a version manager chooses the program by what the workspace says')
  for (const argument of given) {
    if (argument.length > LONG_CHARS) say(argument, 'X', `an argument of ${argument.length} characters`)
    if (UNSEEN.test(argument)) say(argument, 'X', 'an argument with characters that cannot be seen')
    for (const path of pathsOf(argument)) {
      if (DEVICES.test(path)) say(argument, 'R', 'a device, or what the kernel shows of a process')
      const name = sensitivePart(path)
      if (name !== undefined) say(argument, 'R', `"${name}" decides what programs do, or keeps what signs in`)
      if (table?.operandsAreNames !== true && isOutside(path, workspace)) say(argument, 'R', 'a place outside of the workspace')
    }
    if (
      table?.isLocal === true &&
      /^(?:git\+)?[a-z][a-z0-9+.-]*:\/\/|^(?:git|github|gitlab|bitbucket|gist|file|link):|^git@/i.test(argument)
    )
      say(argument, 'N', `${programName(program)} fetches from an address`)
  }
  return found
}

/** What of an argument may be a path: itself, the value of an option, what is after `@` or a colon. */
function pathsOf(argument: string): readonly string[] {
  const parts = [argument]
  const equals = argument.indexOf('=')
  if (equals !== -1) parts.push(argument.slice(equals + 1))
  const short = /^-[a-zA-Z](.+)$/.exec(argument)?.[1]
  if (short !== undefined) parts.push(short)
  for (const sign of ['@', ':']) {
    const at = argument.indexOf(sign)
    if (at !== -1) parts.push(argument.slice(at + 1))
  }
  return parts
}

/** Case is nothing: some file systems know none. */
function sensitivePart(path: string): string | undefined {
  return path.split(/[/\\]/).find((part) => SENSITIVE.has(part.toLowerCase()) || /^\.env(?:\.|$)/i.test(part))
}

/** By its text: where links lead is for whoever runs it. */
export function isOutside(path: string, workspace: string): boolean {
  if (path.startsWith('~')) return /^~[\w.-]*(?:\/|$)/.test(path)
  const parts = path.split('/')
  if (path.startsWith('/')) {
    const isInside = [workspace, '/workspace'].some((folder) => path === folder || path.startsWith(`${folder}/`))
    return parts.includes('..') || (!isInside && path !== '/dev/null')
  }
  return parts.includes('..')
}
