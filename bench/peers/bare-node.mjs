// node bare-node.mjs PORT forward|intercept      CA_DIR: folder with upstream-ca.pem, and the key and chain of `localhost`
//
// What Node itself costs: its HTTP and TLS servers, undici towards the upstream. No policy, no limits, no log, no leaf certificates: a
// yardstick, not a product.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createSecureServer } from 'node:http2'
import { Pool } from 'undici'

const [port, way] = process.argv.slice(2)
const pem = (name) => readFileSync(`${process.env.CA_DIR}/${name}`)
const ENDS_HERE = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'te', 'trailer', 'upgrade'])
const SETTINGS = { connections: 256, pipelining: 1, keepAliveTimeout: 60_000, connect: { ca: pem('upstream-ca.pem') } }
const pools = new Map()

function poolOf(origin) {
  let pool = pools.get(origin)
  if (pool === undefined) pools.set(origin, (pool = new Pool(origin, SETTINGS)))
  return pool
}

/** [name, value, …] without what is about one hop, and without HTTP/2's own fields. */
function forwarded(raw) {
  const kept = []
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i].toString('latin1').toLowerCase()
    if (name[0] !== ':' && !ENDS_HERE.has(name)) kept.push(name, raw[i + 1].toString('latin1'))
  }
  return kept
}

class Answer {
  constructor(response) {
    this.response = response
  }
  onRequestStart(controller) {
    this.controller = controller
  }
  onResponseStart(controller, status) {
    const fields = forwarded(controller.rawHeaders)
    const headers = {}
    for (let i = 0; i < fields.length; i += 2) headers[fields[i]] = fields[i + 1]
    this.response.writeHead(status, headers)
  }
  onResponseData(controller, chunk) {
    if (this.response.write(chunk)) return
    controller.pause()
    this.response.once('drain', () => controller.resume())
  }
  onResponseEnd() {
    this.response.end()
  }
  onResponseError() {
    this.response.destroy()
  }
}

/** The load has no bodies in its requests. */
function relay(request, response, origin, path, more) {
  const headers = [...forwarded(request.rawHeaders), ...more]
  poolOf(origin).dispatch({ path, method: request.method, headers, body: null }, new Answer(response))
}

const server = createServer({ keepAliveTimeout: 300_000 }, (request, response) => {
  const { origin, pathname } = new URL(request.url)
  relay(request, response, origin, pathname, [])
})
if (way === 'intercept') {
  const options = { key: pem('upstream.key'), cert: pem('upstream-chain.pem'), allowHTTP1: true }
  const inside = createSecureServer(options, (request, response) => {
    const host = request.headers[':authority'] ?? request.headers.host
    const more = request.httpVersionMajor === 2 ? ['host', host, 'x-inject', 'secret-token'] : ['x-inject', 'secret-token']
    relay(request, response, `https://${host}`, request.url, more)
  })
  server.on('connect', (_request, socket) => {
    socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
    inside.emit('connection', socket)
  })
}
server.on('clientError', (_error, socket) => socket.destroy())
process.on('uncaughtException', () => {})
server.listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 })
