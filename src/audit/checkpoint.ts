import { encodeEvent, sealLine, startOfLine } from './line.ts'
import { readLine, type Link } from './read-line.ts'
import type { SigningKey, VerifyingKey } from './signing-key.ts'

/**
 * A line that signs all before it. What is signed are the bytes of the line itself without its last members: up to the signature, and
 * `prev`, which stands for every line before.
 */
export function checkpointBody(identity: string, key: SigningKey, timeMs: number): (seq: number, prev: string) => string {
  const members = encodeEvent(identity, { event: 'checkpoint', key: key.id }, timeMs)
  return (seq, prev) => `${members},"signature":"${key.sign(`${startOfLine(seq)}${members},"prev":"${prev}"`)}"`
}

/** The same, as the whole line with its newline. */
export function checkpointLine(body: string, seq: number, prev: string): string {
  return sealLine(seq, body, prev).line
}

const CHECKPOINT =
  /^(\{"seq":\d+,.*"event":"checkpoint","key":"([A-Za-z0-9_-]{43})"),"signature":"([A-Za-z0-9_-]{86})"(,"prev":"[0-9a-f]{64}"),"hash":"[0-9a-f]{64}"\}$/

/** Why a line of the event `checkpoint` is none of that key; undefined when it is. Without a key only its form is looked at. */
export function problemOfCheckpoint(line: string, key: VerifyingKey | undefined): string | undefined {
  const [, signed = '', id, signature = '', prev = ''] = CHECKPOINT.exec(line) ?? []
  if (id === undefined) return 'it is no checkpoint of ours'
  if (key === undefined) return undefined
  if (id !== key.id) return `it is signed with another key (${id})`
  return key.isSignature(signed + prev, signature) ? undefined : 'its signature does not hold'
}

/** A checkpoint that was kept apart from its chain: the line itself. A text is the reason why it is none. */
export function readCheckpoint(text: string, key: VerifyingKey | undefined): Link | string {
  const line = text.replace(/\n$/, '')
  const link = readLine(Buffer.from(line, 'latin1'))
  if (typeof link === 'string') return link
  if (link.event !== 'checkpoint') return 'it is no checkpoint'
  return problemOfCheckpoint(line, key) ?? link
}
