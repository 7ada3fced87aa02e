import { StringDecoder } from 'node:string_decoder'

/** One event of a stream, as far as messages are in it. */
export type StreamEvent = { readonly data: string; readonly id: string | undefined }

/**
 * The events of a body of server-sent events (WHATWG HTML §9.2.6) that have data, in order.
 * @throws Error for an event of more than `charsMax` characters
 */
export async function* readEvents(body: AsyncIterable<Buffer>, charsMax: number): AsyncGenerator<StreamEvent, void> {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  let data: string[] = []
  let length = 0
  let id: string | undefined
  for await (const chunk of body) {
    rest += decoder.write(chunk)
    // A CR at the end may be half of a line end.
    const isHalf = rest.endsWith('\r')
    const lines = (isHalf ? rest.slice(0, -1) : rest).split(/\r\n|\n|\r/)
    rest = `${lines.pop() ?? ''}${isHalf ? '\r' : ''}`
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield { data: data.join('\n'), id }
        data = []
        length = 0
        continue
      }
      const [, field = '', value = ''] = /^([^:]*)(?:: ?([^]*))?$/.exec(line) ?? []
      length += value.length
      if (length > charsMax) throw new Error('an event is too long')
      if (field === 'data') data.push(value)
      else if (field === 'id' && !value.includes('\0')) id = value
    }
    if (rest.length > charsMax) throw new Error('a line is too long')
  }
}
