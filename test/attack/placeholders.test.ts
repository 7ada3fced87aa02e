/**
 * I23: a placeholder becomes its secret at its own hosts and in its own places, and anywhere else, in any spelling, the request is
 * refused: by every way in, and nothing that has it in it, or the secret, reaches any upstream.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { clientHello, serverNameExtension } from '../support/client-hello.ts'
import { APPROACHES, ask, named, type Asked, type Fields } from '../support/every-client.ts'
import { dialPort, dialSocks, openEveryWay, routeTo, socksName, type EveryWay } from '../support/every-way.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream, type RecordedStream } from '../support/http2-upstream.ts'
import { leakIn } from '../support/leaks.ts'
import { exchangeOn, exchangeRaw, readToEnd, statusOf } from '../support/raw-client.ts'
import { recordNetwork } from '../support/recorded-network.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'

const SECRET = 'k9Zq/Vx+7"w<Tj&m\\4R y=PbN8'
/** The first two are bound, of either version; the third is of no credential; the others show what withholds one. */
const [OLD, NEW, OTHER, PLAIN] = ['old.example.com', 'new.example.com', 'other.example.com', 'plain.example.com'] as const
const LOOPBACK = 'addresses: ["127.0.0.0/8"]'
const credential = (id: string, paths: string, places: string): string =>
  `  - {id: ${id}, secret: API_TOKEN, inject: {domains: [${OLD}, ${NEW}, ${PLAIN}], paths: ["${paths}"], placeholder: TOKEN, in: [${places}]}}\n`
