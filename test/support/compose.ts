import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture } from '../../scripts/steps.ts'
import { composeCommand } from '../../src/cli/compose.ts'
import { readEnvFile } from '../../src/controller/sessions/env-file.ts'
import { temporaryFolder } from './audit.ts'

/** A policy that is right and allows nothing. */
export const POLICY = 'version: 1\nnetwork: {mode: restricted, rules: []}\n'

/** A folder with a policy and a workspace, and the command as it would be run there. */
export async function composePlace(workspaceName = 'work', policyText = POLICY) {
  const folder = await temporaryFolder()
  const workspace = join(folder.path, workspaceName)
  const policy = join(folder.path, 'policy', 'mine.yaml')
  mkdirSync(workspace)
  mkdirSync(join(folder.path, 'policy'))
  writeFileSync(policy, policyText)
  const envFile = join(folder.path, 'env')
  const environment: Record<string, string> = { SALLYPORT_HOME: join(folder.path, 'home') }
  return {
    /** Of the command. */
    environment,
    folder: folder.path,
    workspace,
    policy,
    envFile,
    env: () => readEnvFile(envFile),
    async run(...argv: string[]): Promise<string> {
      let out = ''
      const io = { out: (text: string) => void (out += text), err: () => undefined, env: environment }
      assert.equal(await composeCommand.run(['--output', envFile, ...argv], io), 0)
      return out
    },
    config: () => capture('docker', ['compose', '--env-file', envFile, 'config', '--format', 'json']),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

export type ComposePlace = Awaited<ReturnType<typeof composePlace>>
