import { existsSync, realpathSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { writeComposeProject, type ComposeProject, type GuardWorkspace } from '../controller/sessions/compose-project.ts'
import { projectsFolder } from '../controller/sessions/project-file.ts'
import { createWorkspaceGuard } from '../controller/workspace-guard.ts'
import { SallyportError } from '../kernel/errors.ts'
import { system } from '../kernel/system.ts'
import { homeOf, packageRoot, parseFlags, policyDirs, type Command } from './command.ts'
import { daemonClient, type DaemonClient } from './daemon-client.ts'

export const composeCommand: Command = {
  summary: 'write the .env that compose.yaml reads for one workspace',
  usage: `usage: sallyport compose [--workspace DIR] [--policy FILE]… [--output FILE] [--demo]

Checks the policy, then writes the .env for one workspace: a project name of its own, a free subnet for the jail network, the
sidecar's address, the operator's uid, and where the policy and the secrets are; and beside it the mounts of the workspace, with git's
settings and what filesystem.hide names covered. What stands in the file already is kept, so that it can be run again, and should be
when files came that are to be hidden. Where the policy has placeholders, they become the agent's environment and the files that its programs
read (~/.npmrc, ~/.netrc, ~/.pypirc, ~/.docker/config.json, read-only): for new ones run it again, then "up". Says which secrets
are missing and how to put them in, and the commands of docker compose that come next.

  --workspace DIR    what the agent works on (default: the one in the file, else the current folder)
  --policy FILE      policy of the session; all in one folder, which is mounted read-only (default: the ones in the file)
  --output FILE      default: .env next to compose.yaml. A second workspace needs a file of its own
  --demo             the demo's policy, a token made at random, and the profile "demo"

Where "sallyport daemon" runs when the sidecar starts, the project is a session of it: secrets come from the daemon, the audit goes
there, "sallyport ls" lists it, "lease revoke" and "down" end it. Without a daemon it works by itself.

Secrets are files in the folder SALLYPORT_SECRETS_DIR, which only the sidecar sees, as /run/secrets: "file:/run/secrets/NAME" in
the policy. There is no "env:", the sidecar gets no environment of yours. Those of vaults are the daemon's to have.
`,
  async run(argv, io) {
    const { values } = parseFlags(
      argv,
      {
        workspace: { type: 'string' },
        policy: { type: 'string', multiple: true },
        // Not --env-file: Node takes an option of that name for itself wherever it stands on the command line.
        output: { type: 'string' },
        demo: { type: 'boolean', default: false },
      },
      { min: 0, max: 0 },
    )
    const home = homeOf(io.env)
    const daemon = await runningDaemon(home)
    const request = {
      envFile: values.output ?? join(packageRoot, '.env'),
      workspace: values.workspace,
      policy: values.policy ?? [],
      demo: values.demo,
      hasController: daemon !== undefined,
    }
    const installation = { packageRoot, home, policyDirs: policyDirs(io.env) }
    const guard: GuardWorkspace = (own) => createWorkspaceGuard(home, () => [...own, ...(daemon?.kept ?? [])], system)
    const project = await writeComposeProject(request, installation, io.env, guard)
    const served = await attach(project, home, daemon)
    io.out([describe(project, served), describeMissing(project), nextSteps(project)].filter(Boolean).join('\n'))
    return 0
  },
}

type RunningDaemon = { readonly client: DaemonClient; readonly kept: readonly unknown[] }

/** The daemon of this home, with what it keeps of the workspaces of its sessions. */
async function runningDaemon(home: string): Promise<RunningDaemon | undefined> {
  const client = daemonClient(home)
  try {
    const { kept } = (await client.request('GET', '/v1/workspaces')) as { kept: readonly unknown[] }
    return { client, kept }
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'daemon_unavailable') return undefined
    throw error
  }
}

/** A line that says who serves the project. */
async function attach(
  { name, home: projects, isRunning, controlDir }: ComposeProject,
  home: string,
  daemon: RunningDaemon | undefined,
): Promise<string> {
  if (daemon === undefined) {
    // One that was killed left it behind. Where the project runs, its session is still that one's.
    if (isRunning)
      return existsSync(join(controlDir, 'lease')) ? 'one that does not answer now: start it, or stop the project and run this again' : NONE
    for (const file of ['lease', 'session']) rmSync(join(controlDir, file), { force: true })
    return NONE
  }
  if (projects !== projectsFolder(realpathSync(home))) return `none: the project is of ${dirname(projects)}, the daemon of ${home}`
  try {
    await daemon.client.request('POST', '/v1/projects', { name })
    return `the daemon of ${home}: from the next start of the sidecar on`
  } catch (error) {
    if (error instanceof SallyportError && error.code === 'control_socket_invalid') return `none: ${error.message}`
    throw error
  }
}

