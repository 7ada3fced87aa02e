import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { codeOf, SallyportError } from '../../kernel/errors.ts'

/** A file of the page as it is sent: by content coding, `identity` always there. Anybody on this machine may read it. */
export type PageFile = {
  readonly type: string
  readonly bodies: Readonly<Partial<Record<'br' | 'gzip', Buffer>>> & { readonly identity: Buffer }
  /** Its name has its hash: it never becomes another. */
  readonly isImmutable: boolean
  readonly etag: string
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
}
const CODINGS = { br: '.br', gzip: '.gz' } as const

/**
 * Reads the built page whole, by the path that each file is asked for, the document at `/`. It is what it was when the daemon began.
 * Nothing where it was not built.
 * @throws config_invalid for a file of a kind that no page of ours has
 */
export function readPage(folder: string): ReadonlyMap<string, PageFile> {
  let names: string[]
  try {
    names = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return new Map()
    throw error
  }
  const plain = names.filter((name) => !Object.values(CODINGS).some((ending) => name.endsWith(ending)))
  return new Map(plain.map((name) => [name === 'index.html' ? '/' : `/${name.split(path.sep).join('/')}`, readFile(folder, name, names)]))
}

function readFile(folder: string, name: string, names: readonly string[]): PageFile {
  const type = TYPES[path.extname(name)]
  if (type === undefined)
    throw new SallyportError('config_invalid', `${path.join(folder, name)} is no file of the page`, { hint: 'build the page anew' })
  const read = (coding: keyof typeof CODINGS): { [coding]?: Buffer } =>
    names.includes(name + CODINGS[coding]) ? { [coding]: readFileSync(path.join(folder, name + CODINGS[coding])) } : {}
  const identity = readFileSync(path.join(folder, name))
  return {
    type,
    bodies: { identity, ...read('br'), ...read('gzip') },
    isImmutable: name.startsWith(`assets${path.sep}`),
    etag: `"${hash('sha256', identity, 'base64url').slice(0, 22)}"`,
  }
}

/** The first of ours that the browser takes. RFC 9110 §12.5.3; one with weight 0 is not taken. */
export function codingFor(accepted: string | undefined, bodies: PageFile['bodies']): 'br' | 'gzip' | 'identity' {
  const taken = new Set(
    (accepted ?? '')
      .toLowerCase()
      .split(',')
      .map((one) => one.trim())
      .filter((one) => !/;\s*q=0(?:\.0*)?$/.test(one))
      .map((one) => one.split(';')[0]?.trim()),
  )
  return (['br', 'gzip'] as const).find((coding) => bodies[coding] !== undefined && taken.has(coding)) ?? 'identity'
}
