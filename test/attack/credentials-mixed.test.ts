/**
 * I5, I23: what is ours and what is the agent's own stand beside each other in one request: each is told from the other, field by
 * field, and a placeholder in the odd corners of a request goes nowhere.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { ask, openSession, type Asked, type Fields, type Got } from '../support/every-client.ts'
import { openEveryWay, type EveryWay } from '../support/every-way.ts'
import { answerOf } from '../support/http2-agent.ts'
import { openHttp2Upstream, type Http2Upstream, type RecordedStream } from '../support/http2-upstream.ts'

const SECRET = 'canary-e08b51c7'
const WRITTEN = 'canary-a3f92d60'
const OWN = 'agents-own-4410'
/** A host for each of the modes, and one that nothing is bound to. */
const HOSTS = ['unsaid.example.com', 'drop.example.com', 'deny.example.com', 'pass.example.com', 'other.example.com'] as const
type Host = (typeof HOSTS)[number]
const [UNSAID, DROP, DENY, PASS, OTHER] = HOSTS
const BOUND = [UNSAID, DROP, DENY, PASS] as const

const rule = (host: Host): string => {
  const mode = host.split('.')[0] ?? ''
  const own = host === UNSAID || host === OTHER ? '' : `, own_credentials: ${mode}`
  return `    - {id: ${mode}, host: ${host}, action: allow, addresses: ["127.0.0.0/8"]${own}}\n`
}
const POLICY = `version: 1
network:
  rules:
${HOSTS.map(rule).join('')}credentials:
  - id: token
    secret: TOKEN
    inject: {domains: [${BOUND.join(', ')}], placeholder: TOKEN, in: [header, basic, "query:access_token", "header:X-Listed"]}
  - {id: key, secret: KEY, inject: {domains: [${BOUND.join(', ')}], paths: ["/written/**"], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: TOKEN, source: "env:TOKEN"}
  - {name: KEY, source: "env:KEY"}
`

const parts = new AsyncDisposableStack()
const upstreams = new Map<string, Http2Upstream>()
let setting: EveryWay
let P = ''

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, HOSTS, { env: { TOKEN: SECRET, KEY: WRITTEN } }))
  P = setting.gate.sidecar.placeholders['TOKEN'] ?? ''
  for (const host of HOSTS) {
    upstreams.set(host, parts.use(await openHttp2Upstream(setting.tls(host), { protocols: ['h2'], place: setting.at(host, 443) })))
  }
})
after(() => parts.disposeAsync())

type Seen = { readonly got: Got; readonly arrived: RecordedStream | undefined; readonly own: unknown; readonly credential: unknown }

async function send(asked: Asked & { readonly host: Host }): Promise<Seen> {
  const { requests } = upstreams.get(asked.host) as Http2Upstream
  const count = requests.length
  const got = await ask(setting, { way: 'CONNECT', version: 'HTTP/1.1' }, asked)
  const decided = (await setting.gate.audit()).findLast(({ event, method }) => event === 'decided' && method !== 'CONNECT')
  return { got, arrived: requests[count], own: decided?.['own_credentials'], credential: decided?.['credential'] }
}

const textOf = (arrived: RecordedStream | undefined): string =>
  [arrived?.url, ...(arrived?.rawHeaders ?? []), arrived?.body.toString('latin1'), ...(arrived?.rawTrailers ?? [])].join('\n')

type Mixed = { readonly why: string; readonly path?: (placeholder: string) => string; readonly fields?: (placeholder: string) => Fields }

const OURS: readonly Mixed[] = [
  { why: 'a placeholder in a field', fields: (token) => [['Authorization', `Bearer ${token}`]] },
  { why: 'a placeholder in basic', fields: (token) => [['Authorization', `Basic ${Buffer.from(`me:${token}`).toString('base64')}`]] },
  { why: 'a placeholder in a query parameter that services take credentials in', path: (token) => `/x?access_token=${token}&a=1` },
  {
    why: 'the same twice',
    fields: (token) => [
      ['X-Api-Key', token],
      ['X-Api-Key', token],
    ],
  },
]

