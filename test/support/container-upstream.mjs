// An HTTPS service in a container: it tells of each request the path and the SHA-256 of its Authorization, never the value.
//   /echo   says the value back, as a careless service does
//   /ticks  an answer that goes on until somebody ends it
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createSecureContext } from 'node:tls'

const leafOf = (host) =>
  createSecureContext({ key: readFileSync(`/certificates/${host}.key`), cert: readFileSync(`/certificates/${host}.crt`) })

createServer({ SNICallback: (host, done) => done(null, leafOf(host)) }, (request, response) => {
  const { authorization = '' } = request.headers
  const seen = createHash('sha256').update(authorization).digest('hex')
  process.stdout.write(`${JSON.stringify({ host: request.headers.host, path: request.url, seen })}\n`)
  response.writeHead(200, { 'content-type': 'application/json' })
  if (request.url === '/echo') return response.end(JSON.stringify({ said: authorization }))
  if (request.url !== '/ticks') return response.end(JSON.stringify({ seen }))
  const ticking = setInterval(() => response.write('"tick"\n'), 50)
  response.on('close', () => clearInterval(ticking))
}).listen(443, () => process.stdout.write(`${JSON.stringify({ event: 'ready' })}\n`))
