const UNITS: Readonly<Record<string, number>> = {
  KB: 1_000,
  MB: 1_000 ** 2,
  GB: 1_000 ** 3,
  KiB: 1_024,
  MiB: 1_024 ** 2,
  GiB: 1_024 ** 3,
}

/** Reads an amount of data with its unit, as "100MB", into bytes. A string is why it is refused, with the right spelling. */
export function parseSize(text: string): number | string {
  const [, digits = '', unit = ''] = /^([1-9][0-9]{0,9})([A-Za-z]+)$/.exec(text) ?? []
  const factor = Object.hasOwn(UNITS, unit) ? UNITS[unit] : undefined
  if (factor !== undefined) {
    const bytes = Number(digits) * factor
    return Number.isSafeInteger(bytes) ? bytes : `"${text}" is more than can be counted`
  }
  const right = meantSize(text)
  return `"${text}" is not an amount of data: write bytes as a number, or one of ${Object.keys(UNITS).join(', ')} behind it${right === undefined ? '' : `, as "${right}"`}`
}

function meantSize(text: string): string | undefined {
  const [, digits = '', word = ''] = /^\s*([1-9][0-9]{0,9})\s*([A-Za-z]*)\s*$/.exec(text) ?? []
  if (digits === '') return undefined
  const units: Readonly<Record<string, string>> = { k: 'KB', m: 'MB', g: 'GB', kib: 'KiB', mib: 'MiB', gib: 'GiB' }
  const lower = word.toLowerCase()
  const unit = Object.hasOwn(units, lower) ? units[lower] : Object.keys(UNITS).find((known) => known.toLowerCase() === lower)
  return unit === undefined ? undefined : `${digits}${unit}`
}
