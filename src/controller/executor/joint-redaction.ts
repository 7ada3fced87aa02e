import { LIMITS } from '../../kernel/limits.ts'
import { Secret } from '../../kernel/secret.ts'
import { createRedactor, type Redactor, type RedactorStream } from '../../redactor/redactor.ts'

export type StreamName = 'stdout' | 'stderr'
const NAMES = ['stdout', 'stderr'] as const
type Pieces = Record<StreamName, Buffer>

/**
 * I47: Takes secrets out of what one command prints: out of each of its streams, and out of both in the order in which they came, so that one is found of
 * which a part is on each. Nothing that could be the beginning of a secret is given before what follows it has come.
 */
export type JointRedaction = {
  /** What may go on of each stream. */
  push(name: StreamName, chunk: Buffer): Pieces
  /** What is left of each. */
  end(): Pieces
}

/** The last one for a list that begins with this secret: as long as the session has it, and no longer. */
const made = new WeakMap<Secret, { readonly secrets: readonly Secret[]; readonly redactor: Redactor }>()

/**
 * What finds the secrets. Making it takes tens of milliseconds: a list that is the same as before has the same.
 * @throws secret_invalid when the secrets together are too large to be looked for
 */
export function redactorOf(secrets: readonly Secret[]): Redactor {
  const [first] = secrets
  if (first === undefined) return createRedactor([])
  const known = made.get(first)
  if (known?.secrets.length === secrets.length && known.secrets.every((secret, i) => secret === secrets[i])) return known.redactor
  const redactor = createRedactor(secrets.flatMap(searched))
  made.set(first, { secrets: [...secrets], redactor })
  return redactor
}

/** @throws secret_invalid when the secrets together are too large to be looked for */
export function createJointRedaction(secrets: readonly Secret[]): JointRedaction {
  const redactor = redactorOf(secrets)
  const joint = redactor.open()
  const own: Record<StreamName, RedactorStream> = { stdout: redactor.open(), stderr: redactor.open() }
  const tracks: Record<StreamName, Track> = { stdout: new Track(), stderr: new Track() }
  /** Whose the bytes are that the joint stream has not given yet. */
  let order: { name: StreamName; bytes: number }[] = []

  const hand = (given: Buffer): void => {
    let from = 0
    while (from < given.length) {
      const first = order[0] as (typeof order)[number]
      const bytes = Math.min(first.bytes, given.length - from)
      tracks[first.name].joint = append(tracks[first.name].joint, given.subarray(from, from + bytes))
      from += bytes
      first.bytes -= bytes
      if (first.bytes === 0) order.shift()
    }
  }
  const take = (): Pieces => ({ stdout: tracks.stdout.take(), stderr: tracks.stderr.take() })
  return {
    push(name, chunk) {
      const track = tracks[name]
      track.raw = append(track.raw, chunk)
      track.own = append(track.own, own[name].push(chunk))
      const last = order.at(-1)
      if (last?.name === name) last.bytes += chunk.length
      else if (chunk.length > 0) order.push({ name, bytes: chunk.length })
      hand(joint.push(chunk))
      return take()
    },
    end() {
      for (const name of NAMES) tracks[name].own = append(tracks[name].own, own[name].flush())
      hand(joint.flush())
      order = []
      return take()
    },
  }
}

/** One stream: what came, and what two redactors made of it, of which each may be behind. */
class Track {
  raw: Buffer = EMPTY
  own: Buffer = EMPTY
  joint: Buffer = EMPTY

  /** What both have given: a byte that either changed is changed. */
  take(): Buffer {
    const bytes = Math.min(this.own.length, this.joint.length)
    if (bytes === 0) return EMPTY
    const [raw, own, joint] = [this.raw.subarray(0, bytes), this.own.subarray(0, bytes), this.joint.subarray(0, bytes)]
    this.raw = this.raw.subarray(bytes)
    this.own = this.own.subarray(bytes)
    this.joint = this.joint.subarray(bytes)
    if (own.equals(raw)) return joint
    if (joint.equals(raw)) return own
    const merged = Buffer.from(joint)
    for (let i = 0; i < bytes; i++) if (own[i] !== raw[i]) merged[i] = own[i] as number
    return merged
  }
}

const EMPTY = Buffer.alloc(0)

function append(before: Buffer, more: Buffer): Buffer {
  if (before.length === 0) return more
  return more.length === 0 ? before : Buffer.concat([before, more])
}

/**
 * What is looked for to find a secret: its value, and of one of many lines, as a key in PEM, each line that is not only a mark of where
 * it begins or ends. So it is found indented, numbered, or with other ends of lines. A value shorter than `LIMITS.secretCharsMin` is not looked
 * for: what is replaced of a list of all of them would tell it.
 */
function searched(secret: Secret): Secret[] {
  const value = secret.reveal()
  if (value.length < LIMITS.secretCharsMin) return []
  const lines = value
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => line.length >= LIMITS.commandSecretLineCharsMin && !line.startsWith('-----'))
  return lines.length > 1 || lines[0] !== value ? [secret, ...lines.map((line) => new Secret(secret.name, line))] : [secret]
}