const MIXED: readonly Mixed[] = [
  {
    why: 'in the same field again',
    fields: (token) => [
      ['Authorization', `Bearer ${token}`],
      ['Authorization', `Bearer ${OWN}`],
    ],
  },
  {
    why: 'in the same field in front, in another case',
    fields: (token) => [
      ['AUTHORIZATION', OWN],
      ['authorization', token],
    ],
  },
  {
    why: 'beside basic with a placeholder',
    fields: (token) => [
      ['Authorization', `Basic ${Buffer.from(`me:${token}`).toString('base64')}`],
      ['Authorization', `Basic ${Buffer.from(`me:${OWN}`).toString('base64')} ${OWN}`],
    ],
  },
  {
    why: 'in a field that some take for the same',
    fields: (token) => [
      ['X-Api-Key', token],
      ['X_Api_Key', OWN],
    ],
  },
  {
    why: 'in another field',
    fields: (token) => [
      ['Authorization', token],
      ['X-Api-Key', OWN],
    ],
  },
  { why: 'in the same query parameter again', path: (token) => `/x?access_token=${token}&access_token=${OWN}` },
  { why: 'in a query parameter', path: () => `/x?api_key=${OWN}`, fields: (token) => [['Authorization', token]] },
  {
    why: 'in a cookie',
    fields: (token) => [
      ['Authorization', token],
      ['Cookie', `a=${OWN}`],
    ],
  },
]

for (const { why, path, fields } of OURS) {
  test(`I5 ${why} is ours: no mode takes it for the agent's own, and the audit has no word of one`, async () => {
    for (const host of BOUND) {
      const { got, arrived, own, credential } = await send({ host, path: path?.(P) ?? '/x', fields: fields?.(P) ?? [] })
      assert.deepEqual([got.status, own, credential], [200, undefined, 'token'], host)
      const text = textOf(arrived)
      assert.ok(text.includes(SECRET) || text.includes(Buffer.from(`me:${SECRET}`).toString('base64')), host)
    }
  })
}

for (const { why, path, fields } of MIXED) {
  const mixed = (): Pick<Asked, 'path' | 'fields'> => ({ path: path?.(P) ?? '/x', fields: fields?.(P) ?? [] })

  test(`I5 the agent's own ${why} is dropped where the rule says so, and the placeholder beside it becomes its secret`, async () => {
    const { got, arrived, own } = await send({ host: DROP, ...mixed() })
    assert.deepEqual([got.status, own], [200, 'dropped'])
    assert.ok(!textOf(arrived).includes(OWN))
    assert.match(textOf(arrived), new RegExp(`${SECRET}|${Buffer.from(`me:${SECRET}`).toString('base64')}`))
  })

  test(`I5 the agent's own ${why} is refused where the rule says so, and nothing is sent`, async () => {
    const { got, arrived } = await send({ host: DENY, ...mixed() })
    assert.deepEqual([got.status, got.code, arrived], [403, 'own_credentials_refused', undefined])
  })

  test(`I5 the agent's own ${why} goes on where it may, beside ours, and the audit says both`, async () => {
    for (const host of [PASS, UNSAID]) {
      const { got, arrived, own, credential } = await send({ host, ...mixed() })
      assert.deepEqual([got.status, own, credential], [200, 'passed', 'token'], host)
      assert.ok(textOf(arrived).includes(OWN), host)
    }
  })
}

test('I5 beside a credential that is written a placeholder in a place of its own becomes its secret, and the agent’s cookie goes', async () => {
  const cookie = ['Cookie', `a=${OWN}`] as const
  for (const fields of [[], [cookie]]) {
    const { got, arrived, credential } = await send({ host: UNSAID, path: '/written/x', fields: [['X-Api-Key', P], ...fields] })
    assert.deepEqual([got.status, credential], [200, 'key,token'])
    for (const value of [`Bearer ${WRITTEN}`, SECRET]) assert.ok(arrived?.rawHeaders.includes(value))
    assert.ok(!textOf(arrived).includes(OWN))
  }
})

