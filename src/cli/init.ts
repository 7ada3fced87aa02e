import { planInit, writeInit, type InitPlan } from '../controller/init/init.ts'
import { contentDigest } from '../controller/sessions/workspace-trust.ts'
import { homeOf, parseFlags, policyDirs, type Command } from './command.ts'
import { openConfigRecord } from './config-record.ts'

/** `sallyport init`. */
export const initCommand: Command = {
  summary: 'write a policy for a workspace',
  usage: `usage: sallyport init [--workspace DIR] [--harness NAME] [--print] [--force]

Writes a commented policy for one workspace into $SALLYPORT_HOME/policies/workspaces/, where the agent cannot change it: what its
languages install from, where its git remote is, and what the harness needs. It looks at names of files and at the remotes in
.git/config, and runs nothing of the workspace. A policy that is there already is left alone.

  --workspace DIR    default: the current folder
  --harness NAME     claude, codex, gemini, opencode, copilot, cursor, your own, or plain for none (default: what the workspace's
                     files tell)
  --print            print the policy and write nothing
  --force            replace the policy that is there; it is kept beside, as policy.yaml.before-N

Exit code: 0 done, or there is the same one already; 1 there is another one; 2 for a wrong command line.
`,
  async run(argv, io) {
    const { values } = parseFlags(
      argv,
      {
        workspace: { type: 'string' },
        harness: { type: 'string' },
        print: { type: 'boolean', default: false },
        force: { type: 'boolean', default: false },
      },
      { min: 0, max: 0 },
    )
    const setting = { home: homeOf(io.env), policyDirs: policyDirs(io.env) }
    const request = { workspace: values.workspace ?? process.cwd(), harness: values.harness, force: values.force }
    const plan = planInit(request, setting)
    if (values.print) {
      io.out(plan.text)
      return 0
    }
    await using record = await openConfigRecord(io)
    const { kept, isSame } = writeInit(plan, values.force, setting)
    if (!isSame)
      await record.add([{ of: 'policy', what: plan.file, did: 'written', digest: contentDigest(plan.text), by: 'sallyport init' }])
    io.out(`${[...describe(plan, isSame), ...(kept === undefined ? [] : [`kept      ${kept}`]), '', ...nextSteps(plan)].join('\n')}\n`)
    return 0
  },
}

function describe({ file, detected, harness, workspace }: InitPlan, isSame: boolean): string[] {
  const kinds = detected.kinds.map(({ kind }) => kind.what).join(', ')
  return [
    `workspace ${JSON.stringify(workspace).slice(1, -1)}`,
    `found     ${kinds || 'no language that there is a preset for'}`,
    `git       ${detected.gitHost ?? 'no remote with a host'}`,
    `harness   ${harness ?? 'none (--harness NAME names one)'}`,
    `${isSame ? 'as it was ' : 'written   '}${file}`,
  ]
}

function nextSteps({ secrets, layers, harness }: InitPlan): string[] {
  return [
    'Next:',
    ...[...new Set(secrets)].map((name) => `  sallyport secret set ${name}`),
    `  sallyport policy check ${layers.join(' ')}`,
    `  sallyport up${harness === undefined ? '' : ` --harness ${harness}`}`,
  ]
}
