/** The `data:` of each server-sent event of an answer (WHATWG HTML §9.2.6), which `EventSource` cannot read: it sends no header. */
export async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown, void> {
  for await (const line of linesOf(body)) if (line.startsWith('data: ')) yield JSON.parse(line.slice(6)) as unknown
}

/** Each line of an answer in lines of JSON. */
export async function* jsonLinesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown, void> {
  for await (const line of linesOf(body)) if (line !== '') yield JSON.parse(line) as unknown
}

async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader()
  let held = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = `${held}${value}`.split('\n')
      held = lines.pop() ?? ''
      yield* lines
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
