import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { nearest } from '../kernel/nearest.ts'
import { readDocument, type PolicyDocument } from './document.ts'
import type { Diagnostic, Place, Plane } from './model.ts'
import { shapeProblems } from './shape.ts'

/** A policy file: its path, or a text that was read already and the path that messages name. */
export type PolicyInput = string | { readonly file: string; readonly text: string }

/** One file that was read. Its document may have errors in parts. */
export type Layer = {
  readonly file: string
  readonly document: PolicyDocument
  /** `control_plane` for the file of the harness and what it extends. */
  readonly plane: Plane
}

const SECTIONS = ['network', 'routes', 'credentials', 'secrets'] as const
export type Section = (typeof SECTIONS)[number]

export type Layers = {
  /** What each file extends comes before it. */
  readonly layers: readonly Layer[]
  readonly errors: readonly Diagnostic[]
  /** True when a file of the errors does not exist or cannot be read. */
  readonly isMissing: boolean
  /** Sections of which something could not be read: what seems to be missing from them may be there. */
  readonly doubts: ReadonlySet<Section>
  readonly sources: Sources
}

/** All that was read, to the letter: so that what was looked at is what is used elsewhere. */
export type Sources = {
  /** Each by the name that it was found under, and its real path. */
  readonly files: readonly { readonly file: string; readonly real: string; readonly text: string }[]
  /** Names of `extends`, and of the harness (`harness/NAME`), each with the real path of the file that it leads to. */
  readonly names: ReadonlyMap<string, string>
}

/** A file that was read, by its real path, with those that it extends. */
type ReadFile = {
  readonly file: string
  readonly document: PolicyDocument
  readonly text: string
  readonly real: string
  readonly bases: readonly string[]
}

type Reading = {
  readonly files: ReadFile[]
  readonly errors: Diagnostic[]
  readonly done: Set<string>
  readonly dirs: readonly string[]
  isMissing: boolean
  readonly doubts: Set<Section>
  readonly names: Map<string, string>
}

/** Reads the files and all that they extend, each once, with every error of every file. */
export function readLayers(inputs: readonly PolicyInput[], policyDirs: readonly string[]): Layers {
  const reading: Reading = {
    files: [],
    errors: [],
    done: new Set(),
    dirs: policyDirs,
    isMissing: false,
    doubts: new Set(),
    names: new Map(),
  }
  for (const input of inputs) {
    const file = typeof input === 'string' ? input : input.file
    readFile(reading, input, { file, line: 0, column: 0 }, [])
  }
  const harness = readHarness(reading)
  const layers = reading.files.map(({ file, document, real }): Layer => ({
    file,
    document,
    plane: harness.has(real) ? 'control_plane' : 'agent',
  }))
  return { ...reading, layers, sources: { files: reading.files, names: reading.names } }
}

/**
 * Reads the file of the harness that the last layer names, as if the first file extended it.
 * @returns the real paths of its files
 */
function readHarness(reading: Reading): ReadonlySet<string> {
  const namer = reading.files.findLast(({ document }) => harnessOf(document.data) !== undefined)
  const name = namer && harnessOf(namer.document.data)
  if (namer === undefined || name === undefined) return new Set()
  const place = namer.document.placeOf(['network', 'harness'])
  const file = find(reading.dirs, `harness/${name}`)
  if (file === undefined) {
    reading.isMissing = true
    doubtAll(reading)
    const near = nearest(name, harnessNames(reading.dirs))
    const missing = `network.harness "${name}": there is no harness/${name}.yaml in ${reading.dirs.join(' or ') || 'any policy folder'}`
    reading.errors.push({ ...place, message: near === undefined ? missing : `${missing}: did you mean "${near}"?` })
    return new Set()
  }
  const count = reading.files.length
  const real = readFile(reading, file, place, [])
  if (real !== undefined) reading.names.set(`harness/${name}`, real)
  const fresh = reading.files.splice(count)
  reading.files.unshift(...fresh)
  for (const { document } of fresh)
    if (harnessOf(document.data) !== undefined)
      reading.errors.push({
        ...document.placeOf(['network', 'harness']),
        message: 'the file of a harness names no other: extend it instead',
      })
  return withBases(reading.files, real)
}

function withBases(files: readonly ReadFile[], real: string | undefined): ReadonlySet<string> {
  const found = new Set<string>()
  const open = real === undefined ? [] : [real]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue
    found.add(next)
    open.push(...(files.find((entry) => entry.real === next)?.bases ?? []))
  }
  return found
}

/** Only a name of the right form: it becomes part of a path. */
function harnessOf(data: unknown): string | undefined {
  const network = typeof data === 'object' && data !== null && 'network' in data ? data.network : undefined
  const name = typeof network === 'object' && network !== null && 'harness' in network ? network.harness : undefined
  return typeof name === 'string' && /^[a-z0-9-]{1,64}$/.test(name) ? name : undefined
}

function harnessNames(dirs: readonly string[]): string[] {
  return dirs.flatMap((dir) => {
    try {
      return readdirSync(join(dir, 'harness')).flatMap((entry) => /^([a-z0-9-]+)\.yaml$/.exec(entry)?.[1] ?? [])
    } catch {
      return []
    }
  })
}

