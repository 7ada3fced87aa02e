import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { Secret } from '../../kernel/secret.ts'
import type { System } from '../../kernel/system.ts'
import type { SecretHolder } from '../../wire/secret-holder.ts'
import { createResolver, type Providers } from '../providers/providers.ts'
import { BY_POLICY, BY_REQUEST, type KnownSecret } from './known-secret.ts'
import type { Piece } from './templates.ts'

export type ValueParts = { readonly providers: Providers; readonly system: Pick<System, 'elapsed'> }

/** What one command gets, at this moment. `searched`: all that must not come out of it. */
export type UseValues = {
  readonly variables: Readonly<Record<string, Secret>>
  readonly stdin?: Secret
  readonly searched: readonly Secret[]
}

export type Templates = {
  readonly variables: Readonly<Record<string, readonly Piece[]>>
  readonly stdin?: readonly Piece[]
}

/**
 * Has the values from where they are kept, and writes them where their handles stand. Nothing is kept of them here.
 * @param secrets by handle
 * @throws secret_unavailable; template_invalid when the texts get too long; the signal's reason
 */
export async function valuesOf(
  parts: ValueParts,
  templates: Templates,
  secrets: ReadonlyMap<string, { readonly name: string; readonly known: KnownSecret }>,
  holder: SecretHolder,
  signal: AbortSignal,
): Promise<UseValues> {
  const values = new Map<string, Secret>()
  for (const [handle, { name, known }] of secrets) values.set(handle, await valueOf(parts, name, known, holder, signal))
  const raw = [...values.values()]
  const compose = (name: string, pieces: readonly Piece[]): Secret =>
    new Secret(name, pieces.map((piece) => ('text' in piece ? piece.text : (values.get(piece.handle)?.reveal() ?? ''))).join(''))
  const variables = Object.fromEntries(Object.entries(templates.variables).map(([name, pieces]) => [name, compose(name, pieces)]))
  const stdin = templates.stdin && compose('stdin', templates.stdin)
  const written = [...Object.values(variables), ...(stdin === undefined ? [] : [stdin])]
  if (written.reduce((sum, text) => sum + Buffer.byteLength(text.reveal()), 0) > LIMITS.useTextsBytesMax)
    throw new SallyportError('template_invalid', `the texts have more than ${LIMITS.useTextsBytesMax} bytes with the values in them`)
  const whole = [...Object.values(variables), ...(stdin === undefined ? [] : linesWith(stdin, raw))]
  return { variables, ...(stdin !== undefined && { stdin }), searched: [...raw, ...whole] }
}

/** Of what it reads, the lines that a value is in: the others are no secret, and may well be printed. */
function linesWith(text: Secret, values: readonly Secret[]): Secret[] {
  return text
    .reveal()
    .split(/\r?\n/)
    .filter((line) => values.some((value) => line.includes(value.reveal())))
    .map((line) => new Secret(text.name, line))
}

async function valueOf(
  { providers, system }: ValueParts,
  name: string,
  { source, grant }: KnownSecret,
  holder: SecretHolder,
  signal: AbortSignal,
): Promise<Secret> {
  try {
    const resource = grant?.uses.includes(BY_POLICY) === true ? BY_POLICY : BY_REQUEST
    const value =
      grant === undefined
        ? await providers.get(name, source, signal, { ...holder, use: resource })
        : await createResolver([withoutTtl(grant)], providers, system, holder).resolve(name, { resource }, signal)
    const text = value.reveal()
    // What cannot be looked for would be in the output; a NUL would end the variable before its end.
    if (text.length >= LIMITS.secretCharsMin && !text.includes('\0')) return value
    throw new SallyportError('secret_invalid', `the value of ${name} is shorter than ${LIMITS.secretCharsMin} characters, or has a NUL`)
  } catch (cause) {
    if (signal.aborted) throw signal.reason
    throw new SallyportError('secret_unavailable', `the value of ${name} could not be had (${codeOf(cause)})`, {
      hint: 'the operator can look at it with: sallyport secret ls',
      cause,
    })
  }
}

/** Dropped after use, whatever the policy says of keeping. */
function withoutTtl({ name, source, uses }: NonNullable<KnownSecret['grant']>): NonNullable<KnownSecret['grant']> {
  return { name, source, uses }
}
