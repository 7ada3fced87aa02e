import { readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { run } from '../scripts/steps.ts'
import { homeLabel } from '../src/controller/sessions/session-names.ts'

/** The home's own folder; what lies in it belongs to sessions. */
const RESERVATIONS = 'subnets'

/**
 * What there is on this machine that a session could leave: by a line each, containers and networks of this home, volumes that no
 * container has, and files of the home that belong to one session, sockets among them. Other people's containers come and go meanwhile:
 * without the home's label they are not counted.
 */
export async function inventory(home: string): Promise<ReadonlySet<string>> {
  const mine = Object.entries(homeLabel(home)).flatMap(([key, value]) => ['--filter', `label=${key}=${value}`])
  const lists = await Promise.all([
    lines('container', ['ps', '--all', ...mine, '--format', '{{.Names}}']),
    lines('network', ['network', 'ls', ...mine, '--format', '{{.Name}}']),
    lines('volume', ['volume', 'ls', '--filter', 'dangling=true', '--format', '{{.Name}}']),
  ])
  return new Set([...lists.flat(), ...['s', 'sessions'].flatMap((name) => below(path.join(home, name)).map((file) => `file ${file}`))])
}

/** What is there now and was not. */
export function added(before: ReadonlySet<string>, now: ReadonlySet<string>): string[] {
  return [...now].filter((one) => !before.has(one))
}

async function lines(kind: string, args: readonly string[]): Promise<string[]> {
  return (await run('docker', args)).split('\n').flatMap((name) => (name === '' ? [] : `${kind} ${name}`))
}

/** Everything in a folder, and nothing where there is none. */
function below(folder: string): string[] {
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) return []
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return names.filter((name) => name !== RESERVATIONS).map((name) => path.join(path.basename(folder), name))
}
