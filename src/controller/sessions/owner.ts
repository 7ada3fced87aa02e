import { statSync } from 'node:fs'
import type { Owner } from './agent-files.ts'

/** For an operator who is root: the containers' processes are nobody on the host. */
const UNPRIVILEGED_UID = 10_001

/** Whom containers run as: the operator; for root the workspace's owner, and where that is root too, a uid that owns nothing. */
export function ownerOf(workspace: string): Owner {
  const [uid, gid] = [process.getuid?.() ?? UNPRIVILEGED_UID, process.getgid?.() ?? UNPRIVILEGED_UID]
  if (uid !== 0) return { uid, gid }
  const folder = statSync(workspace)
  return folder.uid === 0 ? { uid: UNPRIVILEGED_UID, gid: UNPRIVILEGED_UID } : { uid: folder.uid, gid: folder.gid }
}
