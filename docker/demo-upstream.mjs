// The demo's outside world: a small HTTPS service that knows one token, by its hash.
//   GET /v1/me            200 with "Authorization: Bearer TOKEN", else 401
//   GET /v1/echo          the same, and says the token back: plain, in base64, hex and JSON escapes, gzip'ed where that is taken
//   GET /v2/me            200 with "X-Api-Key: TOKEN", else 401
//   /git/hello.git        git over HTTPS with Basic x-access-token:TOKEN, else 401
import { execFileSync, spawn } from 'node:child_process'
import { createHash, timingSafeEqual } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { gzipSync } from 'node:zlib'

const HOST = 'api.demo.internal'
const PORT = 443
const PUBLIC = '/var/lib/demo/ca'
const PRIVATE = '/var/lib/demo/key'
const REPOSITORIES = '/tmp/git'

const tokenHash = Buffer.from(process.env.DEMO_TOKEN_SHA256 ?? '', 'hex')
if (tokenHash.length !== 32) {
  process.stderr.write('demo-upstream: DEMO_TOKEN_SHA256 must be 64 hex digits\n')
  process.exit(2)
}

makeCertificates()
makeRepository()
const tls = { key: readFileSync(`${PRIVATE}/leaf.key`), cert: readFileSync(`${PRIVATE}/leaf.crt`), ALPNProtocols: ['http/1.1'] }
createServer(tls, answer).listen(PORT, '0.0.0.0')
process.stdout.write(`${JSON.stringify({ event: 'ready', host: HOST })}\n`)
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0))

function answer(request, response) {
  const url = new URL(request.url, `https://${HOST}`)
  const scheme = /^(\S+) /.exec(request.headers.authorization ?? '')?.[1] ?? 'none'
  const key = request.headers['x-api-key']
  const authenticated = url.pathname.startsWith('/v2/')
    ? isToken(key ?? '')
    : isAuthenticated(request.headers.authorization, url.pathname.startsWith('/git/'))
  response.on('finish', () => {
    process.stdout.write(
      `${JSON.stringify({ method: request.method, path: url.pathname, status: response.statusCode, authorization: scheme })}\n`,
    )
  })
  if (!authenticated) return refuse(response, url.pathname.startsWith('/git/') ? 'Basic realm="demo"' : 'Bearer')
  if (url.pathname.startsWith('/git/')) return serveGit(request, response, url)
  if (url.pathname === '/v1/echo' && request.method === 'GET') return echo(request, response)
  if (['/v1/me', '/v2/me'].includes(url.pathname) && request.method === 'GET')
    return send(response, 200, { authenticated: true, account: 'demo', host: HOST })
  send(response, 404, { error: 'not found' })
}

function isAuthenticated(value = '', wantsBasic) {
  if (!wantsBasic) return value.startsWith('Bearer ') && isToken(value.slice(7))
  if (!value.startsWith('Basic ')) return false
  const [user, ...rest] = Buffer.from(value.slice(6), 'base64').toString().split(':')
  return user === 'x-access-token' && isToken(rest.join(':'))
}

function isToken(text) {
  return timingSafeEqual(createHash('sha256').update(text).digest(), tokenHash)
}

function refuse(response, challenge) {
  response.setHeader('WWW-Authenticate', challenge)
  send(response, 401, { authenticated: false })
}

function send(response, status, body) {
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(`${JSON.stringify(body)}\n`)
}

/** An API as careless as some are. */
function echo(request, response) {
  const token = request.headers.authorization.slice('Bearer '.length)
  const bytes = Buffer.from(token)
  const escaped = [...token].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
  const said = `{"plain":"${token}","base64":"${bytes.toString('base64')}","hex":"${bytes.toString('hex')}","json":"${escaped}"}\n`
  const isZipped = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')
  response.writeHead(200, {
    'Content-Type': 'application/json',
    'X-Your-Token': token,
    ...(isZipped && { 'Content-Encoding': 'gzip' }),
  })
  response.end(isZipped ? gzipSync(said) : said)
}

