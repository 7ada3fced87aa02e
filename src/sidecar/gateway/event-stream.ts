import { StringDecoder } from 'node:string_decoder'

/** One event of a stream, as far as messages are in it. */
export type StreamEvent = { readonly data: string; readonly id: string | undefined }

/**
 * The events of a body of server-sent events (WHATWG HTML §9.2.6) that have data, in order.
 * @throws Error for an event of more than `charsMax` characters
 */
export async function* readEvents(body: AsyncIterable<Buffer>, charsMax: number): AsyncGenerator<StreamEvent, void> {
  const decoder = new StringDecoder('utf8')
  let begun = ''
  let isAfterReturn = false
  let data: string[] = []
  let length = 0
  let id: string | undefined
  for await (const chunk of body) {
    const read = decoder.write(chunk)
    if (read === '') continue
    // CR and LF may come apart: together they end one line.
    const lines = (isAfterReturn && read.startsWith('\n') ? read.slice(1) : read).split(/\r\n|\n|\r/)
    isAfterReturn = read.endsWith('\r')
    const rest = lines.pop() ?? ''
    for (const end of lines) {
      const line = `${begun}${end}`
      begun = ''
      if (line === '') {
        if (data.length > 0) yield { data: data.join('\n'), id }
        data = []
        length = 0
        continue
      }
      // Each line costs something, also one with nothing in it.
      length += line.length + 1
      if (length > charsMax) throw new Error('an event is too long')
      const [, field = '', value = ''] = /^([^:]*)(?:: ?([^]*))?$/.exec(line) ?? []
      if (field === 'data') data.push(value)
      else if (field === 'id' && !value.includes('\0')) id = value
    }
    begun += rest
    if (length + begun.length > charsMax) throw new Error('a line is too long')
  }
}
