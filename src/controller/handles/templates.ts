import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'

/** A text in pieces: what stands there as it is, and where a value goes. */
export type Piece = { readonly text: string } | { readonly handle: string }

const HANDLE = /sph_[a-z0-9]{32}/
/** Dollar signs before a brace. Of an odd number the last one opens; of those before it each two are one. */
const OPENING = /(\$+)\{(?:(sph_[a-z0-9]{32})\})?/g

/**
 * Reads a text in which `${sph_…}` stands for the value of a handle. `$${` is `${` itself: of dollar signs directly before a brace two are
 * one. Everywhere else a dollar sign is one. Neighbouring text is one piece.
 * @param where for the message: the variable, or stdin
 * @throws template_invalid for any other `${`, a handle without braces, or text that no process could be given
 */
export function parseTemplate(text: string, where: string): Piece[] {
  const invalid = (why: string, hint: string): SallyportError => new SallyportError('template_invalid', `${where}: ${why}`, { hint })
  if (text.includes('\0') || !text.isWellFormed()) throw invalid('it has a NUL, or is no Unicode text', 'give text')
  const pieces: Piece[] = []
  let plain = ''
  let from = 0
  const endText = (): void => {
    if (plain !== '') pieces.push({ text: plain })
    plain = ''
  }
  for (const { index, 0: whole, 1: signs = '', 2: handle } of text.matchAll(OPENING)) {
    plain += text.slice(from, index) + '$'.repeat(Math.floor(signs.length / 2))
    from = index + whole.length
    if (signs.length % 2 === 0) plain += whole.slice(signs.length)
    else if (handle === undefined) throw invalid('"${" without a handle', 'write ${sph_…} with a handle, or $${ for "${" itself')
    else {
      endText()
      pieces.push({ handle })
    }
  }
  plain += text.slice(from)
  endText()
  if (pieces.some((piece) => 'text' in piece && hasHandle(piece.text)))
    throw invalid('a handle stands there without "${" and "}"', 'write ${sph_…}')
  if (pieces.filter((piece) => 'handle' in piece).length > LIMITS.handlesOfTextMax)
    throw invalid(`more than ${LIMITS.handlesOfTextMax} handles`, 'use fewer')
  return pieces
}

/** The text that is read as these pieces. */
export function formatTemplate(pieces: readonly Piece[]): string {
  return pieces
    .map((piece, at) => {
      if ('handle' in piece) return `\${${piece.handle}}`
      const beforeBrace = piece.text.replace(/\$+(?=\{)/g, '$&$&')
      return pieces[at + 1] === undefined ? beforeBrace : beforeBrace.replace(/\$+$/, '$&$&')
    })
    .join('')
}

export function hasHandle(text: string): boolean {
  return HANDLE.test(text)
}

/** A text without the handles in it, for what is kept longer than they are. */
export function withoutHandles(text: string): string {
  return text.replaceAll(new RegExp(HANDLE, 'g'), 'sph_…')
}
