import { existsSync, chownSync, mkdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { readEnvFile, writeEnvFile } from '../src/controller/sessions/env-file.ts'
import { ROOT, STATE, capture, run, type Outcome, type RunOptions } from './steps.ts'

/** A compose project by its env file. */
export type ComposeProject = {
  readonly envFile: string
  readonly env: ReadonlyMap<string, string>
  /** Runs `docker compose ARGS` for the project and never throws. */
  compose(args: readonly string[], options?: RunOptions): Promise<Outcome>
}

/** A project whose `.env` `sallyport compose` has written. */
export function openProject(envFile: string): ComposeProject {
  return {
    envFile,
    env: readEnvFile(envFile),
    compose: (args, options = {}) => capture('docker', ['compose', '--env-file', envFile, ...args], options),
  }
}

type DemoPlace = { envFile: string; workspace: string; home: string; baseImage: string; policy?: string }

/**
 * Lets `sallyport compose --demo` write the `.env` for a workspace, with a policy file instead of the demo's where one is named,
 * and adds what this machine needs to build the images. As root the workspace is handed to the agent's uid. `home` becomes
 * `SALLYPORT_HOME`.
 */
export async function prepareDemo(place: DemoPlace): Promise<ComposeProject> {
  mkdirSync(place.workspace, { recursive: true })
  const policy = place.policy === undefined ? [] : ['--policy', place.policy]
  const args = ['compose', '--demo', '--workspace', place.workspace, '--output', place.envFile, ...policy]
  await run(process.execPath, [path.join(ROOT, 'src/main.ts'), ...args], { env: { ...process.env, SALLYPORT_HOME: place.home } })
  writeEnvFile(place.envFile, new Map([['NODE_IMAGE', place.baseImage]]))
  const project = openProject(place.envFile)
  const [uid, gid] = [Number(project.env.get('SALLYPORT_UID')), Number(project.env.get('SALLYPORT_GID'))]
  if (process.getuid?.() === 0 && statSync(place.workspace).uid !== uid) chownSync(place.workspace, uid, gid)
  return project
}

/** Where the demo of this clone lives. An `.env` that serves another workspace already is left alone. */
export function demoPlace(): { envFile: string; workspace: string; home: string } {
  const workspace = path.join(STATE, 'demo', 'workspace')
  const usual = path.join(ROOT, '.env')
  const taken = existsSync(usual) && (readEnvFile(usual).get('SALLYPORT_WORKSPACE') ?? workspace) !== workspace
  return { envFile: taken ? path.join(STATE, 'demo', '.env') : usual, workspace, home: path.join(STATE, 'home') }
}
