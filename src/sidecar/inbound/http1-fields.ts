import { validateHeaderName, validateHeaderValue } from 'node:http'
import type { RawHeaders } from '../egress/headers.ts'

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** RFC 9110 §5.5: what a field may hold, as latin1 text. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** One line of a head. @throws ERR_INVALID_HTTP_TOKEN, ERR_INVALID_CHAR for what would be more, or less, than that line */
export function fieldLine(name: string, value: string): string {
  // Node's own say best what is wrong, and cost more.
  if (!TOKEN.test(name)) validateHeaderName(name)
  if (!VALUE.test(value)) validateHeaderValue(name, value)
  return `${name}: ${value}\r\n`
}

/** The same of many. */
export function fieldLines(fields: RawHeaders): string {
  let lines = ''
  for (let i = 0; i < fields.length; i += 2) lines += fieldLine(fields[i] ?? '', fields[i + 1] ?? '')
  return lines
}

/** What the fields of a request's head say of how it is read and answered. */
export type RequestTraits = {
  /** It has a body, though maybe an empty one: it is one in chunks, or of a length above 0. */
  readonly hasBody: boolean
  /** It asks to become a WebSocket, and nothing else (RFC 6455 §4.1). */
  readonly isWebSocket: boolean
  /** It waits for 100 before it sends its body (RFC 9110 §10.1.1). */
  readonly expectsContinue: boolean
}

export function traitsOf(fields: RawHeaders): RequestTraits {
  let hasBody = false
  let upgrades: string | undefined
  let expectsContinue = false
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? ''
    switch (name.length) {
      case 6:
        if (name.toLowerCase() === 'expect') expectsContinue ||= /100-continue/i.test(fields[i + 1] ?? '')
        break
      case 7:
        // Two fields are no one's.
        if (name.toLowerCase() === 'upgrade') upgrades = upgrades === undefined ? (fields[i + 1] ?? '') : ''
        break
      case 14:
        hasBody ||= name.toLowerCase() === 'content-length' && Number(fields[i + 1]) > 0
        break
      case 17:
        hasBody ||= name.toLowerCase() === 'transfer-encoding'
        break
    }
  }
  return { hasBody, isWebSocket: upgrades?.toLowerCase() === 'websocket', expectsContinue }
}

/** Fields of an answer's head by which it is framed and dated. */
export function isLengthField(name: string): boolean {
  return name.length === 14 && name.toLowerCase() === 'content-length'
}

export function isDateField(name: string): boolean {
  return name.length === 4 && name.toLowerCase() === 'date'
}
