import { SallyportError } from '../../kernel/errors.ts'
import type { ContainerInspection, ContainerOptions, Engine, EngineInfo, NetworkOptions } from './engine.ts'
import { movedSources } from './mount-sources.ts'
import { containerDifferences, networkDifferences, type Asked, type Visit } from './verify.ts'

/** Makes a container and looks at what was made. It does not run. @throws session_unverified, engine_refused */
export async function createVerified(
  engine: Engine,
  options: ContainerOptions,
  asked: Asked,
  info: EngineInfo,
  more: { readonly connect?: string } = {},
): Promise<string> {
  const id = await engine.create(options)
  if (more.connect !== undefined) await engine.connect(more.connect, id)
  await verifyContainer(engine, id, asked, info)
  return id
}

/** Starts it and looks again: what it is now is what counts. @throws session_unverified, engine_refused */
export async function startVerified(engine: Engine, id: string, asked: Asked, info: EngineInfo): Promise<ContainerInspection> {
  // Once more before: the engine follows a link that was put in the place of what is mounted.
  refuse(moved(asked))
  await engine.start(id)
  return await verifyContainer(engine, id, asked, info)
}

/**
 * @param visits networks that it may be on besides, by name: as they are before and after the look
 * @throws session_unverified with every difference
 */
export async function verifyContainer(
  engine: Engine,
  id: string,
  asked: Asked,
  info: EngineInfo,
  visits: ReadonlyMap<string, Visit> = new Map(),
): Promise<ContainerInspection> {
  const before = new Map(visits)
  const found = await engine.inspect(id)
  if (found === undefined) throw unverified([`${asked.options.name} is gone`])
  refuse(
    [...containerDifferences(asked, found, info, new Map([...before, ...visits])), ...moved(asked)].map(
      (line) => `${asked.options.name}: ${line}`,
    ),
  )
  return found
}

/** @throws session_unverified */
export async function verifyNetwork(engine: Engine, asked: NetworkOptions, containers: readonly string[]): Promise<void> {
  const found = await engine.network(asked.Name)
  refuse(found === undefined ? [`network ${asked.Name} is gone`] : networkDifferences(asked, found, containers))
}

function moved({ options }: Asked): string[] {
  const sources = options.HostConfig.Mounts.map(({ Source }) => ({ source: Source }))
  return movedSources(sources).map((source) => `Mounts: ${source} is no longer what was looked at`)
}

function refuse(lines: readonly string[]): void {
  if (lines.length > 0) throw unverified(lines)
}

function unverified(lines: readonly string[]): SallyportError {
  return new SallyportError('session_unverified', `a container is not what was asked for:\n${lines.join('\n')}`, {
    hint: 'who else commands this engine, or changed these files? Nothing of the session runs',
  })
}
