/**
 * Whether a tool of an MCP server is one that agents have: by its name as it stands, every character of it. `*` stands for any
 * characters, none included. Time is bounded by the product of both lengths, whatever they are made of.
 * @param patterns undefined for all
 */
export function allowsTool(patterns: readonly string[] | undefined, name: unknown): boolean {
  if (typeof name !== 'string') return false
  return patterns === undefined || patterns.some((pattern) => matches(pattern, name))
}

function matches(pattern: string, name: string): boolean {
  let at = 0
  let from = 0
  let star = -1
  let mark = 0
  while (from < name.length) {
    if (pattern[at] === '*') {
      star = at
      mark = from
      at += 1
    } else if (at < pattern.length && pattern[at] === name[from]) {
      at += 1
      from += 1
    } else if (star === -1) return false
    else {
      at = star + 1
      mark += 1
      from = mark
    }
  }
  while (pattern[at] === '*') at += 1
  return at === pattern.length
}