/** Gives back the file's real path, where it has one. */
function readFile(reading: Reading, input: PolicyInput, from: Place, above: readonly string[]): string | undefined {
  const file = typeof input === 'string' ? input : input.file
  let real = file
  try {
    real = realpathSync(file)
  } catch (error) {
    // A text that was read already may have lost its file since.
    if (typeof input !== 'string') return readOnce(reading, input, real, from, above)
    reading.isMissing = true
    doubtAll(reading)
    reading.errors.push({
      ...from,
      message: `policy file "${file}" ${codeOf(error) === 'ENOENT' ? 'does not exist' : `cannot be read (${codeOf(error)})`}`,
    })
    return undefined
  }
  return readOnce(reading, input, real, from, above)
}

function readOnce(reading: Reading, input: PolicyInput, real: string, from: Place, above: readonly string[]): string {
  const file = typeof input === 'string' ? input : input.file
  if (above.includes(real)) {
    reading.errors.push({ ...from, message: `extends in a circle: ${[...above.slice(above.indexOf(real)), real].join(' → ')}` })
    return real
  }
  if (reading.done.has(real)) return real
  reading.done.add(real)
  if (reading.done.size > LIMITS.policyFilesMax) {
    doubtAll(reading)
    // Said once: the files after it are only more of the same.
    if (reading.done.size === LIMITS.policyFilesMax + 1)
      reading.errors.push({ ...from, message: `more than ${LIMITS.policyFilesMax} policy files` })
    return real
  }
  const text = typeof input === 'string' ? readText(file, LIMITS.policyFileBytesMax) : input.text
  if (typeof text !== 'string') {
    doubtAll(reading)
    if (text.isMissing) reading.isMissing = true
    reading.errors.push({ ...(text.isMissing ? from : { file, line: 0, column: 0 }), message: text.problem })
    return real
  }
  const { document, errors } = readDocument(file, text)
  reading.errors.push(...errors)
  if (document === undefined) {
    doubtAll(reading)
    return real
  }
  const problems = shapeProblems(document)
  reading.errors.push(...problems.map(({ diagnostic }) => diagnostic))
  for (const { path } of problems) for (const section of sectionsMeant(path)) reading.doubts.add(section)
  const bases: string[] = []
  for (const [index, name] of extendsOf(document.data).entries()) {
    const place = document.placeOf(['extends', index])
    const found = find(reading.dirs, name)
    if (found !== undefined) {
      const base = readFile(reading, found, place, [...above, real])
      if (base === undefined) continue
      bases.push(base)
      reading.names.set(name, base)
    } else {
      reading.isMissing = true
      doubtAll(reading)
      reading.errors.push({
        ...place,
        message: `extends "${name}": there is no ${name}.yaml in ${reading.dirs.join(' or ') || 'any policy folder'}`,
      })
    }
  }
  reading.files.push({ file, document, text, real, bases })
  return real
}

function doubtAll(reading: Reading): void {
  for (const section of SECTIONS) reading.doubts.add(section)
}

/** What may stand under a key that is wrong, or was meant by one that is misspelled. */
function sectionsMeant([key, inner]: readonly PropertyKey[]): readonly Section[] {
  if (typeof key !== 'string') return SECTIONS
  if (key === 'network') {
    const meant = inner === 'rules' || inner === undefined ? undefined : nearest(String(inner), ['rules', 'harness', 'mode'])
    // The harness may bring rules, routes and credentials.
    if (meant === 'harness') return SECTIONS
    return inner === undefined || meant !== undefined ? [key] : []
  }
  const near = key === 'rules' ? 'network' : nearest(key, ['extends', ...SECTIONS])
  if (near === 'extends') return SECTIONS
  return SECTIONS.filter((section) => section === near && section !== key)
}

/** Only names of the right form: a name with ".." or a leading "/" never reaches the file system. */
function extendsOf(data: unknown): readonly string[] {
  const list: unknown = typeof data === 'object' && data !== null && 'extends' in data ? data.extends : undefined
  if (!Array.isArray(list)) return []
  return list.filter((name): name is string => typeof name === 'string' && /^[a-z0-9-]+(?:\/[a-z0-9-]+)*$/.test(name))
}

function find(dirs: readonly string[], name: string): string | undefined {
  for (const dir of dirs) {
    const file = join(dir, `${name}.yaml`)
    try {
      realpathSync(file)
      return file
    } catch {
      // not in this folder: the next one is asked
    }
  }
  return undefined
}

/** The text of a file of so many bytes at most, or why there is none. */
export function readText(file: string, bytesMax: number): string | { problem: string; isMissing: boolean } {
  let descriptor: number | undefined
  try {
    // Non-blocking: a FIFO in the place of a file must not hold the start up.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const stat = fstatSync(descriptor)
    if (!stat.isFile()) return { problem: `"${file}" is not a file`, isMissing: true }
    const bytes = readBounded(descriptor, bytesMax)
    if (bytes === undefined) return { problem: `the file is larger than ${bytesMax} bytes`, isMissing: false }
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    } catch {
      return { problem: 'the file is not UTF-8', isMissing: false }
    }
  } catch (error) {
    return { problem: `policy file "${file}" cannot be read (${codeOf(error)})`, isMissing: true }
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

function readBounded(descriptor: number, bytesMax: number): Buffer | undefined {
  const buffer = Buffer.alloc(bytesMax + 1)
  let length = 0
  while (length < buffer.length) {
    const count = readSync(descriptor, buffer, length, buffer.length - length, null)
    if (count === 0) return buffer.subarray(0, length)
    length += count
  }
  return undefined
}
