import type { Content } from './body.ts'
import { CONNECT_FLAGS, GRPC_FLAGS, Messages } from './messages.ts'
import { ScrubbedBytes, type ScrubPlan } from './plan.ts'

/** How a body of this type is looked into. @param type Content-Type without parameters, in lower case */
export function openContent(plan: ScrubPlan, type: string): Content {
  const bytes = new ScrubbedBytes(plan)
  if (type === 'text/event-stream') return new EventStream(bytes)
  // Its base64 is text like any other.
  if (type.startsWith('application/grpc-web-text')) return new Text(bytes)
  if (/^application\/grpc(?:-web)?(?:\+|$)/.test(type)) return new Messages(bytes, GRPC_FLAGS)
  if (type.startsWith('application/connect+')) return new Messages(bytes, CONNECT_FLAGS)
  return new Text(bytes)
}

class Text implements Content {
  readonly #bytes: ScrubbedBytes

  constructor(bytes: ScrubbedBytes) {
    this.#bytes = bytes
  }

  push(chunk: Buffer): Buffer {
    return this.#bytes.push(chunk)
  }

  end(): Buffer {
    return this.#bytes.flush()
  }
}

/** Two ends of a line (LF, CR or CRLF) take so many bytes at most. */
const BLANK_LINE_BYTES = 4

/** Server-sent events: nothing of an event is held back once the blank line behind it is there. */
class EventStream implements Content {
  readonly #bytes: ScrubbedBytes
  #last = ''

  constructor(bytes: ScrubbedBytes) {
    this.#bytes = bytes
  }

  push(chunk: Buffer): Buffer {
    const released = this.#bytes.push(chunk)
    this.#last = (this.#last + chunk.subarray(-BLANK_LINE_BYTES).toString('latin1')).slice(-BLANK_LINE_BYTES)
    if (!this.#last.replaceAll('\r\n', '\n').replaceAll('\r', '\n').endsWith('\n\n')) return released
    const rest = this.#bytes.flush()
    return rest.length === 0 ? released : Buffer.concat([released, rest])
  }

  end(): Buffer {
    return this.#bytes.flush()
  }
}
