/**
 * The same function, which remembers what it gave: for texts that come again and again. When `max` are remembered it begins anew, and a
 * text that is longer than `charsMax` is never remembered, so that nobody fills the memory with texts of his choosing.
 */
export function memo<V, T extends string = string>(max: number, charsMax: number, make: (text: T) => V): (text: T) => V {
  const known = new Map<T, V>()
  return (text) => {
    const found = known.get(text)
    if (found !== undefined) return found
    if (text.length > charsMax) return make(text)
    // A part of a longer text would keep all of that.
    const own = Buffer.from(text).toString() as T
    const made = make(own)
    if (known.size >= max) known.clear()
    known.set(own, made)
    return made
  }
}
