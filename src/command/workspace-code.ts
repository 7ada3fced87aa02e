import { programName } from '../wire/programs.ts'

/** Subcommands that run what is in the workspace; `*`: whatever it is told. */
const RUNS: Readonly<Record<string, string>> = {
  npm: 'run run-script rum urn test t tst start stop restart install i in ins inst add ci clean-install ic install-test it install-ci-test cit update up upgrade rebuild rb prune dedupe ddp link ln uninstall remove rm r un unlink pack version prepare',
  pnpm: '*',
  yarn: '*',
  yarnpkg: '*',
  bun: '*',
  cargo: 'build b check c test t run r bench doc d clippy fix rustc rustdoc miri nextest watch expand udeps package publish metadata tree',
  go: 'build test run generate vet install',
  swift: '*',
  'swift-build': '*',
  'swift-test': '*',
  'swift-run': '*',
  'swift-package': '*',
  pip: 'install wheel download',
  terraform: '',
}

/** Builders, test runners, linters: their configuration is code. */
const ALWAYS = new Set(
  `make gmake bmake ninja just task rake gradle gradlew mvn mvnw ant sbt bazel buck pants meson scons waf cmake ctest cpack dotnet msbuild mix rebar3
  xcodebuild bundle rspec composer pytest tox nox jest vitest mocha ava eslint prettier vite webpack rollup esbuild babel parcel next nuxt astro svelte-kit tsc
  mypy pylint flake8 sphinx-build mkdocs jekyll hugo pre-commit husky lefthook lint-staged turbo nx lerna rush playwright cypress storybook karma gulp grunt stylelint
  tailwindcss postcss svgo ng vue-cli-service expo fastlane pod carthage tuist xcodegen ansible ansible-playbook vagrant skaffold tilt earthly dagger act
  cabal stack dune opam lein boot zig nim crystal elm dub v odin gprbuild autoconf automake autoreconf configure libtool m4 protoc buf bison flex`.split(
    /\s+/,
  ),
)

/** These only say what they are. */
const VERSION = /^(?:--version|-version|-V|version|--help)$/

/**
 * Whether a command runs code of the workspace, which is the agent's: builders, test runners, scripts of packages, and any program that is
 * found in the workspace itself.
 * @param workspace its folder on the host
 */
export function runsWorkspaceCode(argv: readonly string[], workspace: string): boolean {
  const [program = '', ...given] = argv
  if (isOfWorkspace(program, workspace)) return true
  if (given.length === 1 && VERSION.test(given[0] ?? '')) return false
  const name = programName(program)
  if (ALWAYS.has(name)) return !(name === 'xcodebuild' && /^-(?:showsdks)$/.test(given[0] ?? ''))
  const runs = RUNS[name]
  if (runs === undefined || runs === '') return false
  if (runs === '*') return true
  const words = runs.split(' ')
  const first =
    given.find((argument, index) => !argument.startsWith('-') && (index === 0 || !(given[index - 1] ?? '').startsWith('-'))) ?? ''
  const maybe = given.filter((argument) => !argument.startsWith('-'))
  // npm takes any beginning of a word; of the others an option before the word may have a value.
  const isOne = (word: string): boolean =>
    words.includes(word) || (name === 'npm' && word.length > 1 && words.some((known) => known.startsWith(word)))
  if (name === 'npm' && READ_ONLY_NPM.has(first)) return false
  return isOne(first) || (given[0]?.startsWith('-') === true && maybe.some(isOne))
}

/** Beginnings of other words that are whole words themselves. */
const READ_ONLY_NPM = new Set([
  'view',
  'ls',
  'll',
  'la',
  'list',
  'root',
  'ping',
  'pkg',
  'prefix',
  'search',
  'info',
  'why',
  'whoami',
  'outdated',
  'explain',
  'config',
  'audit',
  'help',
])

/** A program that the agent may have written: named by a path that is not absolute, or lies in the workspace. */
function isOfWorkspace(program: string, workspace: string): boolean {
  if (!program.includes('/')) return false
  return (
    !program.startsWith('/') ||
    program.startsWith('/workspace/') ||
    program.startsWith(`${workspace}/`) ||
    program.includes('/node_modules/')
  )
}
