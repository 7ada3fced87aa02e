/**
 * What a program, or the loader, the shell or the library under it, takes code, configuration, files or another way out of. Names, or
 * beginnings with `*` at the end, or ends with `*` at the start.
 */
const FORBIDDEN = `
  LD_* DYLD_* GCONV_PATH LOCPATH NLSPATH MALLOC_TRACE GLIBC_TUNABLES RESOLV_HOST_CONF HOSTALIASES LOCALDOMAIN RES_OPTIONS TZDIR
  BASH_ENV ENV BASH_FUNC_* SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND IFS CDPATH GLOBIGNORE ZDOTDIR FPATH
  PATH HOME TMPDIR SHELL PWD OLDPWD USER LOGNAME
  PERL* RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_* PYTHON* NODE_* PHPRC PHP_INI_SCAN_DIR LUA_* TCLLIBPATH R_PROFILE* R_ENVIRON* JAVA_TOOL_OPTIONS
  _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH MAVEN_* GRADLE_* DOTNET_* COR_* CORECLR_* ERL_* ELIXIR_* GHCRTS JULIA_* DENO_* BUN_* TSX_*
  OPENSSL_* SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE CURL_* WGETRC *_PROXY PAGER *PAGER LESS* EDITOR *EDITOR VISUAL BROWSER
  GIT_* GH_* SSH_* SUDO_* DOCKER_* COMPOSE_* BUILDX_* BUILDKIT_* KUBE* HELM_* AWS_* GOOGLE_* CLOUDSDK_* AZURE_* OP_* NPM_CONFIG_* NPM_PACKAGE_* YARN_* PNPM_*
  COREPACK_* CARGO_* RUST* GO* CGO_* CC CXX LD AR MAKEFLAGS MAKEFILES GNUMAKEFLAGS CMAKE_* SWIFT* TOOLCHAINS DEVELOPER_DIR XCODE_* TF_* TAR_OPTIONS TAPE
  GZIP XZ_OPT ZSTD_* UNZIP ZIPOPT ZIPINFO RSYNC_* RIPGREP_CONFIG_PATH GREP_OPTIONS AWKPATH AWKLIBPATH PSQL* PG* PIP_* UV_* VIRTUAL_ENV GNUPGHOME GPG_AGENT_INFO
  PINENTRY_USER_DATA HOMEBREW_* TERMINFO* TERMCAP TERMPATH XDG_* DBUS_* DISPLAY WAYLAND_DISPLAY XAUTHORITY ASDF_* MISE_* SALLYPORT_*`
  .trim()
  .split(/\s+/)

/** Why a rule may not set this variable, or `undefined`. Case is nothing: some programs read a name in either. */
export function environmentProblem(name: string, value: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name)) return `the variable "${name.slice(0, 80)}" may have letters, digits and "_" only`
  if (isForbiddenVariable(name)) return `the variable "${name}" decides what programs run, load or trust: no rule sets it`
  if (value.length > 4_096 || /\p{Cc}/u.test(value))
    return `the value of "${name}" may have 4096 characters at most, and no control characters`
  return undefined
}

/** Whether a variable could make a program run, load or trust something else. */
export function isForbiddenVariable(name: string): boolean {
  const upper = name.toUpperCase()
  return FORBIDDEN.some((pattern) => {
    if (pattern.endsWith('*')) return upper.startsWith(pattern.slice(0, -1))
    return pattern.startsWith('*') ? upper.endsWith(pattern.slice(1)) : upper === pattern
  })
}
