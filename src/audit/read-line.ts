import { hash } from 'node:crypto'
import { GENESIS } from './line.ts'

const SUFFIX = /^,"hash":"([0-9a-f]{64})"\}$/
const SUFFIX_BYTES = `,"hash":"${GENESIS}"}`.length
const TIME_TEXT = '[+-]?\\d{4,6}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z'
const TIME = new RegExp(`^${TIME_TEXT}$`)

/** JSON as we write it: no spaces, visible ASCII, members of one level, texts and numbers (RFC 8259). Each part has one reading: no backtracking. */
const PLAIN = '[ !#-\\[\\]-~]*'
const TEXT = `"${PLAIN}(?:\\\\(?:["\\\\/bfnrt]|u[0-9a-f]{4})${PLAIN})*"`
const NUMBER = '-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:e[-+]?\\d+)?'
const STRICT = new RegExp(
  `^\\{"seq":([1-9]\\d{0,15}),"time":"(${TIME_TEXT})","session":${TEXT},(?:"[a-df-z][a-z_]*":${TEXT},)*` +
    `"event":"([a-z_]+)"(?:,"[a-z_]+":(?:${TEXT}|${NUMBER}))*,"prev":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\\}$`,
)

/** What a line says about its place in the chain. */
export type Link = { readonly seq: number; readonly prev: string; readonly hash: string; readonly time: string; readonly event: string }

/** Reads one line (without its newline) and checks it by itself. A string is the reason why it does not hold. */
export function readLine(bytes: Buffer): Link | string {
  const end = bytes.length - SUFFIX_BYTES
  const match = STRICT.exec(bytes.latin1Slice())
  if (match === null) return readAnyLine(bytes, end)
  const [, seq, time = '', event = '', prev = '', stated = ''] = match
  if (hash('sha256', bytes.subarray(0, end), 'hex') !== stated) return 'its hash does not match its bytes'
  return Number.isSafeInteger(Number(seq)) ? { seq: Number(seq), prev, time, hash: stated, event } : 'it has no sequence number'
}

/** Names of members in a line that is spelled as we write it: a quote within a text has a backslash before it. */
const NAMES = /[{,]"([a-z_]+)":/g

/**
 * The session that a line of ASCII names, where every reader of it finds the same: it is spelled as we write lines, and has no member
 * twice. `undefined` elsewhere.
 */
export function sessionOfLine(line: string): string | undefined {
  if (!STRICT.test(line)) return undefined
  const names = Array.from(line.matchAll(NAMES), ([, name]) => name)
  if (new Set(names).size !== names.length) return undefined
  const { session } = parseObject(Buffer.from(line, 'latin1'))
  return typeof session === 'string' ? session : undefined
}

/** What is not spelled as we write it: mostly to say what is wrong with it. */
function readAnyLine(bytes: Buffer, end: number): Link | string {
  const stated = end > 0 ? SUFFIX.exec(bytes.toString('latin1', end))?.[1] : undefined
  if (stated === undefined) return 'it does not end with its hash'
  if (hash('sha256', bytes.subarray(0, end), 'hex') !== stated) return 'its hash does not match its bytes'
  const { seq, prev, time, session, event } = parseObject(bytes)
  if (typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq < 1) return 'it has no sequence number'
  if (typeof prev !== 'string') return 'it does not name the line before'
  if (typeof time !== 'string' || !TIME.test(time)) return 'it has no time'
  if (typeof session !== 'string' || typeof event !== 'string') return 'it has no session or no event'
  return { seq, prev, time, hash: stated, event }
}

function parseObject(bytes: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
