const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }
const SHORT: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' }

/** Texts here are bytes (latin1). */
const utf8 = (text: string): string => Buffer.from(text).toString('latin1')
const byte = (hex: string): string => String.fromCharCode(Number.parseInt(hex, 16))

const percent = (text: string): string => text.replaceAll(/%([0-9a-f]{2})/gi, (_all, hex: string) => byte(hex))
const plus = (text: string): string => text.replaceAll('+', ' ')
const backslash = (text: string): string =>
  text.replaceAll(/((?:\\u[0-9a-f]{4})+)|\\x([0-9a-f]{2})|\\([^])/gi, (_all, units?: string, hex?: string, other?: string) => {
    if (units !== undefined) return utf8(units.replaceAll(/\\u(.{4})/gi, (_unit, digits: string) => byte(digits)))
    return hex === undefined ? (SHORT[other ?? ''] ?? other ?? '') : byte(hex)
  })
const html = (text: string): string =>
  text.replaceAll(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (all: string, hex?: string, decimal?: string, name?: string) => {
    if (name !== undefined) return NAMED[name] ?? all
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)
    return code > 0x10_ff_ff ? all : utf8(String.fromCodePoint(code))
  })
const hex = (text: string): string =>
  (text.match(/[0-9a-f]{2,}/gi) ?? [])
    .flatMap((run) => [run, run.slice(1)].map((digits) => Buffer.from(digits, 'hex').toString('latin1')))
    .join('\n')
const base64 = (text: string): string =>
  (text.replaceAll(/\r?\n/g, '').match(/[A-Za-z0-9+/_-]+/g) ?? [])
    .flatMap((run) => [0, 1, 2, 3].map((skipped) => Buffer.from(run.slice(skipped), 'base64').toString('latin1')))
    .join('\n')

const WAYS: readonly (readonly ((text: string) => string)[])[] = [
  [],
  [percent],
  [plus, percent],
  [percent, percent],
  [backslash],
  [backslash, backslash],
  [html],
  [hex],
  [base64],
  [percent, base64],
  [backslash, base64],
  [backslash, backslash, base64],
]

/** Whether a decoder finds the value in the bytes. Written apart from what hides it there. */
export function isReadable(bytes: Buffer, value: string): boolean {
  return WAYS.some((decoders) => decoders.reduce((text, decode) => decode(text), bytes.toString('latin1')).includes(utf8(value)))
}
