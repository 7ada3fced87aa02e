import assert from 'node:assert/strict'
import { chmod, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { capture, type Outcome } from '../../scripts/steps.ts'
import { workspaceMounts, type Filesystem, type Workspace, type WorkspaceRequest } from '../../src/controller/sessions/workspace.ts'
import { system } from '../../src/kernel/system.ts'

/** A workspace with a repository of one commit, and the operator's git in it. Gone when it is disposed of. */
export type WorkspaceSetting = AsyncDisposable & {
  readonly folder: string
  readonly workspace: string
  /** The operator's git, as a shell prompt would run it: with what the repository says, and no settings of this machine. */
  readonly git: (args: readonly string[], cwd?: string) => Promise<Outcome>
  /** The same, and it must succeed. */
  readonly mustGit: (args: readonly string[], cwd?: string) => Promise<string>
  /** Writes a program into the workspace that leaves a mark when it runs. */
  readonly plantProgram: (path?: string) => Promise<string>
  /** Whether a planted program ran. */
  readonly ran: () => boolean
  readonly forgetRun: () => Promise<void>
  readonly open: (filesystem?: Partial<Filesystem>, request?: Partial<WorkspaceRequest>) => Promise<Workspace>
}

export const OPERATOR: NodeJS.ProcessEnv = {
  PATH: process.env['PATH'],
  LC_ALL: 'C',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'Olga Operator',
  GIT_AUTHOR_EMAIL: 'olga@example.com',
  GIT_COMMITTER_NAME: 'Olga Operator',
  GIT_COMMITTER_EMAIL: 'olga@example.com',
  GIT_TERMINAL_PROMPT: '0',
  // A file system where root owns all, and a workspace of the agent's uid.
  GIT_CONFIG_COUNT: '2',
  GIT_CONFIG_KEY_0: 'safe.directory',
  GIT_CONFIG_VALUE_0: '*',
  GIT_CONFIG_KEY_1: 'protocol.file.allow',
  GIT_CONFIG_VALUE_1: 'always',
}

export async function openWorkspace(): Promise<WorkspaceSetting> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'sallyport-workspace-')))
  await chmod(folder, 0o755)
  const workspace = join(folder, 'project')
  const mark = join(workspace, 'RAN')
  for (const name of ['project', 'home', 'user']) await mkdir(join(folder, name))
  const git = (args: readonly string[], cwd = workspace): Promise<Outcome> =>
    capture('git', args, { cwd, env: { ...OPERATOR, HOME: join(folder, 'user') }, timeoutMs: 30_000 })
  const mustGit = async (args: readonly string[], cwd?: string): Promise<string> => {
    const { code, stdout, stderr } = await git(args, cwd)
    assert.equal(code, 0, `git ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  await mustGit(['init', '-q', '-b', 'main', '.'])
  await writeFile(join(workspace, 'file'), 'one\n')
  await mustGit(['add', '.'])
  await mustGit(['commit', '-q', '-m', 'one'])
  return {
    folder,
    workspace,
    git,
    mustGit,
    plantProgram: async (path = 'evil') => {
      const program = join(workspace, path)
      await writeFile(program, `#!/bin/sh\ntouch '${mark}'\ncat 2>/dev/null\n`)
      await chmod(program, 0o755)
      return program
    },
    ran: () => existsSync(mark),
    forgetRun: () => rm(mark, { force: true }),
    open: (filesystem = {}, request = {}) =>
      workspaceMounts(
        {
          workspace,
          filesystem: { workspace: 'rw', hide: [], git_metadata: 'protected', ...filesystem },
          owner: { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
          filesDir: join(folder, 'home/sessions/one'),
          home: join(folder, 'home'),
          userHome: join(folder, 'user'),
          ...request,
        },
        system,
      ),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}
