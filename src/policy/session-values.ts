import { LIMITS } from '../kernel/limits.ts'

/** Whose uid the containers of a session run with. */
export type SessionUser = 'operator' | 'root' | { readonly uid: number; readonly gid: number }

const MEBIBYTE = 1_024 ** 2
const MEMORY_UNITS: Readonly<Record<string, number>> = { m: MEBIBYTE, g: 1_024 * MEBIBYTE }

/** Reads an amount of memory as engines write it, "512m" or "4g" (powers of 1,024), into bytes. A string is why it is refused. */
export function parseMemory(text: string): number | string {
  const [, digits = '', unit = ''] = /^([1-9][0-9]{0,6})([mg])$/.exec(text) ?? []
  const bytes = Number(digits) * (MEMORY_UNITS[unit] ?? Number.NaN)
  if (Number.isNaN(bytes)) {
    const [, number, letter] = /^\s*([1-9][0-9]{0,6})\s*([mg])i?b?\s*$/i.exec(text) ?? []
    const right = number === undefined || letter === undefined ? '4g' : `${number}${letter.toLowerCase()}`
    return `memory "${text}" is not an amount of memory: write mebibytes or gibibytes, as "${right}"`
  }
  if (bytes < LIMITS.sessionMemoryBytesMin || bytes > LIMITS.sessionMemoryBytesMax)
    return `memory "${text}" is out of range: between ${LIMITS.sessionMemoryBytesMin / MEBIBYTE}m and ${LIMITS.sessionMemoryBytesMax / MEBIBYTE / 1_024}g`
  return bytes
}

/** Reads a number of processors, "2" or "1.5". A string is why it is refused. */
export function parseCpus(text: string): number | string {
  const count = /^(?:0|[1-9][0-9]{0,3})(?:\.[0-9]{1,2})?$/.test(text) ? Number(text) : 0
  if (count >= LIMITS.sessionCpusMin && count <= LIMITS.sessionCpusMax) return count
  return `cpus "${text}" must be between ${LIMITS.sessionCpusMin} and ${LIMITS.sessionCpusMax}, with two decimals at most, in quotes where it has any`
}

/** Reads `user`. A string that is none of the two words is why it is refused. */
export function parseUser(text: string): { readonly user: SessionUser } | string {
  if (text === 'operator' || text === 'root') return { user: text }
  const [, uid = '', gid = ''] = /^(0|[1-9][0-9]{0,9}):(0|[1-9][0-9]{0,9})$/.exec(text) ?? []
  const ids = [Number(uid), Number(gid)]
  if (uid === '' || ids.some((id) => id > LIMITS.userIdMax)) return `user "${text}" must be operator, root or "UID:GID" in numbers`
  // What makes it root is said in one way only, so that it is found by looking for the word.
  if (ids.includes(0)) return `user "${text}" has the id of root: write root where it is meant`
  return { user: { uid: Number(uid), gid: Number(gid) } }
}

/** Name of an image as engines take it: path, tag, digest (the grammar of the distribution specification). Why not, else `undefined`. */
export function imageProblem(text: string): string | undefined {
  const component = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*'
  const host = '(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]{1,5})?'
  const form = new RegExp(`^(?:${host}/)?${component}(?:/${component})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$`)
  if (text.length <= LIMITS.imageNameCharsMax && form.test(text)) return undefined
  return `image "${text}" is not the name of an image: write for example "node:24-bookworm-slim" or "NAME@sha256:…"`
}

/** A pattern of files to hide, from the workspace's folder. Why not, else `undefined`. */
export function hideProblem(text: string): string | undefined {
  const say = (problem: string): string => `hide "${text}" ${problem}`
  if (text.startsWith('/')) return say(`begins with "/": it counts from the workspace; write "${text.replace(/^\/+/, '') || '.env'}"`)
  if (/[\\[\]{}?!]/.test(text)) return say('has a character that means something else elsewhere: there are "*" and "**" only')
  const parts = text.split('/')
  if (parts.some((part) => part === '' || part === '.' || part === '..'))
    return say('has an empty part, "." or "..": write the path plainly')
  if (parts.some((part) => part.includes('**') && part !== '**')) return say('has "**" within a name: it is a whole part of its own')
  if (parts.every((part) => part === '**' || part === '*')) return say('hides everything: use workspace: none')
  return undefined
}

/** An absolute path of the host in its one spelling. Why not, else `undefined`. */
export function hostPathProblem(name: string): (text: string) => string | undefined {
  return (text) =>
    text.startsWith('/') &&
    text
      .slice(1)
      .split('/')
      .every((part) => part !== '' && part !== '.' && part !== '..')
      ? undefined
      : `${name} "${text}" must be an absolute path without "." or ".."`
}
