import { visit } from 'jsonc-parser'
import { looksRandom, looksSecret, looksSecretArgument, namesSecret } from '../../policy/policy.ts'

/** Stands where a value was that looks like a secret. No value may have it in it: it is refused when it comes back. */
export const HIDDEN = '${hidden}'

/**
 * The text of a file of MCP servers without what in it looks like a secret in clear text, wherever it stands: in values, arguments, URLs,
 * comments, and where the file is broken. Lines stay where they are.
 */
export function withoutValues(text: string): { readonly text: string; readonly hidden: number } {
  const found: { readonly offset: number; readonly length: number; readonly kind: 'text' | 'comment' }[] = []
  let name = ''
  let before = ''
  let isBroken = false
  visit(
    text,
    {
      onObjectProperty(property, offset, length) {
        name = property
        before = ''
        if (looksSecret('', property)) found.push({ offset, length, kind: 'text' })
      },
      onLiteralValue(value: unknown, offset, length, _line, _character, path) {
        const word = String(value)
        // A map or a list in the place of a value is named as it is.
        const names = [name, ...path().slice(2)].map(String)
        if (names.some((one) => isBare(one, word, typeof value === 'string' ? before : ''))) found.push({ offset, length, kind: 'text' })
        before = word
      },
      onError() {
        isBroken = true
      },
      onComment(offset, length) {
        const comment = text.slice(offset, offset + length)
        if (looksSecret('', comment) || namesSecret(comment)) found.push({ offset, length, kind: 'comment' })
      },
    },
    { allowTrailingComma: true },
  )
  let shown = ''
  let end = 0
  for (const { offset, length, kind } of found) {
    const whole = text.slice(offset, offset + length)
    shown += text.slice(end, offset) + (kind === 'text' ? `"${HIDDEN}"` : hiddenComment(whole))
    end = offset + length
  }
  let hidden = found.length
  // Where it is no JSON, nothing of it was looked at, or it was taken for something else.
  const lines = `${shown}${text.slice(end)}`.split('\n').map((line) => {
    if (!looksSecret('', line) && !(isBroken && namesAnyhow(line))) return line
    hidden += 1
    return HIDDEN
  })
  return { text: lines.join('\n'), hidden }
}

/** The same of one value. @param before the argument before it */
export function withoutValue(name: string, value: string, before = ''): string {
  return isBare(name, value, before) ? HIDDEN : value
}

function isBare(name: string, value: string, before: string): boolean {
  if (looksSecret(name, value) || looksSecretArgument(value, before)) return true
  const [, userinfo, path = ''] = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*@)?([^]*)$/i.exec(value) ?? []
  return userinfo !== undefined || looksRandom(path)
}

/** `NAME: value` and `NAME=value` in whatever quotes: what somebody meant who wrote no JSON. */
const NAMED = /(?<![\w.-])([A-Za-z][\w.-]{0,127})["']?[ \t]{0,8}[:=][ \t]{0,8}["']?([^\s"',;{}[\]]{1,64})/g

function namesAnyhow(line: string): boolean {
  return [...line.matchAll(NAMED)].some(([, name = '', value = '']) => value !== '$' && looksSecret(name, value))
}

function hiddenComment(whole: string): string {
  const lines = '\n'.repeat(whole.split('\n').length - 1)
  return whole.startsWith('/*') ? `/* ${HIDDEN}${lines} */` : `// ${HIDDEN}`
}
