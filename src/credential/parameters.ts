import { percentDecoded } from './encodings.ts'

/**
 * The text of a query or a form with its names and values replaced by what `edit` makes of them. `name` is the decoded name that a
 * value belongs to; `undefined` for the names themselves, and for values that can be read in more than one way.
 */
export function mapParameters(text: string, edit: (part: string, name: string | undefined) => string): string {
  return text
    .split('&')
    .map((pair) => {
      const at = pair.indexOf('=')
      if (at === -1) return edit(pair, undefined)
      const [name, value] = [pair.slice(0, at), pair.slice(at + 1)]
      // Some servers take ";" for another "&", and read a parameter there that others don't see.
      return `${edit(name, undefined)}=${edit(value, pair.includes(';') ? undefined : decodedName(name))}`
    })
    .join('&')
}

/**
 * The text without any parameter of this name, however servers may come to read it: escaped, in another case, behind ";", as a
 * list ("name[]") or cut at a NUL.
 */
export function withoutParameter(text: string, name: string): string {
  const wanted = lenientName(name)
  return text
    .split('&')
    .flatMap((pair) => {
      const parts = pair.split(';')
      const kept = parts.filter((part) => {
        const found = lenientName(decodedName(part.split('=')[0] ?? ''))
        return found !== wanted && !found.startsWith(`${wanted}[`)
      })
      return kept.length === 0 ? [] : [kept.join(';')]
    })
    .join('&')
}

/** A name as the server reads it: "+" is a space there. */
function decodedName(name: string): string {
  return Buffer.from(percentDecoded(name.replaceAll('+', ' ')), 'latin1').toString()
}

function lenientName(name: string): string {
  return (name.split('\0')[0] ?? '').trim().toLowerCase()
}
