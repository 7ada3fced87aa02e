import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { commandSetting, performed } from '../support/executor.ts'

const ALLOWED = new Set(['HOME', 'LANG', 'LC_ALL', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'TMPDIR', 'TZ', 'USER'])

/** As `facts` of programs name them, one of each family where it is one. */
const HOSTILE = [
  'LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT LD_DEBUG LD_DEBUG_OUTPUT LD_PROFILE DYLD_INSERT_LIBRARIES GCONV_PATH LOCPATH NLSPATH MALLOC_TRACE',
  'GLIBC_TUNABLES RESOLV_HOST_CONF HOSTALIASES LOCALDOMAIN RES_OPTIONS TZDIR BASH_ENV ENV BASH_FUNC_ls SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND',
  'IFS CDPATH GLOBIGNORE ZDOTDIR FPATH PERL5LIB PERL5OPT PERL5DB PERLLIB PERLIO_DEBUG RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_GEMFILE',
  'PYTHONSTARTUP PYTHONPATH NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS PHPRC PHP_INI_SCAN_DIR LUA_INIT LUA_PATH LUA_CPATH TCLLIBPATH R_PROFILE',
  'JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH MAVEN_OPTS GRADLE_OPTS DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS COR_PROFILER',
  'CORECLR_PROFILER_PATH ERL_AFLAGS ERL_LIBS ELIXIR_ERL_OPTIONS GHCRTS OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES SSL_CERT_FILE SSL_CERT_DIR',
  'SSLKEYLOGFILE CURL_HOME WGETRC HTTPS_PROXY https_proxy PAGER MANPAGER LESSOPEN LESSCLOSE LESS LESSKEY EDITOR VISUAL BROWSER GIT_SSH_COMMAND',
  'GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT GH_TOKEN SSH_AUTH_SOCK SUDO_ASKPASS DOCKER_HOST KUBECONFIG AWS_PROFILE GOOGLE_APPLICATION_CREDENTIALS',
  'CLOUDSDK_PYTHON AZURE_CONFIG_DIR npm_config_script_shell NPM_CONFIG_PREFIX YARN_RC_FILENAME CARGO_HOME RUSTC_WRAPPER GOFLAGS CC CXX LD AR',
  'MAKEFLAGS MAKEFILES CMAKE_TOOLCHAIN_FILE TAR_OPTIONS RSYNC_RSH RIPGREP_CONFIG_PATH GREP_OPTIONS TERMINFO TERMCAP TERMPATH XDG_CONFIG_HOME',
  'XDG_DATA_DIRS DBUS_SESSION_BUS_ADDRESS DISPLAY WAYLAND_DISPLAY PATH HOME TMPDIR SHELL SALLYPORT_HOME',
].flatMap((names) => names.split(' '))

test('I45 of the environment of the daemon a command has nothing but ten names', async () => {
  await using setting = await commandSetting({
    ...Object.fromEntries(HOSTILE.map((name) => [name, '/hostile'])),
    PATH: '/usr/bin:/bin',
    TMPDIR: '/tmp',
    SECRET: 'canary',
  })
  const { stdout } = await setting.run({ argv: ['env', '-0'] })
  const names = stdout
    .split('\0')
    .filter(Boolean)
    .map((line) => line.slice(0, line.indexOf('=')))
  assert.deepEqual(
    names.filter((name) => !ALLOWED.has(name)),
    [],
  )
  // Both are paths of the operator's own account.
  assert.deepEqual(
    stdout.split('\0').filter((line) => line.includes('/hostile')),
    ['HOME=/hostile', 'SHELL=/hostile'],
  )
  assert.ok(!stdout.includes('canary'))
})

for (const name of HOSTILE)
  test(`I45 no rule can add ${name}`, async () => {
    await using setting = await commandSetting()
    await assert.rejects(setting.prepare({ argv: ['true'], environment: { [name]: 'x' } }), (error: { code: string; message: string }) => {
      return error.code === 'config_prohibited' && error.message.includes(name)
    })
  })

for (const [name, value] of [
  ['A=B', 'x'],
  ['A B', 'x'],
  ['', 'x'],
  ['1A', 'x'],
  ['A\nB', 'x'],
  ['A', 'x\0y'],
  ['A', 'x'.repeat(40_000)],
] as const)
  test(`the addition ${JSON.stringify(name)}=${JSON.stringify(value.slice(0, 5))} is refused`, async () => {
    await using setting = await commandSetting()
    await assert.rejects(setting.prepare({ argv: ['true'], environment: { [name]: value } }), { code: 'command_invalid' })
  })

test('what a rule adds is in the environment and in what is shown', async () => {
  await using setting = await commandSetting()
  await using prepared = await setting.prepare({ argv: ['printenv', 'CI', 'TERM'], environment: { CI: 'true', TERM: 'xterm' } })
  assert.equal(prepared.subject.environment['CI'], 'true')
  assert.equal((await performed(prepared)).stdout, 'true\nxterm\n')
})

for (const [name, value] of [
  ['LANG', '../../tmp/x'],
  ['LANG', 'xx_XX.UTF-8@/tmp'],
  ['LC_ALL', '/tmp/locale'],
  ['TZ', ':/tmp/zone'],
  ['TZ', '/etc/shadow'],
  ['TZ', '../../tmp/zone'],
  ['HOME', 'relative'],
  ['SHELL', 'sh'],
  ['USER', 'a\nb'],
] as const)
  test(`the operator’s ${name}=${JSON.stringify(value)} does not go on`, async () => {
    await using setting = await commandSetting({ [name]: value })
    assert.ok(!(await setting.run({ argv: ['env', '-0'] })).stdout.includes(`${name}=${value}\0`))
  })

test('I45 a command has no descriptor but its three, no terminal, no core dumps, an own session, and makes files for the operator alone', async () => {
  await using setting = await commandSetting()
  // One that programs would inherit: opened by a shell that starts us, at a number with a gap before it.
  const script = join(import.meta.dirname, '../support/inherited-descriptors.ts')
  openSync('/etc/passwd', 'r')
  const { stdout, stderr } = spawnSync('bash', ['-c', `exec 77</etc/passwd 3</etc/passwd; exec "${process.execPath}" "${script}"`], {
    encoding: 'utf8',
  })
  assert.equal(stderr, '')
  const open = stdout.split('\n').filter((line) => / -> /.test(line) && !/ [012] -> /.test(line))
  // `ls` itself has the folder open.
  assert.deepEqual(
    open.filter((line) => !/ \/proc\/\d+\/fd$/.test(line) && !line.endsWith(' /dev/null')),
    [],
  )
  const told = await setting.run({
    argv: [
      'sh',
      '-c',
      'ulimit -c; umask; readlink /proc/self/fd/0; cut -d" " -f6 /proc/$$/stat; echo $$; (: < /dev/tty) 2>/dev/null || echo none',
    ],
  })
  const [core, mask, input, session, pid, terminal] = told.stdout.split('\n')
  assert.deepEqual([core, mask, input, terminal], ['0', '0077', '/dev/null', 'none'])
  assert.equal(session, pid)
})

test('a folder for temporary files that somebody else made is not used', async () => {
  await using setting = await commandSetting()
  spawnSync('ln', ['-s', setting.elsewhere, join(setting.root, `sallyport-${process.geteuid?.()}`)])
  await assert.rejects(setting.prepare({ argv: ['true'] }), { code: 'config_invalid' })
  assert.ok(!existsSync(join(setting.elsewhere, 'x')))
})
