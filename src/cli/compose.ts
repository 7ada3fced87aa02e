import { statSync } from 'node:fs'
import { join } from 'node:path'
import { writeComposeProject, type ComposeProject } from '../controller/sessions/compose-project.ts'
import { homeOf, packageRoot, parseFlags, type Command } from './command.ts'

export const composeCommand: Command = {
  summary: 'write the .env that compose.yaml reads for one workspace',
  usage: `usage: sallyport compose [--workspace DIR] [--policy FILE]… [--output FILE] [--demo]

Writes the .env for one workspace: a project name of its own, a free subnet for the jail network, the sidecar's address, the
operator's uid, and where the policy and the secrets are. What stands in the file already is kept, so that it can be run again.
Then: docker compose up -d --wait sidecar agent

  --workspace DIR    what the agent works on (default: the one in the file, else the current folder)
  --policy FILE      policy of the session; all in one folder, which is mounted read-only (default: the ones in the file)
  --output FILE      default: .env next to compose.yaml. A second workspace has a file of its own; name it to docker compose
                     with --env-file
  --demo             the demo's policy, a token made at random, and the profile "demo"

Secrets are files in the folder SALLYPORT_SECRETS_DIR, which only the sidecar sees as /run/secrets.
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
    const request = {
      envFile: values.output ?? join(packageRoot, '.env'),
      workspace: values.workspace,
      policy: values.policy ?? [],
      demo: values.demo,
    }
    io.out(describe(writeComposeProject(request, { packageRoot, home: homeOf(io.env) }, io.env)))
    return 0
  },
}

function describe({ name, workspace, jail, owner, secretsDir, envFile }: ComposeProject): string {
  const folder = statSync(workspace)
  const warning =
    folder.uid === owner.uid || (folder.mode & 0o002) !== 0
      ? ''
      : `note       the agent runs as uid ${owner.uid} and cannot write the workspace, which belongs to uid ${folder.uid}: chown -R ${owner.uid}:${owner.gid} it, or leave it so\n`
  return `project    ${name}\nworkspace  ${workspace}\nsubnet     ${jail.subnet} (sidecar ${jail.sidecar})\nsecrets    ${secretsDir}\nwritten    ${envFile}\n${warning}`
}
