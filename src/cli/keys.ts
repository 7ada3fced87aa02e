import { StringDecoder } from 'node:string_decoder'

/** A key by name, or the character that it types. */
export type Key = string

const SEQUENCES: Readonly<Record<string, Key>> = {
  '[A': 'up',
  OA: 'up',
  '[B': 'down',
  OB: 'down',
  '[5~': 'pageup',
  '[6~': 'pagedown',
  '[H': 'home',
  OH: 'home',
  '[1~': 'home',
  '[F': 'end',
  OF: 'end',
  '[4~': 'end',
}
const CONTROLS: Readonly<Record<string, Key>> = {
  '\r': 'enter',
  '\n': 'enter',
  '\t': 'tab',
  '\x7f': 'backspace',
  '\b': 'backspace',
  '\x03': 'ctrl-c',
  '\x02': 'pageup',
  '\x06': 'pagedown',
}
/** What follows ESC: a control sequence (ECMA-48 §5.4), a function key of VT220 (SS3), or a key that Alt was held with. */
// oxlint-disable-next-line no-control-regex
const ESCAPED = /^(?:\[[0-?]*[ -/]*[@-~]|O[ -~]|[^\x1b])/s
const PASTE = { begin: '\x1b[200~', end: '\x1b[201~' } as const

/** The keys of a terminal in raw mode that marks pastes. What is pasted is no key: it is left out, and so is what no key of ours sends. */
export class Keys {
  readonly #decoder = new StringDecoder('utf8')
  #isPasting = false
  /** The end of a chunk that may be the beginning of the mark that ends a paste. */
  #tail = ''

  push(chunk: Buffer): Key[] {
    let text = this.#decoder.write(chunk)
    const keys: Key[] = []
    while (text !== '') {
      if (this.#isPasting) {
        text = this.#afterPaste(text)
        continue
      }
      if (text.startsWith(PASTE.begin)) {
        this.#isPasting = true
        text = text.slice(PASTE.begin.length)
        continue
      }
      const { key, length } = first(text)
      if (key !== undefined) keys.push(key)
      text = text.slice(length)
    }
    return keys
  }

  #afterPaste(text: string): string {
    const all = this.#tail + text
    const end = all.indexOf(PASTE.end)
    this.#isPasting = end < 0
    this.#tail = end < 0 ? all.slice(1 - PASTE.end.length) : ''
    return end < 0 ? '' : all.slice(end + PASTE.end.length)
  }
}

function first(text: string): { readonly key: Key | undefined; readonly length: number } {
  const [char = ''] = text
  if (char === '\x1b') {
    const [sequence = ''] = ESCAPED.exec(text.slice(1)) ?? []
    return { key: sequence === '' ? 'escape' : SEQUENCES[sequence], length: 1 + sequence.length }
  }
  if (CONTROLS[char] !== undefined) return { key: CONTROLS[char], length: 1 }
  return { key: /^\P{C}$/u.test(char) ? char : undefined, length: char.length }
}
