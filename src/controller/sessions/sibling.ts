import type { Readable, Writable } from 'node:stream'
import type { Secret } from '../../kernel/secret.ts'

/** A container beside the agent: the same image, hardened the same way, on a network of its own with nothing but the gate. */
export type SiblingWish = {
  /** What it is for: a command that uses secrets, or a server of tools. */
  readonly kind: 'use' | 'tool'
  /** A part of the container's name: `[a-z0-9-]`, 1 to 32 characters. */
  readonly label: string
  readonly argv: readonly [string, ...string[]]
  /** Where it starts; default `/workspace`. */
  readonly folder?: string
  /** Variables that anybody may see: they are in the container's configuration. */
  readonly environment: Readonly<Record<string, string>>
  /** Variables that nobody may see: they come through stdin and are in no configuration, no argument and no log. */
  readonly values: Readonly<Record<string, Secret>>
  /** What the command itself reads. */
  readonly stdin: 'closed' | 'open' | Secret
  /** `ro`: what the agent has of it, read-only, with the same files hidden. Where the agent has none, it has none. */
  readonly workspace: 'none' | 'ro'
  /** Files with the content that was looked at, below `/sallyport/pinned`: out of the agent's reach, whatever it does to its workspace. */
  readonly pinned: readonly PinnedFile[]
  /** `/output`, writable. `folder`: of the host, empty, below the session's own folder. It is killed when there is more in it than `bytesMax`. */
  readonly output?: { readonly folder: string; readonly bytesMax: number }
  /** Another image than the agent's, by name or id. */
  readonly image?: string
}

export type PinnedFile = { readonly target: string; readonly content: Buffer; readonly executable: boolean }

/** One that runs. Disposed of, nothing of it is left: container, network, ways, folder. */
export type Sibling = AsyncDisposable & {
  /** Its name. */
  readonly container: string
  /** Ended already where stdin was not asked to be open. */
  readonly stdin: Writable
  /** Both must be read: one that is not read holds the other back. */
  readonly stdout: Readable
  readonly stderr: Readable
  readonly exited: Promise<SiblingEnd>
}

export type SiblingEnd = {
  readonly exitCode: number
  /** The kernel killed something in it for its memory. */
  readonly outOfMemory: boolean
  /** It was killed for what it wrote to `/output`. */
  readonly outputExceeded: boolean
}

/** What a sibling's image is, for what the operator is shown and for digests. */
export type SiblingImage = {
  /** `sha256:…`: what is in the image is settled by it. */
  readonly id: string
  /** `PATH` of the sibling where the wish sets none. */
  readonly path: string
  /** The user that the command runs as. */
  readonly user: { readonly uid: number; readonly gid: number }
  /**
   * Where the image has a program: absolute, links followed. By its name along `path` (default the image's), or by a path from `folder`
   * (default `/workspace`). undefined where the image has no such file that may be run, and for all below `/workspace`.
   */
  resolve(program: string, folder?: string, path?: string): Promise<string | undefined>
}