const POLICY = `version: 1
network:
  rules:
    - {id: below, host: "*.example.com", action: allow, ${LOOPBACK}}
routes:
${[OLD, NEW].map((host) => `  - {name: ${routeTo('https', host)}, upstream: "https://${host}", credential: all, ${LOOPBACK}}\n`).join('')}\
  - {name: ${routeTo('https', OTHER)}, upstream: "https://${OTHER}", ${LOOPBACK}}
credentials:
${credential('all', '/**', 'header, basic')}${credential('listed', '/listed/**', '"query:key", path, "body:/token", "body:token", "header:X-Listed"')}secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
const network = parts.use(recordNetwork())
let setting: EveryWay
let value = ''
let plain: Upstream
const upstreams = new Map<string, Http2Upstream>()

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [OLD, NEW, OTHER, PLAIN], { env: { API_TOKEN: SECRET } }))
  value = setting.gate.sidecar.placeholders['TOKEN'] ?? ''
  assert.match(value, /^[A-Za-z0-9]{40}$/)
  for (const host of [OLD, NEW, OTHER]) {
    const protocols = host === OLD ? (['http/1.1'] as const) : host === NEW ? (['h2'] as const) : (['h2', 'http/1.1'] as const)
    upstreams.set(host, parts.use(await openHttp2Upstream(setting.tls(host), { protocols, place: setting.at(host, 443) })))
  }
  plain = parts.use(await openUpstream(undefined, undefined, setting.at(PLAIN, 80)))
})
after(() => parts.disposeAsync())

const arrivedAt = (host: string): readonly RecordedStream[] => upstreams.get(host)?.requests ?? []
const all = (): readonly { url: string; rawHeaders: readonly string[]; rawTrailers?: readonly string[]; body: Buffer }[] => [
  ...[...upstreams.values()].flatMap(({ requests }) => requests),
  ...plain.requests,
]
const textOf = ({ url, rawHeaders, rawTrailers = [], body }: ReturnType<typeof all>[number]): string =>
  [url, ...rawHeaders, ...rawTrailers, body.toString('latin1')].join('\n')

/** What an agent asks with the placeholder in it. */
type Misuse = {
  readonly why: string
  readonly at?: string
  readonly asked: (value: string) => Omit<Asked, 'host'>
  /** It is in a field that only HTTP/1.1 has, or that a client of HTTP/2 would not send. */
  readonly isOld?: boolean
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const percent = (text: string): string => Array.from(text, (letter) => `%${letter.charCodeAt(0).toString(16)}`).join('')
const json = (text: string): Omit<Asked, 'host'> => ({ method: 'POST', fields: [['Content-Type', 'application/json']], body: text })
const form = (text: string): Omit<Asked, 'host'> => ({
  method: 'POST',
  fields: [['Content-Type', 'application/x-www-form-urlencoded']],
  body: text,
})
const header = (name: string, text: string): Omit<Asked, 'host'> => ({ fields: [[name, text]] })

/** Wherever it stands, at a host that it is not for. */
const ANYWHERE: readonly Misuse[] = [
  { why: 'in Authorization', asked: (token) => header('Authorization', `Bearer ${token}`) },
  { why: 'in Authorization, in lower case', asked: (token) => header('authorization', token) },
  { why: 'in a sibling of it', asked: (token) => header('Private-Token', token) },
  { why: 'in basic authentication as password', asked: (token) => header('Authorization', `Basic ${base64(`me:${token}`)}`) },
  { why: 'in basic authentication as user', asked: (token) => header('Authorization', `Basic ${base64(`${token}:x-oauth-basic`)}`) },
  { why: 'in a cookie', asked: (token) => header('Cookie', `session=${token}`) },
  { why: 'in a field of any name', asked: (token) => header('X-Anything', `a=${token};b`) },
  { why: 'in the name of a field', asked: (token) => header(`X-${token}`, '1') },
  { why: 'in User-Agent', asked: (token) => header('User-Agent', `curl/8 (${token})`) },
  { why: 'in Referer', asked: (token) => header('Referer', `https://${OLD}/?t=${token}`) },
  { why: 'in base64 in a field', asked: (token) => header('X-Data', base64(`xx${token}`)) },
  { why: 'in base64url in a field', asked: (token) => header('X-Data', Buffer.from(`?>x${token}`).toString('base64url')) },
  { why: 'in a text in hexadecimal', asked: (token) => ({ method: 'POST', body: Buffer.from(token).toString('hex') }) },
  { why: 'in base64 twice', asked: (token) => header('Authorization', `Basic ${base64(`me:${base64(token)}`)}`) },
  { why: 'in the query', asked: (token) => ({ path: `/x?key=${token}` }) },
  { why: 'in the name of a query field', asked: (token) => ({ path: `/x?${token}=1` }) },
  { why: 'in the path', asked: (token) => ({ path: `/bot${token}/getMe` }) },
  { why: 'in the query, encoded letter by letter', asked: (token) => ({ path: `/x?key=${percent(token)}` }) },
  {
    why: 'in the query, of which one letter is encoded',
    asked: (token) => ({ path: `/x?key=${percent(token.slice(0, 1))}${token.slice(1)}` }),
  },
  { why: 'in the query, encoded twice', asked: (token) => ({ path: `/x?key=${percent(token).replaceAll('%', '%25')}` }) },
  { why: 'in the query in base64', asked: (token) => ({ path: `/x?key=${base64(token).replaceAll('=', '')}` }) },
  { why: 'in the path, encoded twice', asked: (token) => ({ path: `/x/${percent(token).replaceAll('%', '%25')}` }) },
  { why: 'in capitals in a field', asked: (token) => header('X-Data', token.toUpperCase()) },
  { why: 'in a JSON body', asked: (token) => json(JSON.stringify({ token })) },
  {
    why: 'in a JSON body, escaped',
    asked: (token) => json(`{"a": "${Array.from(token, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`).join('')}"}`),
  },
  { why: 'in a JSON body in base64', asked: (token) => json(JSON.stringify({ data: base64(`x${token}`) })) },
  { why: 'in a form', asked: (token) => form(`token=${token}`) },
  { why: 'in a form, encoded', asked: (token) => form(`token=${percent(token)}`) },
  { why: 'in a text', asked: (token) => ({ method: 'POST', fields: [['Content-Type', 'text/plain']], body: `my token is ${token}` }) },
  {
    why: 'in a part of a body',
    asked: (token) => ({
      method: 'POST',
      fields: [['Content-Type', 'multipart/form-data; boundary=b']],
      body: `--b\r\nContent-Disposition: form-data; name="t"\r\n\r\n${token}\r\n--b--\r\n`,
    }),
  },
  { why: 'in a body without a type', asked: (token) => ({ method: 'PUT', body: token }) },
  {
    why: 'in a body, over the border of two chunks',
    asked: (token) => ({
      method: 'POST',
      fields: [['Transfer-Encoding', 'chunked']],
      body: `4\r\nbody\r\n4\r\n${token.slice(0, 4)}\r\n24\r\n${token.slice(4)}\r\n0\r\n\r\n`,
    }),
    isOld: true,
  },
]