test('I5 the place of a credential that is written is not a placeholder’s, whatever else goes', async () => {
  for (const fields of [[], [['Cookie', 'a=1'] as const]]) {
    const { got, arrived } = await send({ host: UNSAID, path: '/written/x', fields: [['Authorization', P], ...fields] })
    assert.equal(got.status, 200)
    const values = arrived?.rawHeaders.filter((_, i) => i % 2 === 1 && arrived.rawHeaders[i - 1] === 'authorization')
    assert.deepEqual(values, [`Bearer ${WRITTEN}`])
  }
})

test('I5 where the credential is withheld the agent’s cookies do not go alone, and the audit says so in every mode', async () => {
  for (const host of [UNSAID, DROP, PASS]) {
    const { got, arrived, own, credential } = await send({ host, path: '/written/x?sig=1&se=2', fields: [['Cookie', `a=${OWN}`]] })
    assert.deepEqual([got.status, own, credential], [200, 'dropped', undefined], host)
    assert.ok(!textOf(arrived).includes(OWN), host)
  }
})

test('I23 as a method, which HTTP/2 has any word for, a placeholder is refused', async () => {
  for (const host of [UNSAID, OTHER]) {
    for (const method of [P, P.toLowerCase(), `X-${P}`]) {
      const { requests } = upstreams.get(host) as Http2Upstream
      const count = requests.length
      const got = await ask(setting, { way: 'CONNECT', version: 'HTTP/2' }, { host, method })
      assert.deepEqual([got.status, got.code, requests.length], [403, 'placeholder_misplaced', count])
    }
  }
})

for (const { why, trailer } of [
  { why: 'in a trailer', trailer: (token: string) => ['x-late', token] as const },
  { why: 'in a trailer that is listed for the head', trailer: (token: string) => ['x-listed', token] as const },
  { why: 'in a trailer, in base64', trailer: (token: string) => ['x-late', Buffer.from(`ab${token}`).toString('base64')] as const },
  {
    why: 'in a trailer, escaped',
    trailer: (token: string) => ['x-late', `%${token.charCodeAt(0).toString(16)}${token.slice(1)}`] as const,
  },
  { why: 'in the name of a trailer', trailer: (token: string) => [`x-${token.toLowerCase()}`, '1'] as const },
]) {
  test(`I23 ${why} a placeholder goes nowhere, in HTTP/1.1 and HTTP/2`, async () => {
    const [name, value] = trailer(P)
    for (const host of [UNSAID, OTHER]) {
      const { requests } = upstreams.get(host) as Http2Upstream
      const body = `2\r\nhi\r\n0\r\n${name}: ${value}\r\n\r\n`
      const old = await ask(
        setting,
        { way: 'CONNECT', version: 'HTTP/1.1' },
        {
          host,
          method: 'POST',
          fields: [
            ['Transfer-Encoding', 'chunked'],
            ['Trailer', name],
          ],
          body,
        },
      )
      assert.deepEqual([old.status, old.code], [403, 'placeholder_misplaced'], `HTTP/1.1 ${host}`)
      const session = openSession(host, await setting.dialTls('CONNECT', host, 443, { ALPNProtocols: ['h2'] }))
      const stream = session.request({ ':method': 'POST', ':path': '/' }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ [name]: value }))
      stream.end('hi')
      const answer = await answerOf(stream)
      session.destroy()
      assert.equal(answer.status, 403, `HTTP/2 ${host}`)
      assert.match(answer.body, /"code":"placeholder_misplaced"/)
      const text = requests.map(textOf).join('\n').toLowerCase()
      for (const part of [P.slice(1), Buffer.from(`ab${P}`).toString('base64')]) assert.ok(!text.includes(part.toLowerCase()))
    }
  })
}
