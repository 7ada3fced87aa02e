import { readFileSync } from 'node:fs'
import { LineCounter, parseDocument, type Document } from 'yaml'
import type * as z from 'zod'
import { codeOf, SallyportError } from '../kernel/errors.ts'

type Options = {
  readonly bytesMax: number
  /** Where the file is explained. */
  readonly hint: string
}

/**
 * A file of settings in YAML; `undefined` where there is none.
 * @throws config_invalid with file and line of every error
 */
export function readSettingsFile<T>(file: string, shape: z.ZodType<T>, options: Options): T | undefined {
  try {
    return parseSettings(readFileSync(file, 'utf8'), file, shape, options)
  } catch (error) {
    if (error instanceof SallyportError) throw error
    if (codeOf(error) === 'ENOENT') return undefined
    throw new SallyportError('config_invalid', `${file}: cannot be read (${codeOf(error)})`, { hint: options.hint, cause: error })
  }
}

/** What such a file says. @param file its name, for what is wrong with it @throws config_invalid with file and line of every error */
export function parseSettings<T>(text: string, file: string, shape: z.ZodType<T>, { bytesMax, hint }: Options): T {
  const invalid = (problems: readonly string[], cause?: unknown): SallyportError =>
    new SallyportError('config_invalid', problems.join('\n'), { hint, cause })
  if (text.length > bytesMax) throw invalid([`${file}: has more than ${bytesMax} bytes`])
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, version: '1.2' })
  const at = (offset: number | undefined): string => `${file}:${lines.linePos(offset ?? 0).line}`
  if (document.errors.length > 0) throw invalid(document.errors.map((error) => `${at(error.pos[0])}: not valid YAML (${error.code})`))
  const result = shape.safeParse(plainOf(document, () => invalid([`${file}: has too many aliases`])))
  if (result.success) return result.data
  throw invalid(
    result.error.issues.map(({ path, message }) => {
      const node = document.getIn(path, true) as { readonly range?: readonly [number, number, number] } | undefined
      return `${at(node?.range?.[0])}: ${path.join('.') || 'the file'}: ${message}`
    }),
  )
}

/** Aliases of aliases would make a short file a large one. */
function plainOf(document: Document, tooMany: () => SallyportError): unknown {
  try {
    return document.toJS()
  } catch {
    throw tooMany()
  }
}