/** In places of its own host that are not listed, or where no credential goes. */
const UNLISTED: readonly Misuse[] = [
  ...ANYWHERE.filter(({ why }) => !/Authorization|sibling|basic authentication/.test(why)),
  { why: 'in base64 twice in Authorization', asked: (token) => header('Authorization', `Basic ${base64(`me:${base64(token)}`)}`) },
  { why: 'in Authorization, encoded', asked: (token) => header('Authorization', percent(token)) },
  {
    why: 'in its field and in another',
    asked: (token) => ({
      fields: [
        ['Authorization', token],
        ['X-Anything', token],
      ],
    }),
  },
  { why: 'in its field and in the query', asked: (token) => ({ path: `/x?k=${token}`, fields: [['Authorization', token]] }) },
  { why: 'in its field and in the body', asked: (token) => ({ method: 'POST', fields: [['Authorization', token]], body: token }) },
  { why: 'on a signed URL', asked: (token) => ({ path: '/x?X-Amz-Signature=a&X-Amz-Credential=b', fields: [['Authorization', token]] }) },
  { why: 'in another place of a path that lists some', asked: (token) => ({ path: `/listed/x?other=${token}` }) },
  {
    why: 'in another member of a body that is listed',
    asked: (token) => ({ ...json(JSON.stringify({ token: 'x', other: token })), path: '/listed/x' }),
  },
  {
    why: 'twice in a body, once where it is listed',
    asked: (token) => ({ ...json(JSON.stringify({ token, other: [token] })), path: '/listed/x' }),
  },
]

/** Refused, and no request that arrived has any of it. What was streamed before it was found is in none whole. */
async function assertMisplaced(asked: Asked, isOld: boolean): Promise<void> {
  for (const approach of APPROACHES) {
    if (isOld && approach.version === 'HTTP/2') continue
    const { status, code, bytes } = await ask(setting, approach, asked)
    assert.match(`${status} ${code}`, /^403 placeholder_misplaced$|^422 body_unfit$/, named(approach))
    assert.equal(leakIn(bytes, SECRET), undefined)
  }
  for (const request of all()) {
    assert.equal(leakIn(textOf(request), value), undefined)
    // The head of a request may be there, with the secret where it belongs, when the rest is found to be amiss.
    const field = asked.fields?.some(([name, text]) => name === 'Authorization' && text === value) ? /\nauthorization\n.*/i : /$^/
    assert.equal(leakIn(textOf(request).replace(field, ''), SECRET), undefined)
  }
}

const clear = (): void => [...upstreams.values(), plain].forEach(({ requests }) => (requests.length = 0))

for (const { why, asked, isOld = false } of ANYWHERE) {
  test(`I23 ${why}, at a host that it is not for: refused by every way, and nothing with it arrives`, async () => {
    clear()
    await assertMisplaced({ host: OTHER, ...asked(value) }, isOld)
  })
}

for (const { why, asked, isOld = false } of UNLISTED) {
  test(`I23 ${why}, at its own host: refused by every way, and neither it nor the secret arrives`, async () => {
    for (const host of [OLD, NEW]) {
      clear()
      await assertMisplaced({ host, ...asked(value) }, isOld)
    }
  })
}

test('I23 over http:// it is refused at its own host too', async () => {
  clear()
  for (const approach of APPROACHES.filter(({ way, version }) => version === 'HTTP/1.1' && way !== 'route')) {
    const { status, code } = await ask(setting, approach, { host: PLAIN, scheme: 'http', fields: [['Authorization', value]] })
    assert.deepEqual([status, code], [403, 'placeholder_misplaced'], named(approach))
  }
  assert.equal(plain.connections, 0)
})

