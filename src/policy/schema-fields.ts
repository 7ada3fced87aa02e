import * as z from 'zod'
import { parseAddressRange } from './addresses.ts'
import { parseHostPattern } from './hosts.ts'
import { parsePathPattern } from './paths.ts'

const METHOD = /^[A-Z][A-Z0-9!#$%&'*+.^_`|~-]{0,31}$/
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/** A string with a check whose complaint is the message. */
export function text(check: (value: string) => string | undefined, pattern?: RegExp) {
  const base = pattern === undefined ? z.string().min(1).max(2_048) : z.string().max(2_048).meta({ pattern: pattern.source })
  return base.superRefine((value, context) => {
    const message = check(value)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  })
}

/** A list in which nothing stands twice and something stands at all: an empty one would read as "any" to some. */
export function list<T extends z.ZodType<string | number>>(item: T, max: number) {
  return z
    .array(item)
    .min(1)
    .max(max)
    .superRefine((values, context) => {
      values.forEach((value, index) => {
        if (values.indexOf(value) !== index)
          context.addIssue({ code: 'custom', path: [index], message: `"${value}" stands in the list twice` })
      })
    })
}

/** The complaint of a parser that gives a string for a bad value. */
export function complaint(parse: (value: string) => unknown): (value: string) => string | undefined {
  return (value) => {
    const result = parse(value)
    return typeof result === 'string' ? result : undefined
  }
}

export const Id = text(
  (value) => (ID.test(value) ? undefined : `id "${value}" may have letters, digits, ".", "_" and "-" only, 64 at most`),
  ID,
)
export const Host = text(complaint(parseHostPattern)).describe('One host, or "*.example.com": every name below it, never the apex.')
export const Methods = list(text(methodProblem, METHOD), 64).describe('Default: any.')
export const Paths = list(text(complaint(parsePathPattern)), 1_000).describe(
  '"*": within one segment; "**" as a whole segment: any number of them. Query left out. Default: any.',
)
export const SecretName = text((value) =>
  /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/.test(value) ? undefined : `secret name "${value}" may have letters, digits, "_", "." and "-" only`,
)
export const Addresses = list(text(complaint(parseAddressRange)), 256)

function methodProblem(value: string): string | undefined {
  if (!METHOD.test(value)) {
    const right = value.trim().toUpperCase()
    return `method "${value}" is not canonical${METHOD.test(right) ? `; write "${right}"` : ''}`
  }
  if (value === 'CONNECT') return 'method "CONNECT" opens tunnels and is never forwarded; rules speak of the requests inside'
  return value === 'TRACE' ? 'method "TRACE" is never forwarded: it would echo credentials' : undefined
}
