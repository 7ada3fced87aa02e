import assert from 'node:assert/strict'
import { chown, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { capture, run, type Outcome } from '../../scripts/steps.ts'
import { homeMount, type Workspace } from '../../src/controller/sessions/workspace.ts'
import type { WorkspaceMount } from '../../src/controller/sessions/workspace-covers.ts'

/** Whose an agent's processes are where the operator is root; else the operator's own. */
export const AGENT =
  process.getuid?.() === 0 ? { uid: 10_001, gid: 10_001 } : { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }

export type WorkspaceContainer = AsyncDisposable & {
  /** Runs a shell script in the workspace as the agent. */
  readonly sh: (script: string) => Promise<Outcome>
  /** The same, and it must succeed. */
  readonly must: (script: string) => Promise<string>
}

/** An agent's container with exactly the mounts and the environment of a workspace, hardened as agents are. */
export async function runWorkspace(workspace: Workspace): Promise<WorkspaceContainer> {
  const mounts = [...workspace.mounts, homeMount(AGENT)].flatMap(argumentsOf)
  const environment = Object.entries({ ...workspace.environment, HOME: '/home/agent' }).flatMap(([name, value]) => [
    '--env',
    `${name}=${value}`,
  ])
  const hardened = [
    '--cap-drop',
    'ALL',
    '--security-opt',
    'no-new-privileges',
    '--read-only',
    '--init',
    '--network',
    'none',
    '--tmpfs',
    '/tmp',
  ]
  const place = ['--user', `${AGENT.uid}:${AGENT.gid}`, '--workdir', workspace.target, '--label', 'sallyport.test=workspace']
  const id = (
    await run('docker', [
      'run',
      '--detach',
      '--rm',
      ...hardened,
      ...place,
      ...mounts,
      ...environment,
      '--entrypoint',
      'sleep',
      IMAGE,
      '600',
    ])
  ).trim()
  const sh = (script: string): Promise<Outcome> => capture('docker', ['exec', id, 'sh', '-c', script], { timeoutMs: 60_000 })
  return {
    sh,
    must: async (script) => {
      const { code, stdout, stderr } = await sh(script)
      assert.equal(code, 0, `${script}: ${stdout}${stderr}`)
      return stdout
    },
    [Symbol.asyncDispose]: async () => {
      await run('docker', ['rm', '--force', '--volumes', id])
    },
  }
}

const IMAGE = 'sallyport/agent:0.1.0'

/** Gives all of a folder to the agent's uid, where the operator is root. */
export async function giveToAgent(folder: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  await chown(folder, AGENT.uid, AGENT.gid)
  for (const entry of await readdir(folder, { recursive: true })) await chown(join(folder, entry), AGENT.uid, AGENT.gid)
}

function argumentsOf(mount: WorkspaceMount): string[] {
  if (mount.kind === 'tmpfs') {
    const options = [mount.readOnly ? 'ro' : 'rw', 'nosuid', 'nodev', `size=${mount.bytesMax}`, `mode=${mount.mode.toString(8)}`]
    return ['--tmpfs', `${mount.target}:${[...options, `uid=${mount.uid}`, `gid=${mount.gid}`].join(',')}`]
  }
  const fields = ['type=bind', `"source=${mount.source}"`, `"target=${mount.target}"`, `bind-propagation=${mount.propagation}`]
  return ['--mount', [...fields, ...(mount.readOnly ? ['readonly'] : [])].join(',')]
}