const encoded = encodeURIComponent(SECRET)
for (const { why, asked, arrives } of [
  {
    why: 'in Authorization',
    asked: (token: string) => header('Authorization', `token ${token}`),
    arrives: (): RegExp => /\nauthorization\ntoken k9Zq\/Vx\+7"w<Tj&m\\4R y=PbN8\n/i,
  },
  {
    why: 'in a sibling of it',
    asked: (token: string) => header('PRIVATE-TOKEN', token),
    arrives: (): RegExp => /\nprivate-token\nk9Zq\/Vx\+7"w<Tj&m\\4R y=PbN8\n/i,
  },
  {
    why: 'in basic authentication',
    asked: (token: string) => header('Authorization', `Basic ${base64(`me:${token}`)}`),
    arrives: (): RegExp => new RegExp(`\nBasic ${base64(`me:${SECRET}`)}\n`),
  },
  {
    why: 'in a listed field',
    asked: (token: string) => ({ path: '/listed/x', ...header('x-listed', token) }),
    arrives: (): RegExp => /\nx-listed\nk9Zq\/Vx\+7/i,
  },
  {
    why: 'in a listed query field',
    asked: (token: string) => ({ path: `/listed/x?a=1&key=${token}` }),
    arrives: (): RegExp => new RegExp(`^/listed/x\\?a=1&key=${encoded}\n`),
  },
  {
    why: 'in a listed path',
    asked: (token: string) => ({ path: `/listed/bot${token}/getMe` }),
    arrives: (): RegExp => new RegExp(`^/listed/bot${encoded}/getMe\n`),
  },
  {
    why: 'in a listed member of a body',
    asked: (token: string) => ({ ...json(`{"n": 1, "token": "${token}"}`), path: '/listed/x' }),
    arrives: (): RegExp => /\n\{"n": 1, "token": "k9Zq\/Vx\+7\\"w<Tj&m\\\\4R y=PbN8"\}$/,
  },
  {
    why: 'in a listed field of a form',
    asked: (token: string) => ({ ...form(`a=1&token=${token}`), path: '/listed/x' }),
    arrives: (): RegExp => /\na=1&token=k9Zq%2FVx%2B7%22w%3CTj%26m%5C4R(?:%20|\+)y%3DPbN8$/,
  },
] as const) {
  test(`I23 ${why} at its own host it arrives as the secret, by every way, and nothing of either comes back`, async () => {
    for (const approach of APPROACHES) {
      // Its routes are for one credential, which lists other places.
      if (approach.way === 'route' && why.includes('listed')) continue
      for (const host of [OLD, NEW]) {
        clear()
        const { status, bytes } = await ask(setting, approach, { host, ...asked(value) })
        assert.equal(status, 200, `${named(approach)} ${bytes.toString()}`)
        const [request] = arrivedAt(host)
        assert.ok(request)
        assert.match(textOf(request), arrives(), named(approach))
        assert.ok(!textOf(request).includes(value))
      }
    }
  })
}

/** A placeholder is as long as a label may be. */
const label = (): string => `${value.toLowerCase()}.example.com`
const hello = async (socket: Promise<Awaited<ReturnType<typeof dialPort>>>, name: string): Promise<number> => {
  const opened = await socket
  opened.write(clientHello([serverNameExtension(name)]))
  return Buffer.from(await readToEnd(opened), 'latin1').length
}

test('I23 as a host, or in its name, it is refused wherever hosts are named, though a rule allows any such name; nobody looks it up', async () => {
  const { port, ports } = setting.gate
  const lines = (target: string, host: string): string => `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
  for (const host of [label(), label().toUpperCase(), `x-${label()}`, `${value}.evil.test`]) {
    const said = [
      await exchangeRaw(port, lines(`http://${host}/`, host)),
      await exchangeRaw(port, lines(`https://${host}/`, host)),
      await exchangeRaw(port, `CONNECT ${host}:443 HTTP/1.1\r\nHost: ${host}:443\r\n\r\n`),
      await exchangeRaw(ports.plain, lines('/', host)),
    ]
    for (const answer of said) assert.equal(statusOf(answer), 403, answer)
    if (host.toLowerCase().endsWith('example.com')) for (const answer of said) assert.match(answer, /placeholder_misplaced/)
    await assert.rejects(dialSocks(ports.socks, socksName(host), 443), /SOCKS 2/)
    assert.equal(await hello(dialPort(ports.secure), host), 7, 'an alert')
    await assert.rejects(setting.dialTls('CONNECT', OLD, 443, { servername: host, rejectUnauthorized: false }))
  }
  assert.deepEqual([network.asked, network.dialled], [[], []])
})

