import { list, row, type ProgramTable } from './table.ts'

/** npm(1), pnpm, yarn, bun. What runs scripts of the workspace is not here: it is workspace code. */
export const NPM: ProgramTable = {
  names: ['npm', 'pnpm', 'yarn', 'yarnpkg', 'cnpm'],
  style: 'gnu',
  valued: 'wCc',
  valuedLong: list('--workspace --depth --filter --json-path --omit --include'),
  abbreviates: true,
  operandsAreNames: true,
  isLocal: true,
  rows: [
    row(
      'X',
      '--script-shell --node-options --git --shell --editor --browser --viewer --onload-script --init-module --call -c --package --pnpmfile --global-pnpmfile --use-node-version --shell-emulator',
      'names a program or code to run',
    ),
    row(
      'C',
      '--prefix --globalconfig --userconfig --registry --proxy --https-proxy --cafile --ca --cert --key --location --config --dir -C --cwd --use-yarnrc --modules-folder --global-dir --strict-ssl --cache --store-dir --@',
      'takes configuration or packages from another place',
    ),
    row('W', '-g --global --install-links --foreground-scripts --global-style', 'works on the whole machine, not on the workspace'),
    row('X', 'exec x dlx env/use create init innit', 'downloads a package and runs it'),
    row(
      'W',
      'publish unpublish deprecate dist-tag owner access token login logout adduser add-user team hook profile org star unstar stars deploy',
      'changes packages or accounts for everybody',
    ),
    row(
      'C',
      'config/set config/edit config/delete config/fix set pkg/set pkg/delete pkg/fix edit cache plugin plugins self-update policies',
      'changes configuration',
    ),
    row('X', 'docs home repo bugs issues', 'opens a browser'),
    row('X', 'patch patch-commit setup doctor', 'starts other programs'),
  ],
  readOnly: list(
    'view info show v ls list la ll outdated search whoami ping config/get config/list pkg/get explain why root prefix bin fund licenses store/path query sbom help --version -v --help audit/signatures',
  ),
}

/** cargo(1). What compiles runs build scripts of the workspace: it is workspace code. */
export const CARGO: ProgramTable = {
  names: ['cargo', 'rustup', 'rustc'],
  style: 'gnu',
  valued: 'pFZjC',
  operandsAreNames: true,
  rows: [
    row('C', '--config', 'sets configuration, which names programs to run'),
    row('C', '-C --manifest-path --lockfile-path', 'works in another folder, by its configuration'),
    row('W', '--target-dir --artifact-dir --out-dir --root --path', 'writes in another place', {
      on: 'build check test run bench doc clippy fix rustc clean install vendor package init new',
    }),
    row('X', '-Z --linker', 'unstable features, which may run programs'),
    row('N', '--registry --index --git', 'takes packages from another place'),
    row('X', 'install', 'downloads a program and builds it'),
    row('N', 'publish login logout yank owner add', 'changes packages for everybody, or downloads'),
    row('W', 'vendor package init new remove rm', 'writes files'),
    row('X', '', 'another toolchain, which is downloaded and run', { operand: /^\+/ }),
    row('X', 'default update toolchain component target override self run set', 'changes which programs are run'),
  ],
  readOnly: list('metadata tree search pkgid locate-project --version -V version help --list show info'),
}

/** go(1). What compiles or tests is workspace code. */
export const GO: ProgramTable = {
  names: ['go'],
  style: 'exact',
  operandsAreNames: true,
  rows: [
    row(
      'X',
      '-vettool -toolexec -exec -overlay -ldflags -gcflags -asmflags -gccgoflags -compiler -pkgdir',
      'names a program to run, or replaces sources',
    ),
    row('C', '-C -modfile -mod', 'takes another folder or module file', { value: /^(?!readonly$)/ }),
    row('W', '-o -cpuprofile -memprofile -blockprofile -mutexprofile -trace -coverprofile -outputdir', 'writes files'),
    row('X', 'install get tool generate', 'downloads programs or runs them'),
    row('C', '-w -u', 'changes configuration', { on: 'env' }),
    row('W', 'clean fmt fix work/init work/use work/edit work/sync mod/init mod/tidy mod/edit mod/vendor', 'writes files'),
    row('N', 'mod/download telemetry', 'talks to others'),
  ],
  readOnly: list('version list env doc mod/graph mod/why mod/verify help'),
}

/** pip(1), uv, gem, and the package managers of systems. */
export const PIP: ProgramTable = {
  names: ['pip', 'pip3', 'poetry', 'pdm', 'pipenv', 'conda', 'mamba', 'gem', 'cpan', 'cpanm', 'luarocks', 'composer', 'nuget'],
  style: 'gnu',
  valued: 'rceitd',
  isLocal: true,
  rows: [
    row(
      'X',
      'install download wheel build sync add update upgrade run shell develop lock create env',
      'runs what packages bring to build themselves',
    ),
    row(
      'C',
      'config self plugin source sources cache unpack push publish yank owner signin',
      'changes configuration, or packages for everybody',
    ),
    row('W', '--target -t --prefix --root --log --src --report -d --dest', 'writes in another place'),
    row('R', '-r --requirement -e --editable --constraint -c', 'reads a file, or fetches it'),
    row(
      'N',
      '--index-url -i --extra-index-url --find-links -f --trusted-host --proxy --cert --client-cert --source',
      'takes packages from another place',
    ),
    row('W', 'uninstall remove cleanup', 'deletes'),
    row('X', '--python --use-pep517 --global-option --config-settings', 'names a program to run, or options for it'),
  ],
  readOnly: list('list show freeze check search info environment contents dependency outdated help --version -V index'),
}

