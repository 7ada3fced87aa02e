import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parse } from 'yaml'
import type { ReadyFile } from '../../credential/credential.ts'
import { SallyportError } from '../../kernel/errors.ts'

/** What an agent holds in the place of credentials. All of it is worthless anywhere but at the gate. */
export type Worthless = {
  /** By the name of the variable of the agent's environment. */
  readonly values: Readonly<Record<string, string>>
  /** With those values in them. */
  readonly files: readonly ReadyFile[]
}

/** Whose the containers' processes are on the host. */
export type Owner = { readonly uid: number; readonly gid: number }

/** What compose.yaml cannot say for every policy, beside the project's state. */
const AGENT_FILE = 'compose.agent.yaml'
/** As compose.yaml has it. */
const HOME = '/home/agent'

/** The compose file that gives the agent its placeholders; undefined where there are none. */
export function agentFileOf(stateDir: string, { values }: Worthless): string | undefined {
  return Object.keys(values).length === 0 ? undefined : join(stateDir, AGENT_FILE)
}

/**
 * Writes what the agent's container has of us besides its certificates: its entry in /etc/passwd and, where there are
 * placeholders, their files and the compose file of `agentFileOf`.
 */
export function writeAgentFiles(stateDir: string, owner: Owner, worthless: Worthless): void {
  writeFileSync(join(stateDir, 'passwd'), passwd(owner), { mode: 0o644 })
  writeFileSync(join(stateDir, 'group'), group(owner), { mode: 0o644 })
  const agentFile = agentFileOf(stateDir, worthless)
  if (agentFile === undefined) return rmSync(join(stateDir, AGENT_FILE), { force: true })
  const folder = join(stateDir, 'files')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  // Written in its place, so that an agent that runs sees it. One that is wanted no more stays: a container that has it
  // mounted could not be started again without it.
  for (const { name, content } of worthless.files) writeOwned(join(folder, name), content, owner)
  writeFileSync(agentFile, override(folder, owner, worthless))
}

/**
 * Refuses placeholders in variables that the agent has already: the worthless value would take the place of what its programs
 * need, or be lost.
 * @throws SallyportError policy_invalid
 */
export function refuseTakenVariables(packageRoot: string, names: readonly string[]): void {
  const { services } = parse(readFileSync(join(packageRoot, 'compose.yaml'), 'utf8')) as ComposeFile
  const taken = names.filter((name) => Object.hasOwn(services.agent.environment, name) || name.startsWith('GIT_CONFIG_'))
  if (taken.length === 0) return
  throw new SallyportError('policy_invalid', `the agent has ${taken.join(', ')} in its environment already: not for a placeholder`, {
    hint: 'name another variable in inject.placeholder',
  })
}

type ComposeFile = { readonly services: { readonly agent: { readonly environment: Readonly<Record<string, string>> } } }

/** Beside the engine's own resolver: 25.0.4 to 26.1.2 asks no server of an internal network. In place, for what runs already. */
export function writeResolver(folder: string, gate: string): void {
  const file = join(folder, 'resolv.conf')
  writeFileSync(file, `nameserver ${gate}\noptions timeout:1 attempts:2\n`)
  chmodSync(file, 0o644)
}

/** As JSON, which is YAML too. compose reads a dollar sign as a variable. */
function override(folder: string, { uid, gid }: Owner, { values, files }: Worthless): string {
  const folders = new Set(files.map(({ path }) => dirname(path)).filter((parent) => parent !== '.'))
  const agent = {
    environment: values,
    // The engine would make a missing folder of HOME for root, and programs keep more there than this file.
    tmpfs: [...folders].map((parent) => `${HOME}/${parent}:rw,exec,nosuid,nodev,size=1g,mode=0700,uid=${uid},gid=${gid}`),
    volumes: files.map(({ name, path }) => ({
      type: 'bind',
      source: join(folder, name),
      target: `${HOME}/${path}`,
      read_only: true,
      bind: { create_host_path: false },
    })),
  }
  return `${JSON.stringify({ services: { agent } }, null, 2).replaceAll('$', '$$$$')}\n`
}

/** Programs want such a file to be their user's and nobody else's to read (Python's netrc). Only root can give it away. */
function writeOwned(file: string, content: string, { uid, gid }: Owner): void {
  writeFileSync(file, content, { mode: 0o600 })
  chmodSync(file, 0o600)
  if (process.getuid?.() === 0) chownSync(file, uid, gid)
}

function passwd({ uid, gid }: Owner): string {
  return `root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\nagent:x:${uid}:${gid}:agent:${HOME}:/bin/bash\n`
}

function group({ gid }: Owner): string {
  return `root:x:0:\nnogroup:x:65534:\nagent:x:${gid}:\n`
}
