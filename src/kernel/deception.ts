/** What letters of a text can do to whoever reads it, though each of them is seen. */
export type Deception = 'mixed_scripts' | 'look_alike' | 'right_to_left' | 'combining' | 'not_ascii'

/** Scripts whose letters are taken for those of others (Unicode TR 39). Those of East Asia are written together, and with Latin. */
const SCRIPTS: readonly (readonly [string, RegExp])[] = [
  ['Latin', /\p{Script=Latin}/u],
  ['Greek', /\p{Script=Greek}/u],
  ['Cyrillic', /\p{Script=Cyrillic}/u],
  ['Armenian', /\p{Script=Armenian}/u],
  ['Georgian', /\p{Script=Georgian}/u],
  ['Coptic', /\p{Script=Coptic}/u],
  ['Cherokee', /\p{Script=Cherokee}/u],
  ['Lisu', /\p{Script=Lisu}/u],
  ['East Asian', /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}]/u],
  ['another', /\p{L}/u],
]
const TOGETHER: ReadonlySet<string> = new Set(['Latin', 'East Asian'])

/** Letters that are drawn as ones of ASCII are: of Cyrillic, Greek, Armenian, the phonetic alphabet, Cherokee and Lisu. */
const TWINS =
  /^[асеорхуіјѕԁԛԝһӏѵɡɑıɩʟɪꜱᴏᴄᴠᴡᴢƽАВСЕНІЈКМОРЅТХУҮҒԌԚԜαορνικτυχγΑΒΕΖΗΙΚΜΝΟΡΤΥΧօոսհցքԼՕՍ\p{Script=Cherokee}\p{Script=Lisu}\p{N}_]+$/u
/** Signs that are drawn as "-", "/", "\", ":", ".", ",", ";", "'" and "`" are, or nearly. */
const SIGNS =
  /(?![ -~])[\p{Pd}\u2212\u2215\u2044\u29F8\u2216\u29F5\u2236\uA789\u02D0\u0589\u05C3\u2024\u00B7\u201A\u037E\u2018\u2019\u201B\u02B9-\u02BC\u02CB\u2032\u2035ー一丶ノ〇]/u
/** What the compatibility forms of Unicode make ASCII: full width, bold, circled. */
const WORDS = /[\p{L}\p{M}\p{N}_]+/gu
const COMPATIBLE = /\P{ASCII}+/gu

export const RIGHT_TO_LEFT = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFF\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/gu

/**
 * What there is to say of a text. `isExact`: every character of it counts, so that signs and letters outside of ASCII are told as well; in
 * prose they are nothing special.
 */
export function deceptionsOf(text: string, isExact: boolean): Deception[] {
  if (isAscii(text)) return []
  const found = new Set<Deception>()
  for (const [word] of text.matchAll(WORDS)) {
    if (isAscii(word)) continue
    const scripts = scriptsOf(word)
    if (scripts.size > 1 && [...scripts].some((script) => !TOGETHER.has(script))) found.add('mixed_scripts')
    if (TWINS.test(word) || hasTwin(word)) found.add('look_alike')
  }
  for (const [run] of text.matchAll(COMPATIBLE)) if (isCompatible(run)) found.add('look_alike')
  if (isExact && SIGNS.test(text)) found.add('look_alike')
  if (text.search(RIGHT_TO_LEFT) !== -1) found.add('right_to_left')
  if (/\p{M}{3}/u.test(text)) found.add('combining')
  if (isExact) found.add('not_ascii')
  return [...found]
}

function isAscii(text: string): boolean {
  return !/\P{ASCII}/u.test(text)
}

function scriptsOf(word: string): Set<string> {
  const found = new Set<string>()
  for (const letter of word.match(/\p{L}/gu) ?? []) {
    const script = SCRIPTS.find(([, pattern]) => pattern.test(letter))
    if (script) found.add(script[0])
  }
  return found
}

/** A letter of the phonetic alphabet among those of Latin, which it belongs to: no script tells it. */
function hasTwin(word: string): boolean {
  return /[ɡɑıɩʟɪꜱᴏᴄᴠᴡᴢƽ]/u.test(word) && /[A-Za-z]/.test(word)
}

function isCompatible(run: string): boolean {
  for (const char of run) {
    const plain = char.normalize('NFKC')
    if (plain !== char && /^[!-~]+$/.test(plain)) return true
  }
  return false
}
