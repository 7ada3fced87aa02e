/** What a workspace is written in or built with, told by the names of its files alone. */
export type Kind = {
  readonly id: string
  readonly what: string
  /** Names of files. One that begins with "*" is an ending. */
  readonly files: readonly string[]
  /** Presets of policies/ that let its packages be installed. */
  readonly extends: readonly string[]
  /** Said beside them, or in their place where there are none. */
  readonly note: string
}

export const KINDS: readonly Kind[] = [
  {
    id: 'node',
    what: 'JavaScript or TypeScript',
    files: ['package.json', 'package-lock.json', 'npm-shrinkwrap.json', 'yarn.lock', 'pnpm-lock.yaml', 'bun.lock', 'bun.lockb'],
    extends: ['service/npm'],
    note: 'packages are installed from npm; service/npm-write would add publishing',
  },
  {
    id: 'python',
    what: 'Python',
    files: [
      'pyproject.toml',
      'requirements.txt',
      'requirements-dev.txt',
      'setup.py',
      'setup.cfg',
      'Pipfile',
      'Pipfile.lock',
      'poetry.lock',
      'uv.lock',
      'pdm.lock',
      'tox.ini',
    ],
    extends: ['service/pypi'],
    note: 'packages are installed from PyPI; service/pypi-write would add uploading',
  },
  {
    id: 'rust',
    what: 'Rust',
    files: ['Cargo.toml', 'Cargo.lock'],
    extends: ['service/crates'],
    note: 'crates are downloaded; service/crates-write would add publishing',
  },
  { id: 'go', what: 'Go', files: ['go.mod', 'go.work'], extends: ['service/go'], note: 'modules come by the proxy of Go' },
  {
    id: 'ruby',
    what: 'Ruby',
    files: ['Gemfile', 'Gemfile.lock', 'gems.rb', '*.gemspec'],
    extends: ['service/rubygems'],
    note: 'gems are installed; service/rubygems-write would add pushing',
  },
  {
    id: 'java',
    what: 'Java or Kotlin',
    files: ['pom.xml', 'build.gradle', 'build.gradle.kts', 'settings.gradle', 'settings.gradle.kts', 'build.sbt'],
    extends: ['service/maven'],
    note: 'artifacts come from Maven Central; service/maven-write would add publishing',
  },
  {
    id: 'dotnet',
    what: '.NET',
    files: [
      'global.json',
      'Directory.Packages.props',
      'nuget.config',
      'NuGet.Config',
      '*.csproj',
      '*.fsproj',
      '*.vbproj',
      '*.sln',
      '*.slnx',
    ],
    extends: ['service/nuget'],
    note: 'packages are restored from NuGet; service/nuget-write would add pushing',
  },
  {
    id: 'php',
    what: 'PHP (Composer)',
    files: ['composer.json', 'composer.lock'],
    extends: [],
    note: 'there is no preset for its packages: add rules',
  },
  { id: 'elixir', what: 'Elixir', files: ['mix.exs', 'mix.lock'], extends: [], note: 'there is no preset for its packages: add rules' },
  { id: 'dart', what: 'Dart or Flutter', files: ['pubspec.yaml'], extends: [], note: 'there is no preset for its packages: add rules' },
  {
    id: 'swift',
    what: 'Swift',
    files: ['Package.swift'],
    extends: [],
    note: 'its packages are git repositories: see the presets of git hosts',
  },
  {
    id: 'deno',
    what: 'Deno',
    files: ['deno.json', 'deno.jsonc', 'deno.lock'],
    extends: [],
    note: 'there is no preset for its packages: add rules',
  },
  {
    id: 'docker',
    what: 'container images',
    files: ['Dockerfile', 'Containerfile', 'compose.yaml', 'compose.yml', 'docker-compose.yml', 'docker-compose.yaml'],
    extends: [],
    note: 'no engine can be reached from a session, so nothing pulls images there; a tool that only reads them needs service/docker',
  },
  {
    id: 'terraform',
    what: 'Terraform',
    files: ['.terraform.lock.hcl', '*.tf'],
    extends: [],
    note: 'it needs what it manages: service/terraform-cloud and the presets of your cloud',
  },
]

/** A host of git repositories that there is a preset for. */
export type GitHost = { readonly host: string; readonly extends: string; readonly secret: string; readonly token: string }

export const GIT_HOSTS: readonly GitHost[] = [
  {
    host: 'github.com',
    extends: 'service/github',
    secret: 'GITHUB_TOKEN',
    token: 'a fine-grained one for the repositories in use, with "Contents: read" and what else is read',
  },
  {
    host: 'gitlab.com',
    extends: 'service/gitlab',
    secret: 'GITLAB_TOKEN',
    token: 'one of the project or group, as "Reporter", with the scopes read_api and read_repository',
  },
  {
    host: 'bitbucket.org',
    extends: 'service/bitbucket',
    secret: 'BITBUCKET_TOKEN',
    token: 'one of the repository or workspace that may read repositories',
  },
]

/** What tells that a harness is used here, the surest first. */
export const HARNESS_FILES: readonly { readonly name: string; readonly harness: string }[] = [
  { name: 'CLAUDE.md', harness: 'claude' },
  { name: '.claude', harness: 'claude' },
  { name: 'GEMINI.md', harness: 'gemini' },
  { name: '.gemini', harness: 'gemini' },
  { name: 'opencode.json', harness: 'opencode' },
  { name: 'opencode.jsonc', harness: 'opencode' },
  { name: '.opencode', harness: 'opencode' },
  { name: '.codex', harness: 'codex' },
  // Others read it too: only where nothing else is there.
  { name: 'AGENTS.md', harness: 'codex' },
]
