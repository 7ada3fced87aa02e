// Escape sequences are what this is about.
/* oxlint-disable no-control-regex */
/**
 * What a filter may let through, written anew and without its tables: the output of a filter is nothing but these, one after the
 * other. Gives the first that is none of them.
 */
const ALLOWED: readonly RegExp[] = [
  // Text: printable ASCII, seven controls, and characters from U+00A0 on.
  /[\u0020-\u007e\u0007-\u000d\u00a0-\u{10ffff}]/u,
  /[\u000e\u000f]/u,
  /\u001b(?:[78DEM=>]|[()][0AB])/u,
  /\u001b\[[\d;:]{0,255}m/u,
  /\u001b\[(?:\d{1,4}(?:;\d{1,4})?)?[A-HZ`adefI@PXLMSTr]/u,
  /\u001b\[[012]?[JK]/u,
  /\u001b\[[su]/u,
  /\u001b\[[0-6] q/u,
  /\u001b\[(?:4|20)[hl]/u,
  /\u001b\[\?(?:1|5|6|7|9|12|25|47|66|1000|1002|1003|1004|1005|1006|1015|1016|1047|1048|1049|2004|2026)[hl]/u,
  /\u001b\[>[0145]u/u,
  /\u001b\[<\d{1,2}u/u,
  /\u001b\[=[0145];[123]u/u,
  /\u001b\[>4;[012]m/u,
  /\u001b\[6n/u,
]
const ONE = new RegExp(`(?:${ALLOWED.map(({ source }) => source).join('|')})`, 'uy')

export function firstForbidden(output: Buffer): string | undefined {
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(output)
  let at = 0
  while (at < text.length) {
    ONE.lastIndex = at
    const found = ONE.exec(text)
    if (found === null) return JSON.stringify(text.slice(at, at + 20))
    at += found[0].length
  }
  return undefined
}

/** The same for a filter of lines: text, colours, and erasing in the line of the cursor. */
export function firstForbiddenInLines(output: Buffer): string | undefined {
  const rest = output.toString().replaceAll(/\u001b(?:\[[\d;:]*m|\[[012]?K|\(B)/gu, '')
  return /[^\u0007-\u000d\u0020-\u007e\u00a0-\u{10ffff}]/u.exec(rest)?.[0]
}
