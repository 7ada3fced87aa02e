// Models of several makers behind one HTTPS server in a container. It tells of each request the path, which fields carried a key (as
// SHA-256), which of the gate's tools it offered, how many results it held and what was said to it; never a value.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { createServer } from 'node:https'
import { createSecureContext } from 'node:tls'
import { WebSocketServer } from 'ws'
import { ACCOUNTS } from './accounts.ts'
import { nextReply, ownTools, type Dialect, type Reply } from './conversation.ts'
import { DIALECTS, responseEvents } from './dialects.ts'

const KEY_FIELDS = ['authorization', 'x-api-key', 'x-goog-api-key']

let answered = 0
const nextId = (): string => String((answered += 1)).padStart(12, '0')

function tell(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function keysOf(headers: IncomingHttpHeaders): Record<string, string> {
  const found = KEY_FIELDS.flatMap((field) => (headers[field] === undefined ? [] : [[field, String(headers[field])] as const]))
  return Object.fromEntries(found.map(([field, value]) => [field, createHash('sha256').update(value).digest('hex')]))
}

function answer(dialect: Dialect, body: unknown, seen: object): Reply {
  const turn = dialect.read(body)
  const reply = dialect.looksFirst?.(body) ?? nextReply(turn)
  const tools = [...ownTools(turn.tools).values()]
  tell({ ...seen, tools, results: turn.results.length, says: 'tool' in reply ? reply.tool : 'text' })
  return reply
}

const server = createServer(
  {
    SNICallback(host, done) {
      const read = (kind: string): Buffer => readFileSync(`/certificates/${host}.${kind}`)
      done(null, createSecureContext({ key: read('key'), cert: read('crt') }))
    },
  },
  (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { host, pathname } = new URL(request.url ?? '/', `https://${request.headers.host}`)
      const seen = { host, path: pathname, keys: keysOf(request.headers), way: 'http' }
      const dialect = DIALECTS.find(({ matches }) => matches(pathname))
      if (request.method !== 'POST' || dialect === undefined) {
        tell(seen)
        const known = request.method === 'GET' ? ACCOUNTS[pathname] : undefined
        if (known !== undefined) return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(known))
        response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"type":"not_found_error","message":"no"}}')
        return
      }
      const body = JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown
      const { type, text } = dialect.write(answer(dialect, body, seen), { path: pathname, body, id: nextId() })
      response.writeHead(200, { 'content-type': type }).end(text)
    })
  },
)

type Message = { readonly type?: string; readonly previous_response_id?: string; readonly input?: readonly unknown[] }

/** Over a WebSocket a request holds what is new since an answer that it names. */
new WebSocketServer({ server }).on('connection', (socket, request) => {
  const said = new Map<string, readonly unknown[]>()
  const { host, pathname } = new URL(request.url ?? '/', `https://${request.headers.host}`)
  const dialect = DIALECTS.find(({ matches }) => matches(pathname))
  socket.on('message', (data: Buffer) => {
    const message = JSON.parse(data.toString('utf8')) as Message
    if (dialect === undefined || message.type !== 'response.create') return socket.close()
    const body = { ...message, input: [...(said.get(message.previous_response_id ?? '') ?? []), ...(message.input ?? [])] }
    const id = nextId()
    const reply = answer(dialect, body, { host, path: pathname, keys: keysOf(request.headers), way: 'websocket' })
    const events = responseEvents(reply, body, id)
    said.set(`resp_${id}`, [...body.input, events[2]?.['item']])
    for (const event of events) socket.send(JSON.stringify(event))
  })
})

server.listen(443, () => tell({ event: 'ready' }))
