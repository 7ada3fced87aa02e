import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../scripts/steps.ts'
import { openContainerUpstream, type ContainerUpstream } from './container-upstream.ts'

/** A request that a program made of its model, or of what says which models it has. */
export type ModelRequest = {
  readonly host: string
  readonly path: string
  /** SHA-256 of each field that carried a key, by its name. */
  readonly keys: Readonly<Record<string, string>>
  readonly way: 'http' | 'websocket'
  /** Names of the gate's tools that it offered: of requests to a model. */
  readonly tools?: readonly string[]
  /** How many results of tools it held. */
  readonly results?: number
  /** The tool that it was told to call, or `text`. */
  readonly says?: string
}

export type ModelUpstream = Pick<ContainerUpstream, 'authorityFile' | 'join'> &
  AsyncDisposable & { asked(host: string): Promise<readonly ModelRequest[]> }

/** Models under the names of their makers' hosts, in one container (test/support/model). */
export async function openModelUpstream(hosts: readonly string[]): Promise<ModelUpstream> {
  const mounts = [
    [join(import.meta.dirname, 'model'), '/model'],
    [realpathSync(join(ROOT, 'node_modules/ws')), '/node_modules/ws'],
    // So that they are modules.
    [join(ROOT, 'package.json'), '/package.json'],
  ].flatMap(([from, to]) => ['-v', `${from}:${to}:ro`])
  const upstream = await openContainerUpstream(hosts, { mounts, argv: ['node', '/model/main.ts'] })
  return {
    ...upstream,
    asked: async (host) => ((await upstream.saw()) as unknown as ModelRequest[]).filter((request) => request.host === host),
  }
}