test('I23 in the user of a URL or of a CONNECT, and in what a proxy is told, it goes no further', async () => {
  clear()
  const { port } = setting.gate
  for (const [request, status] of [
    [`GET https://${value}@${OLD}/ HTTP/1.1\r\nHost: ${OLD}\r\n`, 400],
    [`GET https://me:${value}@${OLD}/ HTTP/1.1\r\nHost: ${OLD}\r\n`, 400],
    [`CONNECT ${value}@${OLD}:443 HTTP/1.1\r\nHost: ${OLD}:443\r\n`, 400],
    [`GET https://${OLD}/#${value} HTTP/1.1\r\nHost: ${OLD}\r\n`, 400],
    [`GET https://${OLD}/ HTTP/1.1\r\nHost: ${OLD}\r\nProxy-Authorization: Bearer ${value}\r\n`, 200],
    [`GET https://${OLD}/ HTTP/1.1\r\nHost: ${OLD}\r\nX-${value}: 1\r\nConnection: close, X-${value}\r\n`, 200],
  ] as const) {
    const answer = await exchangeRaw(port, `${request}${request.includes('Connection:') ? '' : 'Connection: close\r\n'}\r\n`)
    assert.equal(statusOf(answer), status, answer)
  }
  const socket = await dialPort(port)
  socket.write(`CONNECT ${OLD}:443 HTTP/1.1\r\nHost: ${OLD}:443\r\nAuthorization: Bearer ${value}\r\nX-Any: ${value}\r\n\r\n`)
  socket.end()
  await readToEnd(socket)
  for (const request of all()) for (const word of [value, SECRET]) assert.equal(leakIn(textOf(request), word), undefined)
})

const HANDSHAKE: Fields = [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'websocket'],
  ['Sec-WebSocket-Version', '13'],
  ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
]
test('I23 a WebSocket handshake with it in a place of its own carries the secret, with it anywhere else nothing', async () => {
  const ways = APPROACHES.filter(({ version }) => version === 'HTTP/1.1')
  for (const { way } of ways) {
    const open = async (path: string, fields: Fields): Promise<string> => {
      const { socket, target, authority } = await setting.open(way, 'https', OLD)
      const lines = [...HANDSHAKE, ...fields].map(([name, text]) => `${name}: ${text}\r\n`).join('')
      return exchangeOn(socket, `GET ${target(path)} HTTP/1.1\r\nHost: ${authority}\r\n${lines}\r\n`)
    }
    clear()
    for (const [path, fields] of [
      [`/?token=${value}`, []],
      ['/', [['Sec-WebSocket-Protocol', `chat, ${value}`]]],
      ['/', [['Origin', `https://${value}.example.com`]]],
      ['/', [['Cookie', `t=${value}`]]],
    ] as const) {
      assert.match(await open(path, fields), /^HTTP\/1\.1 403 [^]*placeholder_misplaced/, way)
    }
    assert.deepEqual(arrivedAt(OLD), [])
    await open('/', [['Authorization', value]])
    assert.deepEqual(
      arrivedAt(OLD).map((request) => headerOf(request, 'authorization')),
      [SECRET],
    )
  }
})

test('I23 I25 a placeholder whose secret cannot be had is not sent as it is: the agent gets a code, and nothing leaves, by any way', async () => {
  const unavailable = POLICY.replace('env:API_TOKEN', 'exec:/bin/false')
  await using other = await openEveryWay(unavailable, [OLD, NEW, OTHER, PLAIN])
  await using upstream = await openHttp2Upstream(other.tls(OLD), { place: other.at(OLD, 443) })
  const token = other.gate.sidecar.placeholders['TOKEN'] ?? assert.fail()
  for (const approach of APPROACHES) {
    const { status, code } = await ask(other, approach, { host: OLD, ...header('Authorization', token) })
    assert.deepEqual([status, code], [502, 'secret_unavailable'], named(approach))
  }
  assert.equal(upstream.connections, 0)
})

test('I1 neither audit nor log have the secret, and the audit says what was tried by name', async () => {
  const audit = await setting.gate.audit()
  const written = (await setting.gate.auditText()) + setting.gate.log()
  for (const text of [SECRET, JSON.stringify(SECRET).slice(1, -1), base64(`me:${SECRET}`), encoded]) assert.ok(!written.includes(text))
  assert.ok(audit.filter(({ code }) => code === 'placeholder_misplaced').length > 100)
})