const NONE = 'none: no daemon runs. One that is started later serves the project from the next start of the sidecar on'

function describe(
  { name, workspace, jail, owner, secretsDir, envFile, policies, warnings, worthless }: ComposeProject,
  served: string,
): string {
  const folder = statSync(workspace)
  const notes =
    folder.uid === owner.uid || (folder.mode & 0o002) !== 0
      ? []
      : [
          `note       the agent runs as uid ${owner.uid} and cannot write the workspace, which belongs to uid ${folder.uid}: chown -R ${owner.uid}:${owner.gid} it, or leave it so`,
        ]
  const policyFiles = policies.files.map((file) => join(policies.dir, file))
  if (!isOpenTo(owner, policies.dir, 0o1)) notes.push(unreadable(owner, policies.dir, 'a+x'))
  for (const file of policyFiles) if (!isOpenTo(owner, file, 0o4)) notes.push(unreadable(owner, file, 'a+r'))
  return lines([
    `project    ${name}`,
    `workspace  ${workspace}`,
    `subnet     ${jail.subnet} (sidecar ${jail.sidecar})`,
    `secrets    ${secretsDir}`,
    `controller ${served}`,
    ...describeWorthless(worthless),
    `written    ${envFile}`,
    ...warnings.map((warning) => `warning    ${warning}`),
    ...notes,
  ])
}

/** What stands where a credential is looked for, by name: the values are in the agent's environment. */
function describeWorthless({ values, files }: ComposeProject['worthless']): string[] {
  const names = [...Object.keys(values), ...files.map(({ path }) => `~/${path}`)]
  return names.length === 0 ? [] : [`agent has  ${names.join(', ')} (placeholders, worthless outside of this session)`]
}

function unreadable({ uid }: ComposeProject['owner'], path: string, mode: string): string {
  return `note       the sidecar runs as uid ${uid}, cannot read the policy and will not start: chmod ${mode} ${quote(path)}`
}

/** Whether the containers' uid has these permissions (4 read, 1 enter). It has no capability that would get around them. */
function isOpenTo({ uid, gid }: ComposeProject['owner'], path: string, wanted: number): boolean {
  const stat = statSync(path)
  const shift = stat.uid === uid ? 6 : stat.gid === gid ? 3 : 0
  return ((stat.mode >> shift) & wanted) === wanted
}

/** By stdin and with the file closed from the start: a value in a command line is in the shell's history and in every `ps`. */
function describeMissing({ missing, secretsDir, owner }: ComposeProject): string {
  if (missing.length === 0) return ''
  const commands = missing.flatMap(({ name, path }) => {
    const file = quote(join(secretsDir, path))
    const folders = path.split('/').slice(0, -1)
    const make = folders.length === 0 ? '' : `mkdir -p ${quote(join(secretsDir, ...folders))} && `
    const whole = folders.length === 0 ? file : `-R ${quote(join(secretsDir, folders[0] ?? ''))}`
    return [
      `missing: put the value of ${name} into ${join(secretsDir, path)}`,
      `  (umask 077 && ${make}cat > ${file})   # then paste the value, Enter, Ctrl-D`,
      `  chmod 0400 ${file} && chown ${owner.uid}:${owner.gid} ${whole}`,
    ]
  })
  const [atStart, later] = [missing.filter((file) => file.atStart), missing.filter((file) => !file.atStart)]
  if (atStart.length > 0) commands.push(`The sidecar will not start without ${namesOf(atStart)}.`)
  if (later.length > 0) commands.push(`Requests that need ${namesOf(later)} get 502 until it is there.`)
  return lines(commands)
}

function nextSteps({ envFile, missing }: ComposeProject): string {
  const compose = `docker compose --env-file ${quote(envFile)}`
  return lines([
    missing.length === 0 ? 'Next:' : 'Next, with the secrets in their place:',
    `  start                              ${compose} up -d --wait sidecar agent`,
    `  enter the agent                    ${compose} exec agent bash`,
    `  why the sidecar is not healthy     ${compose} logs sidecar`,
    `  take changes at once, not soon     ${compose} kill -s HUP sidecar`,
    `  stop                               ${compose} down`,
    `  stop, forget the CA and the audit  ${compose} down -v`,
  ])
}

function namesOf(files: ComposeProject['missing']): string {
  return files.map(({ name }) => name).join(', ')
}

/** As a shell reads it back. */
function quote(text: string): string {
  return /^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}

function lines(list: readonly string[]): string {
  return `${list.join('\n')}\n`
}
