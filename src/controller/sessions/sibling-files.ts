import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { writeAgentFiles, writeResolver } from './agent-files.ts'
import type { ImageFacts } from './engine.ts'
import type { Bind } from './hardening.ts'
import { imageRoots } from './image-roots.ts'
import type { SiblingNetwork } from './jail.ts'
import { isWithin } from './real-path.ts'
import { engineName, labelsOf, sessionFolder } from './session-names.ts'
import type { SessionParts, SessionRecord } from './session-parts.ts'
import { IN_TRUST, writeTrust } from './session-files.ts'
import { ownerOfAgent } from './sibling-spec.ts'
import type { PinnedFile } from './sibling.ts'
import { PINNED } from './sibling-wish.ts'

type Files = {
  /** The sibling's own, in the session's. */
  readonly folder: string
  readonly network: SiblingNetwork
  readonly image: ImageFacts
  readonly pinned: readonly PinnedFile[]
  readonly runtime: string
}

/** What of ours is mounted into a sibling, all read-only: whom it trusts, who it is, where its resolver is, and what was pinned. */
export async function siblingBinds(
  parts: SessionParts,
  { id, record }: { readonly id: string; readonly record: SessionRecord },
  { folder, network, image, pinned, runtime }: Files,
): Promise<Bind[]> {
  const own = join(folder, 'own')
  mkdirSync(own, { mode: 0o755 })
  const owner = ownerOfAgent(record.agent?.options ?? { User: '' })
  writeAgentFiles(own, owner, { values: {}, files: [] })
  writeResolver(own, network.sidecar)
  const binds = [
    ...(await trustBinds(parts, { id, record }, { folder, image, runtime })),
    ...['passwd', 'group', 'resolv.conf'].map((name) => ({ source: join(own, name), target: `/etc/${name}`, readOnly: true })),
  ]
  if (pinned.length === 0) return binds
  return [...binds, { source: writePinned(join(folder, 'pinned'), pinned), target: PINNED, readOnly: true }]
}

/** As the agent has it, or, with another image, the roots of that and the session's authority. */
async function trustBinds(
  { home, engine, system }: SessionParts,
  { id, record }: { readonly id: string; readonly record: SessionRecord },
  { folder, image, runtime }: Pick<Files, 'folder' | 'image' | 'runtime'>,
): Promise<Bind[]> {
  const shared = join(sessionFolder(home, id), 'trust')
  const isShared = image.id === record.agent?.options.Image
  const trust = isShared ? shared : join(folder, 'trust')
  for (const name of IN_TRUST) mkdirSync(join(trust, name), { recursive: true, mode: 0o755 })
  if (isShared) {
    const mounts = record.agent?.options.HostConfig.Mounts ?? []
    return mounts
      .filter(({ Source }) => isWithin(shared, Source))
      .map(({ Source, Target }) => ({ source: Source, target: Target, readOnly: true }))
  }
  const container = { name: `${engineName(id, 'trust')}-${system.random(6).toString('hex')}`, Labels: labelsOf(home, id, 'trust'), runtime }
  const roots = await imageRoots(engine, image.id, join(home, 'roots'), container, system)
  return writeTrust(folder, roots, readFileSync(join(shared, 'ca.crt'), 'utf8'), system)
}

/** The session's folder keeps everybody of the host out; in the container all may read them and nobody can write. */
function writePinned(folder: string, pinned: readonly PinnedFile[]): string {
  for (const { target, content, executable } of pinned) {
    const file = join(folder, target.slice(PINNED.length))
    mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
    writeFileSync(file, content, { flag: 'wx', mode: executable ? 0o555 : 0o444 })
  }
  return folder
}
