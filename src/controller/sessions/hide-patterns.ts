import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'

/** A glob of `filesystem.hide`, read. */
export type HidePattern = {
  /** As the policy has it. */
  readonly text: string
  /** `**` is any number of segments, also none. Others are names with `*` and `?`. */
  readonly segments: readonly string[]
  readonly isForFolders: boolean
}

/**
 * Reads globs. `*` and `?` stay in one name, `**` crosses folders. Without a slash before its end a pattern holds in every folder; with one it
 * begins at the workspace. `secrets/` (in any folder) and `secrets/**` (of the workspace) are the folder with all that is in it.
 * @throws SallyportError config_invalid with the pattern.
 */
export function readHidePatterns(texts: readonly string[]): HidePattern[] {
  if (texts.length > LIMITS.hidePatternsMax) throw invalid(`${texts.length} patterns`, `${LIMITS.hidePatternsMax} are the most`)
  return texts.map(readPattern)
}

/** Whether one of the patterns names this path (its segments), as what it is. */
export function isHidden(
  patterns: readonly HidePattern[],
  path: readonly string[],
  kind: 'file' | 'folder' | 'link' | 'other',
  isCaseBlind: boolean,
): boolean {
  const names = path.map((name) => fold(name, isCaseBlind))
  return patterns.some(({ segments, isForFolders }) => {
    // A link may lead to a folder.
    if (isForFolders && kind !== 'folder' && kind !== 'link') return false
    return matchesPath(isCaseBlind ? segments.map((segment) => fold(segment, true)) : segments, names)
  })
}

function readPattern(text: string): HidePattern {
  if (text === '' || text.length > LIMITS.hidePatternCharsMax) throw invalid(`"${text.slice(0, 40)}"`, 'it is empty or too long')
  // oxlint-disable-next-line no-control-regex -- a name with one is no name of a pattern
  const odd = /[[\]{}!\\\x00-\x1f\x7f]/.exec(text)
  if (odd !== null) throw invalid(JSON.stringify(text), `"${odd[0]}" has no meaning here: there are *, ? and **`)
  if (text.startsWith('/')) throw invalid(`"${text}"`, 'write it relative to the workspace')
  const isForFolders = text.endsWith('/') || text.endsWith('/**')
  const body = text.replace(/\/+$/, '').replace(/(?:\/\*\*)+$/, '')
  const segments = body.normalize('NFC').split('/')
  if (segments.some((segment) => segment === '' || segment === '.' || segment === '..'))
    throw invalid(`"${text}"`, 'a part of it is empty, "." or ".."')
  if (segments.some((segment) => segment.includes('**') && segment !== '**'))
    throw invalid(`"${text}"`, '"**" stands alone between slashes')
  if (segments.every((segment) => segment === '**')) {
    throw invalid(`"${text}"`, 'it hides the whole workspace: say filesystem.workspace: none')
  }
  // Whoever writes ".env" means each of them.
  const isAnywhere = segments.length === 1 && !text.slice(0, -1).includes('/')
  return { text, segments: isAnywhere ? ['**', ...segments] : segments, isForFolders }
}

function invalid(what: string, why: string): SallyportError {
  return new SallyportError('config_invalid', `filesystem.hide: ${what}: ${why}`, { hint: 'such as ".env", "secrets/**", "**/*.pem"' })
}

/** Names are compared as Unicode has them composed: macOS may give them in pieces. */
function fold(name: string, isCaseBlind: boolean): string {
  const composed = name.normalize('NFC')
  return isCaseBlind ? composed.toLowerCase() : composed
}

/** Row by row, so that no pattern takes more than its length times the path's. */
function matchesPath(segments: readonly string[], names: readonly string[]): boolean {
  // reached[i]: the first i names are taken by the segments so far.
  let reached = [true, ...names.map(() => false)]
  for (const segment of segments) {
    const next = [segment === '**' && reached[0] === true]
    for (const [index, name] of names.entries()) {
      next.push(
        segment === '**' ? reached[index + 1] === true || next[index] === true : reached[index] === true && matchesName(segment, name),
      )
    }
    reached = next
  }
  return reached[names.length] === true
}

/** `*` and `?` in one name. Greedy with one way back, which is enough for stars and linear in practice. */
function matchesName(pattern: string, name: string): boolean {
  const [wanted, given] = [Array.from(pattern), Array.from(name)]
  let [at, back, resume] = [0, -1, 0]
  let index = 0
  while (index < given.length) {
    if (at < wanted.length && wanted[at] === '*') {
      back = at++
      resume = index
    } else if (at < wanted.length && (wanted[at] === '?' || wanted[at] === given[index])) {
      at++
      index++
    } else if (back !== -1) {
      at = back + 1
      index = ++resume
    } else return false
  }
  while (wanted[at] === '*') at++
  return at === wanted.length
}
