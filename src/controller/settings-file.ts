import { readFileSync } from 'node:fs'
import { LineCounter, parseDocument } from 'yaml'
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
export function readSettingsFile<T>(file: string, shape: z.ZodType<T>, { bytesMax, hint }: Options): T | undefined {
  const invalid = (problems: readonly string[], cause?: unknown): SallyportError =>
    new SallyportError('config_invalid', problems.join('\n'), { hint, cause })
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw invalid([`${file}: cannot be read (${codeOf(error)})`], error)
  }
  if (text.length > bytesMax) throw invalid([`${file}: has more than ${bytesMax} bytes`])
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, version: '1.2' })
  const at = (offset: number | undefined): string => `${file}:${lines.linePos(offset ?? 0).line}`
  if (document.errors.length > 0) throw invalid(document.errors.map((error) => `${at(error.pos[0])}: not valid YAML (${error.code})`))
  const result = shape.safeParse(document.toJS())
  if (result.success) return result.data
  throw invalid(
    result.error.issues.map(({ path, message }) => {
      const node = document.getIn(path, true) as { readonly range?: readonly [number, number, number] } | undefined
      return `${at(node?.range?.[0])}: ${path.join('.') || 'the file'}: ${message}`
    }),
  )
}
