import { join } from 'node:path'
import { removeFolder } from '../remove-folder.ts'
import { gateLeaves } from './gate-leaves.ts'
import { namesIn } from './session-files.ts'
import { homeLabel, sessionOf, siblingsFolder } from './session-names.ts'
import type { SessionParts } from './session-parts.ts'

/**
 * Removes what a controller that is dead, or an engine that was away, left of siblings of a session that goes on: containers first, then
 * the gate's place in their networks, then those.
 * @param held names of those that are somebody's
 * @returns how many containers and networks there were
 */
export async function removeLeftSiblings(
  { engine, home }: Pick<SessionParts, 'engine' | 'home'>,
  id: string,
  gate: string | undefined,
  held: ReadonlySet<string> = new Set(),
): Promise<number> {
  const mine = { ...homeLabel(home), 'sallyport.session': id, 'sallyport.role': 'sibling' }
  const listed = [await engine.containers(mine), await engine.networks()] as const
  const isLeft = (one: { readonly name: string; readonly labels: Readonly<Record<string, string>> }): boolean =>
    one.labels['sallyport.role'] === 'sibling' && sessionOf(home, one) === id && !held.has(one.name)
  const containers = listed[0].filter(isLeft)
  for (const container of containers) await engine.remove(container.id)
  const networks = listed[1].filter(isLeft)
  for (const network of networks) {
    if (gate !== undefined) await gateLeaves(engine, network.name, gate)
    await engine.removeNetwork(network.id)
  }
  const folder = siblingsFolder(home, id)
  for (const name of namesIn(folder)) if (!held.has(name)) removeFolder(join(folder, name))
  return containers.length + networks.length
}
