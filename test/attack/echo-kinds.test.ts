/**
 * I24, I25: an upstream that gives back the whole request says nothing of the credential, whatever kind it is; nor does one that
 * remembers the values of before. And a credential that cannot be had sends nothing, by any way.
 */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, before, test } from 'node:test'
import { system } from '../../src/kernel/system.ts'
import { APPROACHES, ask, named, type Approach, type Asked, type Got } from '../support/every-client.ts'
import { openEveryWay, routeTo, type EveryWay } from '../support/every-way.ts'
import { openHttp2Upstream, type Http2Upstream, type StreamRequest } from '../support/http2-upstream.ts'
import { leakIn } from '../support/leaks.ts'

const SECRET = 'k9Zq/Vx+7"w<Tj&m\\4R y=PbN8'
const SECOND = 'Hs3~Lq8Wd0(Xz5)Fc6!Ju1'
const CLIENT_PASSWORD = 'Gv7Rk2Nt9Bp4Qm6Yx3'
const AUTH = 'auth.example.com'
const JSON_TYPE = [['Content-Type', 'application/json']] as const
const FORM_TYPE = [['Content-Type', 'application/x-www-form-urlencoded']] as const
const base64 = (text: string): string => Buffer.from(text).toString('base64')

type Kind = {
  readonly inject: string
  readonly more?: string
  readonly secret?: string
  readonly asked?: (token: string) => Omit<Asked, 'host'>
}

