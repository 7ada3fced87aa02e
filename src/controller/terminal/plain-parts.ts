import type { Part } from './filter.ts'

/** SGR and the erasing of the rest of a line, as far as they came, behind ESC: what programs that print in colour put into text. */
const JOINING = /^(?:\[[\d;:]{0,60}[mK]?)?/
const ESC = 0x1b

/**
 * The parts of a stream that no terminal shows: all of it, byte for byte. Only what colours text is told from text, so that a secret is found across it.
 */
export class PlainParts {
  /** A sequence that is not whole. */
  #partial: Buffer = Buffer.alloc(0)

  push(chunk: Uint8Array): Part[] {
    const data = Buffer.concat([this.#partial, chunk])
    this.#partial = Buffer.alloc(0)
    const parts: Part[] = []
    let from = 0
    for (;;) {
      const at = data.indexOf(ESC, from)
      if (at > from || (at < 0 && from < data.length)) parts.push(text(data.subarray(from, at < 0 ? data.length : at)))
      if (at < 0) return parts
      const sequence = `\x1b${JOINING.exec(data.toString('latin1', at + 1, at + 64))?.[0] ?? ''}`
      if (/[mK]$/.test(sequence)) {
        parts.push({ bytes: data.subarray(at, at + sequence.length), isText: false, isJoining: true })
      } else if (at + sequence.length === data.length) {
        this.#partial = data.subarray(at)
        return parts
      } else parts.push(text(data.subarray(at, at + sequence.length)))
      from = at + sequence.length
    }
  }

  end(): Part[] {
    const rest = this.#partial
    this.#partial = Buffer.alloc(0)
    return rest.length === 0 ? [] : [text(rest)]
  }
}

function text(bytes: Buffer): Part {
  return { bytes, isText: true, isJoining: true }
}
