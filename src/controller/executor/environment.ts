import { userInfo } from 'node:os'
import { isAbsolute } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'

type Environment = Readonly<Record<string, string>>

/**
 * I45: Variables that make a program run or load something else, or that say where its secrets are: no rule can add one. A star is any end,
 * or at the beginning any beginning.
 */
const NEVER = [
  // The dynamic loader, the C library.
  'LD_* DYLD_* GCONV_PATH LOCPATH NLSPATH MALLOC_TRACE GLIBC_TUNABLES RESOLV_HOST_CONF HOSTALIASES LOCALDOMAIN RES_OPTIONS TZDIR',
  // Shells.
  'BASH_ENV ENV BASH_FUNC_* SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND IFS CDPATH GLOBIGNORE ZDOTDIR FPATH',
  // Interpreters and virtual machines.
  'PERL5LIB PERL5OPT PERL5DB PERLLIB PERLIO_DEBUG RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_GEMFILE PYTHON* NODE_* BUN_* DENO_* TSX_*',
  'PHPRC PHP_INI_SCAN_DIR LUA_INIT* LUA_PATH* LUA_CPATH* TCLLIBPATH R_PROFILE* AWKPATH AWKLIBPATH CLASSPATH',
  'JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS',
  'COR_PROFILER* CORECLR_PROFILER* ERL_AFLAGS ERL_LIBS ELIXIR_ERL_OPTIONS GHCRTS',
  // TLS and the network.
  'OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE CURL_HOME WGETRC *_PROXY',
  // What is started to show or to edit.
  'PAGER *_PAGER MANPAGER LESSOPEN LESSCLOSE LESS LESSKEY EDITOR *_EDITOR VISUAL BROWSER',
  // Programs with settings of their own, and where their credentials are.
  'GIT_* GH_* SSH_* SUDO_* DOCKER_* KUBECONFIG AWS_* GOOGLE_* CLOUDSDK_* AZURE_* GNUPGHOME NPM_CONFIG_* YARN_* PIP_* UV_* OP_*',
  'CARGO_* RUST* GO* CC CXX LD AR MAKEFLAGS MAKEFILES GNUMAKEFLAGS CMAKE_* TAR_OPTIONS RSYNC_* RIPGREP_CONFIG_PATH GREP_OPTIONS',
  'TF_* PSQLRC PSQL_* PG*',
  // The terminal and the desktop.
  'TERMINFO* TERMCAP TERMPATH XDG_* DBUS_* DISPLAY WAYLAND_DISPLAY',
  // What is always ours.
  'PATH HOME SHELL TMPDIR USER LOGNAME SALLYPORT_*',
].flatMap((names) => names.split(' '))

const [EXACT, BEGINNINGS, ENDS] = [
  new Set(NEVER.filter((name) => !name.includes('*'))),
  NEVER.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1)),
  NEVER.filter((name) => name.startsWith('*')).map((name) => name.slice(1)),
]

/** Whether no rule may add the variable, in whatever case: `npm_config_…` and `http_proxy` are read in both. */
export function isNeverAdded(name: string): boolean {
  const spelling = name.toUpperCase()
  return EXACT.has(spelling) || BEGINNINGS.some((start) => spelling.startsWith(start)) || ENDS.some((end) => spelling.endsWith(end))
}

const LOCALE = /^(?:C|POSIX|[a-z]{2,3}_[A-Z]{2})(?:\.(?:UTF-8|utf8))?$/
const ZONE = /^[A-Za-z0-9_+-]+(?:\/[A-Za-z0-9_+-]+){0,2}$/
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
const UTF8 = 'C.UTF-8'

/**
 * The whole environment of a host command: ten variables, and what its rule adds.
 * @param operator of which HOME, LANG, LC_ALL, USER, LOGNAME, TZ and SHELL are taken, where their values are plain
 * @throws config_prohibited when the rule adds what no rule may, command_invalid for names and values that are none
 */
export function commandEnvironment(
  operator: Readonly<Record<string, string | undefined>>,
  ours: { readonly path: readonly string[]; readonly temporary: string },
  added: Environment,
): Environment {
  const user = userInfo()
  const plain = (name: string, fallback: string): string => (isPlain(operator[name]) ? operator[name] : fallback)
  const absolute = (name: string, fallback: string): string => {
    const value = operator[name]
    return isPlain(value) && isAbsolute(value) ? value : fallback
  }
  const locale = (name: string): string => (LOCALE.test(operator[name] ?? '') ? (operator[name] as string) : UTF8)
  const zone = operator['TZ']
  refuse(added)
  return {
    PATH: ours.path.join(':'),
    HOME: absolute('HOME', user.homedir),
    LANG: locale('LANG'),
    ...(operator['LC_ALL'] === undefined ? {} : { LC_ALL: locale('LC_ALL') }),
    TERM: 'dumb',
    USER: plain('USER', user.username),
    LOGNAME: plain('LOGNAME', user.username),
    TMPDIR: ours.temporary,
    // A zone is also the name of a file (tzset(3)).
    ...(zone !== undefined && ZONE.test(zone) ? { TZ: zone } : {}),
    SHELL: absolute('SHELL', '/bin/sh'),
    ...added,
  }
}

function refuse(added: Environment): void {
  let bytes = 0
  for (const [name, value] of Object.entries(added)) {
    if (isNeverAdded(name))
      throw new SallyportError('config_prohibited', `the variable ${JSON.stringify(name)} may not be given to a host command`, {
        hint: 'it makes programs run or load something else, or is always ours: take it out of the rule',
      })
    if (!NAME.test(name)) throw new SallyportError('command_invalid', `${JSON.stringify(name)} is no name of a variable`)
    if (value.includes('\0')) throw new SallyportError('command_invalid', `the value of ${name} has a NUL in it`)
    bytes += name.length + Buffer.byteLength(value)
  }
  if (bytes > LIMITS.commandEnvironmentBytesMax)
    throw new SallyportError('command_invalid', `the rule adds more than ${LIMITS.commandEnvironmentBytesMax} bytes of environment`)
}

function isPlain(value: string | undefined): value is string {
  // oxlint-disable-next-line no-control-regex -- nothing of a terminal's belongs into a name
  return value !== undefined && value !== '' && value.length <= 1_024 && !/[\x00-\x1f\x7f]/.test(value)
}
