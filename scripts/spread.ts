/** Minimum, median, maximum, with as many digits behind the point. */
export function spread(values: readonly number[], digits = 0): string {
  const sorted = values.toSorted((a, b) => a - b)
  return [sorted[0], sorted[Math.floor(sorted.length / 2)], sorted.at(-1)].map((value) => (value ?? Number.NaN).toFixed(digits)).join(' / ')
}
