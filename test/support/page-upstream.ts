import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { createSecureServer } from 'node:http2'
import type { IncomingMessage } from 'node:http'
import { WebSocketServer } from 'ws'
import { recordStream, type Http2Upstream, type RecordedStream, type StreamRequest, type StreamResponse } from './http2-upstream.ts'
import { listenAsUpstream, type Place } from './upstream.ts'

/** What each `<output>` of the page reads when everything came: its id and its text. */
export type PageOutputs = Readonly<Record<string, string>>

export const PAGE_OUTPUTS: PageOutputs = {
  style: 'rgb(1, 2, 3)',
  script: 'ran',
  image: '3 x 2',
  fetch: 'POST 70000',
  second: 'from the second host',
  events: 'one,two,three',
  socket: 'chat.v1 echo',
  denied: 'TypeError',
}

/** SVG, 3 by 2. */
const IMAGE = '<svg xmlns="http://www.w3.org/2000/svg" width="3" height="2"><rect width="3" height="2"/></svg>'

/**
 * A site on loopback by HTTP/2 and HTTP/1.1. `/` is a page whose script loads a style, an image, an answer to a POST, an answer
 * of the second site, an EventSource and a WebSocket, and asks `denied` too; each writes what came into an `<output>`.
 */
export async function openPageUpstream(
  tls: { cert: string; key: string },
  hosts: { second: string; denied: string },
  place: Place,
): Promise<Http2Upstream> {
  const requests: RecordedStream[] = []
  const answers: Readonly<Record<string, (request: StreamRequest, response: ServerResponse) => void>> = {
    '/': (_request, response) => send(response, 'text/html', page()),
    '/style.css': (_request, response) => send(response, 'text/css', '#style { color: rgb(1, 2, 3) }'),
    '/image.svg': (_request, response) => send(response, 'image/svg+xml', IMAGE),
    '/script.js': (_request, response) => send(response, 'text/javascript', script(hosts.second, hosts.denied)),
    '/second': (_request, response) => {
      response.setHeader('access-control-allow-origin', '*')
      send(response, 'text/plain', 'from the second host')
    },
    '/post': (request, response) => {
      let bytes = 0
      request.on('data', (chunk: Buffer) => void (bytes += chunk.length))
      request.on('end', () => send(response, 'text/plain', `${request.method} ${bytes}`))
    },
    '/events': (_request, response) => {
      response.setHeader('content-type', 'text/event-stream')
      response.write('data: one\n\ndata: two\n\n')
      response.write('data: three\n\n') // and stays open
    },
  }
  const server = createSecureServer({ ...tls, allowHTTP1: true }, (request, response: StreamResponse) => {
    requests.push(recordStream(request))
    const answer = answers[request.url] ?? ((_request, missing: ServerResponse) => void missing.writeHead(404).end())
    answer(request, response as ServerResponse)
  })
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => 'chat.v1' })
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    requests.push(recordStream(request))
    sockets.handleUpgrade(request, socket, head, (client) => client.on('message', (data) => client.send(data, { binary: false })))
  })
  server.on('sessionError', () => {})
  return listenAsUpstream(server, requests, place)
}

function send(response: ServerResponse, type: string, text: string): void {
  response.setHeader('content-type', type)
  response.end(text)
}

function page(): string {
  const outputs = Object.keys(PAGE_OUTPUTS).map((id) => `<output id="${id}"></output>`)
  return `<!doctype html><title>page</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/style.css">
${outputs.join('\n')}
<img src="/image.svg"><script type="module" src="/script.js"></script>`
}

function script(second: string, denied: string): string {
  return `const write = (id, text) => { document.getElementById(id).textContent = text }
const failed = (id) => (error) => write(id, error.name)
write('script', 'ran')
write('style', getComputedStyle(document.getElementById('style')).color)
const image = document.querySelector('img')
image.decode().then(() => write('image', image.naturalWidth + ' x ' + image.naturalHeight), failed('image'))
fetch('/post', { method: 'POST', body: 'x'.repeat(70000) }).then((answer) => answer.text()).then((text) => write('fetch', text), failed('fetch'))
fetch('${second}/second').then((answer) => answer.text()).then((text) => write('second', text), failed('second'))
fetch('${denied}/').then(() => write('denied', 'answered'), failed('denied'))
const heard = []
const events = new EventSource('/events')
events.onmessage = ({ data }) => { heard.push(data); if (heard.length === 3) write('events', heard.join()) }
events.onerror = () => write('events', 'failed')
const socket = new WebSocket('wss://' + location.host + '/socket', ['chat.v1'])
socket.onopen = () => socket.send('echo')
socket.onmessage = ({ data }) => write('socket', socket.protocol + ' ' + data)
socket.onerror = () => write('socket', 'failed')
`
}