/** Smart HTTP by git's own CGI program (RFC 3875): its head is a list of fields, one of which may be Status. */
function serveGit(request, response, url) {
  const cgi = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: REPOSITORIES,
      GIT_HTTP_EXPORT_ALL: '1',
      REQUEST_METHOD: request.method,
      PATH_INFO: url.pathname.slice('/git'.length),
      QUERY_STRING: url.search.slice(1),
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      CONTENT_LENGTH: request.headers['content-length'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: request.headers['git-protocol'] ?? '',
      REMOTE_USER: 'x-access-token',
      REMOTE_ADDR: '127.0.0.1',
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  cgi.on('error', () => send(response, 500, { error: 'git failed' }))
  cgi.stdin.on('error', () => undefined)
  request.pipe(cgi.stdin)
  let head = Buffer.alloc(0)
  cgi.stdout.on('data', function read(chunk) {
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    cgi.stdout.off('data', read)
    const fields = head
      .subarray(0, end)
      .toString()
      .split('\r\n')
      .map((line) => line.split(/:\s*/))
    const status = Number(fields.find(([name]) => name === 'Status')?.[1]?.slice(0, 3) ?? 200)
    for (const [name, value] of fields) if (name !== 'Status') response.setHeader(name, value ?? '')
    response.writeHead(status)
    response.write(head.subarray(end + 4))
    cgi.stdout.pipe(response)
  })
}

/** A CA and a leaf of our own, kept in volumes: a restarted service has the CA that the sidecar trusts. */
function makeCertificates() {
  if (existsSync(`${PRIVATE}/leaf.crt`) && existsSync(`${PUBLIC}/ca.crt`)) return
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const work = '/tmp/certificates'
  mkdirSync(work, { recursive: true, mode: 0o700 })
  openssl(
    'req',
    '-x509',
    ...key,
    '-days',
    '3650',
    '-subj',
    '/CN=Sallyport demo CA',
    '-keyout',
    `${work}/ca.key`,
    '-out',
    `${work}/ca.crt`,
    '-addext',
    'basicConstraints=critical,CA:TRUE,pathlen:0',
    '-addext',
    'keyUsage=critical,keyCertSign,cRLSign',
  )
  writeFileSync(
    `${work}/leaf.ext`,
    [
      `subjectAltName=DNS:${HOST}`,
      'basicConstraints=CA:FALSE',
      'keyUsage=critical,digitalSignature',
      'extendedKeyUsage=serverAuth',
      'authorityKeyIdentifier=keyid',
      'subjectKeyIdentifier=hash',
      '',
    ].join('\n'),
  )
  openssl('req', ...key, '-subj', `/CN=${HOST}`, '-keyout', `${PRIVATE}/leaf.key`, '-out', `${work}/leaf.csr`)
  openssl(
    'x509',
    '-req',
    '-in',
    `${work}/leaf.csr`,
    '-CA',
    `${work}/ca.crt`,
    '-CAkey',
    `${work}/ca.key`,
    '-CAcreateserial',
    '-days',
    '3650',
    '-extfile',
    `${work}/leaf.ext`,
    '-out',
    `${PRIVATE}/leaf.crt`,
  )
  writeFileSync(`${PUBLIC}/ca.crt.new`, readFileSync(`${work}/ca.crt`))
  chmodSync(`${PUBLIC}/ca.crt.new`, 0o644)
  renameSync(`${PUBLIC}/ca.crt.new`, `${PUBLIC}/ca.crt`)
}

function openssl(...args) {
  execFileSync('openssl', args, { stdio: 'pipe' })
}

function makeRepository() {
  const bare = `${REPOSITORIES}/hello.git`
  if (existsSync(bare)) return
  const env = {
    PATH: process.env.PATH,
    HOME: '/tmp',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_AUTHOR_NAME: 'Demo',
    GIT_AUTHOR_EMAIL: 'demo@demo.internal',
    GIT_COMMITTER_NAME: 'Demo',
    GIT_COMMITTER_EMAIL: 'demo@demo.internal',
  }
  const git = (...args) => execFileSync('git', args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
  git('init', '-q', '--bare', '-b', 'main', bare)
  git('init', '-q', '-b', 'main', '/tmp/seed')
  writeFileSync('/tmp/seed/README.md', '# hello\n\nCloned with a credential that the agent never saw.\n')
  git('-C', '/tmp/seed', 'add', '.')
  git('-C', '/tmp/seed', 'commit', '-q', '-m', 'hello')
  git('-C', '/tmp/seed', 'push', '-q', bare, 'main')
}