/** Each at a host of its own. */
const KINDS: Readonly<Record<string, Kind>> = {
  header: { inject: 'header: Authorization, prefix: "Bearer "' },
  two: { inject: 'header: DD-API-KEY, also: [{header: DD-APPLICATION-KEY, secret: SECOND}]' },
  basic: { inject: 'basic: {username: bot}' },
  query: { inject: 'query: key' },
  json: { inject: 'body: /auth/key', asked: () => ({ method: 'POST', fields: JSON_TYPE, body: '{"auth": {}}' }) },
  form: { inject: 'body: token', asked: () => ({ method: 'POST', fields: FORM_TYPE, body: 'a=1' }) },
  swapped: { inject: 'placeholder: TOKEN', asked: (token) => ({ fields: [['X-Api-Key', token]] }) },
  swappedbasic: { inject: 'placeholder: TOKEN', asked: (token) => ({ fields: [['Authorization', `Basic ${base64(`me:${token}`)}`]] }) },
  swappedpath: { inject: 'placeholder: TOKEN, in: [path]', asked: (token) => ({ path: `/bot${token}/getMe` }) },
  swappedjson: {
    inject: 'placeholder: TOKEN, in: ["body:/token"]',
    asked: (token) => ({ method: 'POST', fields: JSON_TYPE, body: JSON.stringify({ token }) }),
  },
  minted: {
    inject: 'header: Authorization, prefix: "Bearer "',
    secret: 'CLIENT',
    more: `    oauth2: {grant: client_credentials, token_url: "https://${AUTH}/token", client_id: us, addresses: ["127.0.0.0/8"]}\n`,
  },
}
const NAMES = Object.keys(KINDS)
const hostOf = (name: string): string => `${name}.example.com`
const LOOPBACK = 'addresses: ["127.0.0.0/8"]'
const POLICY = `version: 1
network:
  rules:
${NAMES.map((name) => `    - {id: ${name}, host: ${hostOf(name)}, action: allow, ${LOOPBACK}}\n`).join('')}routes:
${NAMES.map((name) => `  - {name: ${routeTo('https', hostOf(name))}, upstream: "https://${hostOf(name)}", credential: ${name}, ${LOOPBACK}}\n`).join('')}credentials:
${Object.entries(KINDS)
  .map(
    ([name, { inject, more = '', secret = 'API_TOKEN' }]) =>
      `  - id: ${name}\n    secret: ${secret}\n    inject: {domains: [${hostOf(name)}], ${inject}}\n${more}`,
  )
  .join('')}secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
  - {name: SECOND, source: "env:SECOND"}
  - {name: CLIENT, source: "env:CLIENT"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
let auth: Http2Upstream
const upstreams = new Map<string, Http2Upstream>()
/** Access tokens that were given, each of a life so short that it is good for one request. */
const minted: string[] = []
/** How the token server answers instead. */
let fault: ((response: ServerResponse) => void) | undefined
/** How late it is for the gate: each token is good for a second. */
let lateMs = 0
const env = { API_TOKEN: SECRET, SECOND, CLIENT: CLIENT_PASSWORD }

before(async () => {
  const later = { ...system, now: () => Date.now() + lateMs }
  setting = parts.use(await openEveryWay(POLICY, [...NAMES.map(hostOf), AUTH], { env, system: later }))
  for (const name of NAMES) {
    const host = hostOf(name)
    upstreams.set(name, parts.use(await openHttp2Upstream(setting.tls(host), { answer: giveBack, place: setting.at(host, 443) })))
  }
  auth = parts.use(await openHttp2Upstream(setting.tls(AUTH), { answer: mint, place: setting.at(AUTH, 443) }))
})
after(() => parts.disposeAsync())

/** The whole request, as debugging services have it: raw and in JSON, in the head and in trailers too. */
function giveBack(request: StreamRequest, response: ServerResponse): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString()
    const line = `${request.method} ${request.url}`
    response.writeHead(200, {
      'x-line': line,
      'x-fields': request.rawHeaders.filter((text) => !text.startsWith(':')).join(', '),
      'content-type': 'text/plain',
    })
    response.write(`${line}\n${request.rawHeaders.join('\n')}\n\n${body}\n`)
    if (request.url === '/former') response.write(`${minted.slice(-3).join(' ')}\n`)
    response.write(JSON.stringify({ url: request.url, headers: request.headers, body }))
    response.addTrailers({ 'x-url': request.url ?? '' })
    response.end()
  })
}

function mint(request: StreamRequest, response: ServerResponse): void {
  request.resume()
  request.on('end', () => {
    if (fault) return fault(response)
    minted.push(`At${minted.length}q8Zk3Vw7LmZe5Vb8`)
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ access_token: minted.at(-1), token_type: 'Bearer', expires_in: 1 }))
  })
}

/** After the tokens of before, and what was said of them, are over. */
function askAnew(approach: Approach, name: string, more: Omit<Asked, 'host'> = askedOf(name)): Promise<Got> {
  lateMs += 3_000
  return ask(setting, approach, { host: hostOf(name), ...more })
}

const requestsOf = (name: string): Http2Upstream['requests'] => upstreams.get(name)?.requests ?? []
const arrived = (name: string): string => {
  const request = requestsOf(name).at(-1)
  return [request?.url, ...(request?.rawHeaders ?? []), request?.body.toString()].join('\n')
}
const askedOf = (name: string): Omit<Asked, 'host'> => KINDS[name]?.asked?.(setting.gate.sidecar.placeholders['TOKEN'] ?? '') ?? {}

for (const name of NAMES) {
  test(`I24 ${name}: an upstream that gives back the whole request gives nothing of the secret, by every way`, async () => {
    for (const approach of APPROACHES) {
      const got = await askAnew(approach, name)
      assert.deepEqual([got.status, got.isWhole], [200, true], `${named(approach)} ${got.bytes.toString()}`)
      const secrets = name === 'minted' ? minted : name === 'two' ? [SECRET, SECOND] : [SECRET]
      assert.ok(
        secrets.some((secret) => leakIn(arrived(name), secret) !== undefined),
        'it went out',
      )
      for (const secret of [...secrets, CLIENT_PASSWORD]) {
        assert.equal(leakIn(got.bytes, secret), undefined, named(approach))
        assert.equal(leakIn(got.body, secret), undefined, named(approach))
        assert.equal(leakIn([...got.headers, ...got.trailers].join('\n'), secret), undefined, named(approach))
      }
    }
  })
}

test('I1 what is exchanged for tokens goes to the token server alone', () => {
  assert.ok(auth.requests.length > 0)
  for (const name of NAMES)
    for (const request of requestsOf(name))
      assert.equal(leakIn([request.url, ...request.rawHeaders].join('\n'), CLIENT_PASSWORD), undefined)
})

test('I24 an upstream that remembers the tokens of before gives none of them back', async () => {
  const said = upstreams.get('minted')
  assert.ok(said && minted.length > 1)
  const got = await askAnew({ way: 'CONNECT', version: 'HTTP/2' }, 'minted', { path: '/former' })
  assert.match(got.body.toString(), /^\*+ \*+ \*+$/m)
  for (const token of minted.slice(-3)) assert.equal(leakIn(got.bytes, token), undefined)
})

for (const { why, answer } of [
  {
    why: 'refuses',
    answer: (response) =>
      void response.writeHead(400).end(`{"error": "invalid_client", "error_description": "${CLIENT_PASSWORD} is wrong"}`),
  },
  { why: 'has a fault', answer: (response) => void response.writeHead(500).end(`panic: password ${CLIENT_PASSWORD}`) },
  { why: 'gives no token', answer: (response) => void response.end('{"token_type": "Bearer"}') },
  {
    why: 'gives one with a line end',
    answer: (response) => void response.end(JSON.stringify({ access_token: 'token\r\nX-Evil: 1', token_type: 'Bearer' })),
  },
  { why: 'breaks off', answer: (response) => void response.destroy() },
] as readonly { why: string; answer: (response: ServerResponse) => void }[]) {
  test(`I25 a token server that ${why}: nothing is sent, by any way, and what it said stays with the gate`, async () => {
    fault = answer
    const count = requestsOf('minted').length
    for (const approach of APPROACHES) {
      const { status, code, bytes } = await askAnew(approach, 'minted', { method: 'POST', body: 'data' })
      assert.deepEqual([status, code], [502, 'token_exchange_failed'], named(approach))
      for (const secret of [CLIENT_PASSWORD, ...minted]) assert.equal(leakIn(bytes, secret), undefined)
      assert.doesNotMatch(bytes.toString(), /panic|is wrong|X-Evil/)
    }
    assert.equal(requestsOf('minted').length, count)
    fault = undefined
    assert.equal((await askAnew({ way: 'CONNECT', version: 'HTTP/1.1' }, 'minted')).status, 200)
  })
}

test('I1 audit and log have none of it', async () => {
  const written = (await setting.gate.auditText()) + setting.gate.log()
  for (const secret of [SECRET, SECOND, CLIENT_PASSWORD, ...minted])
    assert.ok(!written.includes(secret) && !written.includes(JSON.stringify(secret).slice(1, -1)))
})
