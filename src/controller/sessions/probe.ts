import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { createVerified, startVerified } from './containers.ts'
import type { ContainerInspection, ContainerOptions, EngineInfo } from './engine.ts'
import { engineName, labelsOf } from './session-names.ts'
import type { SelftestTarget, SessionParts, SessionRecord } from './session-parts.ts'
import { gateCommand } from './specs.ts'
import { askedOf } from './verify.ts'

/**
 * A session, running or about to, as its ways out are tried: by a container that is as the agent's but for program and name. It starts
 * while the gate does, and asks nothing of it before `gateReady`.
 */
export function selftestTarget(
  parts: SessionParts,
  record: SessionRecord,
  id: string,
  info: EngineInfo,
  gateReady: Promise<unknown> = Promise.resolve(),
): SelftestTarget {
  const { jail, agent, ids } = record
  if (jail === undefined || agent === undefined || ids.agent === undefined || ids.jail === undefined)
    throw new SallyportError('session_not_running', `session ${id} is not up`)
  const container = ids.agent
  const host = agent.options.HostConfig
  return {
    runProbe: (command, signal) => runProbe(parts, record, { id, info, gateReady }, command, signal),
    inspectAgent: () => parts.engine.inspect(container),
    setting: {
      subnet: jail.subnet,
      sidecar: jail.sidecar,
      networkId: ids.jail,
      neighbours: parts.state
        .live()
        .filter((row) => row.id !== id)
        .flatMap((row) => (row.record as SessionRecord).jail?.sidecar ?? []),
      writable: [
        ...Object.entries(host.Tmpfs).flatMap(([target, options]) => (options.startsWith('rw') ? target : [])),
        ...host.Mounts.flatMap(({ Target, ReadOnly }) => (ReadOnly ? [] : Target)),
      ],
      isRootAllowed: agent.options.User.startsWith('0:'),
    },
  }
}

async function runProbe(
  parts: SessionParts,
  record: SessionRecord,
  { id, info, gateReady }: { readonly id: string; readonly info: EngineInfo; readonly gateReady: Promise<unknown> },
  command: readonly string[],
  signal: AbortSignal,
): ReturnType<SelftestTarget['runProbe']> {
  const { engine, home } = parts
  const { agent, sidecar, ids } = record
  const [image, agentImage, twin] = await Promise.all([
    engine.image(sidecar?.options.Image ?? ''),
    engine.image(agent?.options.Image ?? ''),
    engine.inspect(ids.agent ?? ''),
  ])
  if (agent === undefined || image === undefined || agentImage === undefined || twin === undefined)
    throw new SallyportError('session_not_running', `session ${id} is not up`)
  const [program, ...args] = gateCommand(image, [...command, '--when-told'])
  const options: ContainerOptions = {
    ...agent.options,
    name: engineName(id, 'probe'),
    Image: image.id,
    Labels: labelsOf(home, id, 'probe'),
    Entrypoint: [program],
    Cmd: args,
    Tty: false,
    // The lease among them: as it is in the container, since nobody here has it any more. I38: what the agent's image adds
    // (NODE_OPTIONS, LD_PRELOAD) would have code of its own in the probe, and the probe say that all is well.
    Env: (twin.Config.Env ?? []).filter((entry) => !agentImage.environment.includes(entry) && !isOwnOfGate(entry, image.environment)),
  }
  const asked = askedOf(options, image.environment, agent.networks)
  const probe = await createVerified(engine, options, asked, info)
  try {
    const { stream, stderr } = await engine.attach(probe, { tty: false, replay: false })
    const texts = Promise.all([textOf(stream), stderr === undefined ? '' : textOf(stderr)])
    texts.catch(() => {})
    const inspected: ContainerInspection = await startVerified(engine, probe, asked, info)
    await gateReady
    stream.write('\n')
    const exitCode = await engine.wait(probe, signal)
    const [stdout, stderrText] = await texts
    return { exitCode, stdout, stderr: stderrText, inspected }
  } finally {
    await engine.remove(probe)
  }
}

/** The gate's image finds its own programs. */
function isOwnOfGate(entry: string, environment: readonly string[]): boolean {
  const name = entry.slice(0, entry.indexOf('='))
  return environment.some((own) => own.startsWith(`${name}=`))
}

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of stream) {
    bytes += piece.length
    if (bytes <= LIMITS.probeOutputBytesMax) pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}