export const SYSTEM_PACKAGES: ProgramTable = {
  names: [
    'brew',
    'apt',
    'apt-get',
    'apt-cache',
    'dnf',
    'yum',
    'zypper',
    'pacman',
    'apk',
    'port',
    'snap',
    'flatpak',
    'dpkg',
    'rpm',
    'nix',
    'nix-env',
    'nix-shell',
    'nix-build',
    'guix',
    'winget',
    'choco',
    'scoop',
    'mas',
    'softwareupdate',
  ],
  style: 'gnu',
  valued: 'oct',
  operandsAreNames: true,
  rows: [
    row(
      'X',
      'install reinstall upgrade update full-upgrade dist-upgrade remove purge autoremove tap link unlink postinstall services bundle edit source build-dep',
      'runs what packages bring along',
    ),
    row('X', '-o --option -c --config-file', 'sets options, which may name programs to run'),
    row('X', '--HEAD --build-from-source', 'builds from what is fetched'),
    row('X', '-i --install -r -P --remove --purge --configure --unpack -U -F -e -S -R', 'installs or removes', { on: '@globals' }),
  ],
  otherwise: { letter: 'X', why: 'changes what is installed' },
  readOnly: list(
    'list info search show policy depends rdepends deps uses outdated leaves desc cat config home-page --version help -Q -Qi -qa -qi -l -s -L -S',
  ),
  tier: 'T1',
}

/** SwiftPM, and Apple's build tool: both run what the workspace says, which is workspace code. */
export const SWIFT: ProgramTable = {
  names: ['swift', 'swiftc', 'swift-build', 'swift-package', 'swift-test', 'swift-run'],
  style: 'exact',
  operandsAreNames: true,
  rows: [
    row(
      'X',
      '--disable-sandbox --allow-writing-to-directory --allow-writing-to-package-directory --allow-network-connections',
      'takes the walls of plugins away',
    ),
    row(
      'C',
      '--package-path -C --scratch-path --build-path --cache-path --config-path --security-path --toolchain --sdk --swift-sdk --destination',
      'works in another folder, or with other programs',
    ),
    row('X', '-Xswiftc -Xlinker -Xcc -Xcxx -Xbuild-tools-swiftc -Xmanifest', 'hands options to compiler and linker, which load code'),
    row('X', 'package/plugin repl', 'runs a plugin or what is typed'),
    row(
      'W',
      'package/init package/reset package/edit package/unedit package/resolve package/update package/config package/clean package/purge-cache package/archive-source package/add-dependency package/add-target',
      'writes files, or fetches',
    ),
    row('X', '-e -interpret', 'runs what is written there'),
  ],
  readOnly: list('--version -version package/tools-version'),
}

export const XCODEBUILD: ProgramTable = {
  names: ['xcodebuild'],
  style: 'exact',
  operandsAreNames: true,
  rows: [
    row(
      'W',
      '-exportArchive -exportOptionsPlist -derivedDataPath -resultBundlePath -archivePath -exportPath -resultStreamPath -clonedSourcePackagesDirPath',
      'writes in another place',
    ),
    row('C', '-xcconfig -toolchain -packageCachePath', 'takes settings or programs from another place'),
    row('X', '', 'a build setting, which may name the compiler', { operand: /^[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?=/ }),
    row('X', '-skipMacroValidation -skipPackagePluginValidation -skipPackagePluginValidatation', 'runs macros and plugins unasked'),
    row('N', '-allowProvisioningUpdates -allowProvisioningDeviceRegistration -authenticationKeyPath', 'changes something of the account'),
    row('X', '-runFirstLaunch -downloadPlatform -downloadAllPlatforms -importPlatform -license', 'installs'),
  ],
  readOnly: list('-list -version -showsdks -showdestinations -help'),
}

/** Builders: all that they do is workspace code, and these change whose. */
export const BUILDERS: ProgramTable = {
  names: [
    'make',
    'gmake',
    'bmake',
    'ninja',
    'just',
    'task',
    'rake',
    'gradle',
    'gradlew',
    'mvn',
    'mvnw',
    'ant',
    'sbt',
    'bazel',
    'buck',
    'pants',
    'meson',
    'scons',
    'waf',
    'cmake',
    'ctest',
    'cpack',
    'dotnet',
    'msbuild',
    'mix',
    'rebar3',
  ],
  style: 'gnu',
  valued: 'fCIjlotWDGSBPEdp',
  operandsAreNames: true,
  rows: [
    row('X', '--eval -E --shell --shell-arg --set -P --init-script -I --include-dir', 'runs what is written there'),
    row(
      'C',
      '-f --file --makefile -C --directory --justfile --working-directory -d --project-dir -p --taskfile -t',
      'takes another file, or works in another folder',
    ),
    row('X', '', 'a variable, which may be the shell or compiler', { operand: /^[A-Za-z_][\w.-]*\s*[:?+!]*=/ }),
    row('X', '-D -c', 'a variable or command, which may be the shell or compiler'),
    row('W', '-o --old-file -W --what-if --assume-old --assume-new', 'changes what counts as built'),
  ],
  readOnly: list('--version -version'),
}
