import { matchesPath, type PathPattern, type PathSegments } from './paths.ts'

/**
 * Items by path pattern, kept in a tree of the literal segments that patterns begin with: a look-up tries only items
 * whose literal beginning is the path's own.
 */
export type PathIndex<T> = {
  /** Items are added best first. `undefined` stands for any path. */
  add(pattern: PathPattern | undefined, item: T): void
  /** The best item whose pattern matches and that is accepted. Without segments only items for any path are looked at. */
  find(path: PathSegments | undefined, accept: (item: T) => boolean): { readonly item: T; readonly order: number } | undefined
}

type Entry<T> = { readonly item: T; readonly order: number; readonly pattern: PathPattern | undefined }
type Branch<T> = { readonly entries: Entry<T>[]; readonly below: Map<string, Branch<T>> }

export function createPathIndex<T>(): PathIndex<T> {
  const root: Branch<T> = { entries: [], below: new Map() }
  let count = 0
  return {
    add(pattern, item) {
      let branch = root
      for (const segment of pattern?.segments ?? []) {
        if (segment.kind !== 'literal') break
        const next = branch.below.get(segment.text) ?? { entries: [], below: new Map() }
        branch.below.set(segment.text, next)
        branch = next
      }
      branch.entries.push({ item, pattern, order: count++ })
    },
    find(path, accept) {
      let best: Entry<T> | undefined
      let branch: Branch<T> | undefined = root
      for (let depth = 0; branch !== undefined; depth++) {
        for (const entry of branch.entries) {
          if (best !== undefined && entry.order > best.order) break
          if (!accept(entry.item)) continue
          if (entry.pattern !== undefined && (path === undefined || !matchesPath(entry.pattern, path))) continue
          best = entry
          break
        }
        const segment: string | undefined = path?.[depth]
        branch = segment === undefined ? undefined : branch.below.get(segment)
      }
      return best
    },
  }
}
