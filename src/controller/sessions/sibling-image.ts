import { posix } from 'node:path'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { WORKSPACE } from './agent-environment.ts'
import type { Engine, ImageFacts } from './engine.ts'
import { idleContainer } from './image-roots.ts'
import { refuseImage } from './prohibited.ts'
import { isWithin } from './real-path.ts'
import { engineName, labelsOf } from './session-names.ts'
import type { SessionParts, SessionRecord } from './session-parts.ts'
import { OUTPUT, ownerOfAgent } from './sibling-spec.ts'
import { SCRATCH } from './specs.ts'
import type { SiblingImage } from './sibling.ts'

/** As the engine's own, where an image says nothing. */
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** What siblings of a session are made of. @throws image_missing, config_prohibited, session_not_running */
export async function siblingImage(parts: SessionParts, id: string, record: SessionRecord, image?: string): Promise<SiblingImage> {
  const agent = record.agent?.options
  const facts = await siblingImageFacts(parts.engine, record, image)
  const own = facts.environment.find((entry) => entry.startsWith('PATH='))?.slice('PATH='.length) || PATH
  // What the image has there is not there when it runs: another program of that name would be found.
  const covered = [WORKSPACE, OUTPUT, ...SCRATCH, ...facts.volumes]
  return {
    id: facts.id,
    path: own,
    user: ownerOfAgent(agent ?? { User: '' }),
    async resolve(program, folder = WORKSPACE, path = own) {
      const places = program.includes('/') ? [folder] : path.split(':')
      const candidates = places.map((place) => posix.resolve(WORKSPACE, place, program)).slice(0, LIMITS.imagePathFoldersMax)
      // Made and never started: nothing of the image is run, and nothing of the session's is in it.
      const name = `${engineName(id, 'sibling')}-look-${parts.system.random(6).toString('hex')}`
      const runtime = agent?.HostConfig.Runtime ?? ''
      const container = await parts.engine.create(idleContainer(facts.id, { name, Labels: labelsOf(parts.home, id, 'sibling') }, runtime))
      try {
        for (const candidate of candidates) {
          const found = await realProgram(parts.engine, container, candidate, covered)
          if (found !== undefined) return found
        }
        return undefined
      } finally {
        await parts.engine.remove(container)
      }
    },
  }
}

/** @throws image_missing, config_prohibited, session_not_running */
export async function siblingImageFacts(engine: Engine, { agent }: SessionRecord, image?: string): Promise<ImageFacts> {
  if (agent === undefined) throw new SallyportError('session_not_running', 'the session has no agent')
  const name = image ?? agent.options.Image
  const facts = await engine.image(name)
  if (facts === undefined) throw new SallyportError('image_missing', `the engine has no image ${name}`, { hint: `docker pull ${name}` })
  refuseImage(name, facts)
  return facts
}

/** Where a path leads to in a container's files; undefined where it is none that may be run, or below a folder that is covered. */
export async function realProgram(
  engine: Pick<Engine, 'stat'>,
  container: string,
  path: string,
  covered: readonly string[] = [WORKSPACE],
): Promise<string | undefined> {
  let at = path
  for (let links = 0; links <= LIMITS.imageLinksMax; links += 1) {
    if (covered.some((folder) => isWithin(folder, at))) return undefined
    const found = await engine.stat(container, at)
    if (found?.kind !== 'link') return found?.kind === 'file' && found.isExecutable ? at : undefined
    // The engine gives the end of the chain as it sees it: whole, or from the folder of the link.
    at = posix.resolve(posix.dirname(at), found.linkTarget)
  }
  return undefined
}
