/**
 * I24: whatever an upstream gives back of the credential that came to it, none of it reaches the agent: by every way in, to agents
 * and from upstreams of both versions of HTTP. Every answer is made of what arrived, and searched by decoders of its own.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { answerEcho, ECHOES, type Echo } from '../support/echoes.ts'
import { APPROACHES, ask, fieldOf, named, type Approach, type Asked, type Got } from '../support/every-client.ts'
import { openEveryWay, routeTo, type EveryWay } from '../support/every-way.ts'
import { headerOf, openHttp2Upstream, type Http2Upstream, type StreamRequest } from '../support/http2-upstream.ts'
import { leakIn, unpacked } from '../support/leaks.ts'
import type { ServerResponse } from 'node:http'

/** It has all that encodings write in more than one way. */
const SECRET = 'k9Zq/Vx+7"w<Tj&m\\4R y=PbN8'
const OLD = 'old.example.com'
const NEW = 'new.example.com'
const HOSTS = [OLD, NEW] as const
type Host = (typeof HOSTS)[number]

const policy = (scrub: string): string => `version: 1
network:
  rules:
${HOSTS.map((host) => `    - {id: ${host.split('.')[0]}, host: ${host}, action: allow, scrub: "${scrub}", addresses: ["127.0.0.0/8"]}\n`).join('')}routes:
${HOSTS.map((host) => `  - {name: ${routeTo('https', host)}, upstream: "https://${host}", credential: token, addresses: ["127.0.0.0/8"]}\n`).join('')}credentials:
  - {id: token, secret: API_TOKEN, inject: {domains: [${HOSTS.join(', ')}], header: Authorization, prefix: "Bearer "}}
secrets:
  - {name: API_TOKEN, source: "env:API_TOKEN"}
`

const parts = new AsyncDisposableStack()
let setting: EveryWay
const upstreams = new Map<Host, Http2Upstream>()
/** What the upstreams answer now, made of the credential that came. */
let echo: (secret: string, request: StreamRequest) => Echo = () => ({})

before(async () => {
  setting = parts.use(await openEveryWay(policy('replace'), HOSTS, { env: { API_TOKEN: SECRET } }))
  for (const host of HOSTS) {
    const protocols = host === OLD ? (['http/1.1'] as const) : (['h2'] as const)
    const options = { protocols, place: setting.at(host, 443), answer: answerWithEcho, server: { maxSendHeaderBlockLength: 1_000_000 } }
    upstreams.set(host, parts.use(await openHttp2Upstream(setting.tls(host), options)))
  }
})
after(() => parts.disposeAsync())

function answerWithEcho(request: StreamRequest, response: ServerResponse): void {
  const came = (request.headers.authorization ?? '').replace('Bearer ', '')
  request.resume()
  request.on('end', () => void answerEcho(response, echo(came, request)).catch(() => response.destroy()))
}

/** Asks by one approach, and sees to it that the credential went out and nothing of it came back. */
async function askUnharmed(approach: Approach, asked: Asked & { host: Host }): Promise<Got> {
  const { requests } = upstreams.get(asked.host) as Http2Upstream
  const count = requests.length
  const got = await ask(setting, approach, asked)
  assert.equal(headerOf(requests[count], 'authorization'), `Bearer ${SECRET}`, 'it went out')
  assert.equal(leakIn(got.bytes, SECRET), undefined)
  assert.equal(leakIn([...got.headers, ...got.trailers].join('\n'), SECRET), undefined)
  if (got.isWhole && got.code === undefined)
    assert.equal(leakIn(unpacked(got.body, fieldOf(got.headers, 'content-encoding')), SECRET), undefined)
  return got
}

for (const { why, echo: of, refused, isOld = false } of ECHOES) {
  test(`I24 ${why}: ${refused === undefined ? 'the answer arrives without the secret' : `the agent gets ${refused}`}, by every way`, async () => {
    const { headers = [], trailers = [], chunks = [], reason = '', early = '', status = 200 } = of(SECRET)
    const said = Buffer.concat([
      Buffer.from([...headers.flat(), ...trailers.flat(), reason, early, ''].join('\n')),
      ...chunks.map((chunk) => Buffer.from(chunk)),
    ])
    const body = Buffer.concat(chunks.map((chunk) => Buffer.from(chunk)))
    const isFound = leakIn(said, SECRET) !== undefined || leakIn(unpackedOr(body, headers), SECRET) !== undefined
    assert.ok(isFound || refused !== undefined, 'the decoders would have found it')
    echo = of
    for (const approach of APPROACHES) {
      for (const host of HOSTS) {
        if (isOld && host === NEW) continue
        const got = await askUnharmed(approach, { host, fields: [['Accept-Encoding', 'gzip, deflate, br, zstd']] })
        const where = `${named(approach)} from ${host}`
        if (refused !== undefined) assert.deepEqual([got.status, got.code], [502, refused], where)
        else assert.deepEqual([got.status, got.isWhole], [status, true], where)
        const length = fieldOf(got.headers, 'content-length')
        if (refused === undefined && length !== undefined && status !== 204) assert.equal(got.body.length, Number(length), where)
      }
    }
  })
}

function unpackedOr(body: Buffer, headers: Echo['headers'] = []): Buffer {
  try {
    return unpacked(body, headers.find(([name]) => name === 'content-encoding')?.[1])
  } catch {
    return body
  }
}

test('I24 an answer without a secret arrives as it was, to the byte, though it is looked into', async () => {
  const text = `${'%41 \\u0041 &amp; QUJD 414243 '.repeat(100)}${SECRET.slice(0, -1)}`
  echo = () => ({
    headers: [
      ['etag', '"v1"'],
      ['content-length', String(text.length)],
    ],
    chunks: [text],
  })
  for (const approach of APPROACHES) {
    for (const host of HOSTS) {
      const { body, headers } = await ask(setting, approach, { host })
      assert.deepEqual([body.toString(), fieldOf(headers, 'etag')], [text, '"v1"'], named(approach))
    }
  }
})

test('I24 a Range that would slice the secret is not sent, nor what goes with it: the whole answer comes, without the secret', async () => {
  echo = (secret, { headers }) => {
    const whole = `0123456789${secret}0123456789`
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? []
    if (from === undefined) return { headers: [['accept-ranges', 'bytes']], chunks: [whole] }
    return {
      status: 206,
      headers: [['content-range', `bytes ${from}-${to}/${whole.length}`]],
      chunks: [whole.slice(Number(from), Number(to) + 1)],
    }
  }
  for (const approach of APPROACHES) {
    for (const host of HOSTS) {
      for (const range of ['bytes=10-17', 'bytes=18-40', 'bytes=0-11']) {
        const got = await askUnharmed(approach, {
          host,
          fields: [
            ['Range', range],
            ['If-Range', '"v1"'],
          ],
        })
        assert.equal(got.status, 200, named(approach))
        assert.match(got.body.toString(), /^0123456789\*+0123456789$/)
        const request = upstreams.get(host)?.requests.at(-1)
        assert.deepEqual([headerOf(request, 'range'), headerOf(request, 'if-range')], [undefined, undefined])
      }
    }
  }
})

test('I24 the coding that the agent asks for is one that can be looked into, or none', async () => {
  echo = (secret) => ({ chunks: [secret] })
  for (const approach of APPROACHES) {
    for (const [accepted, arrives] of [
      ['rot13, gzip;q=0.5, exi', 'gzip;q=0.5'],
      ['compress', 'identity'],
    ] as const) {
      await askUnharmed(approach, {
        host: OLD,
        fields: [
          ['Accept-Encoding', accepted],
          ['A-IM', 'vcdiff'],
        ],
      })
      const request = upstreams.get(OLD)?.requests.at(-1)
      assert.deepEqual([headerOf(request, 'accept-encoding'), headerOf(request, 'a-im')], [arrives, undefined], named(approach))
    }
  }
})

test('I24 what the agent sends for the upstream to give back is no way around: a secret that it knows of is found as well', async () => {
  echo = (secret, { url }) => ({ chunks: [`${url} ${secret}`] })
  for (const approach of APPROACHES)
    assert.match((await askUnharmed(approach, { host: OLD, path: '/guess?a=b' })).body.toString(), /^\/guess\?a=b \*+$/)
})

test('I24 scrub: block gives the agent a code and nothing of an answer with a secret in it, and lets others pass', async () => {
  assert.ok(await setting.gate.setPolicy(policy('block')))
  try {
    for (const approach of APPROACHES) {
      if (approach.way === 'route') continue
      for (const host of HOSTS) {
        for (const of of [
          (secret: string): Echo => ({ chunks: [secret] }),
          (secret: string): Echo => ({ headers: [['x-echo', Buffer.from(secret).toString('base64')]] }),
          (secret: string): Echo => ({ headers: [['content-encoding', 'gzip']], chunks: [gzipSync(secret)] }),
        ]) {
          echo = of
          const { status, code } = await askUnharmed(approach, { host })
          assert.deepEqual([status, code], [502, 'secret_echoed'], named(approach))
        }
        echo = () => ({ chunks: ['fine'] })
        assert.equal((await ask(setting, approach, { host })).body.toString(), 'fine')
      }
    }
  } finally {
    assert.ok(await setting.gate.setPolicy(policy('replace')))
  }
})

test('I1 I24 the audit says how often something was found, and neither it nor the log has any of it', async () => {
  echo = (secret) => ({ headers: [['x-echo', secret]], chunks: [`${secret} ${secret}`] })
  await askUnharmed({ way: 'CONNECT', version: 'HTTP/2' }, { host: OLD })
  const events = await setting.gate.audit()
  assert.equal(events.findLast(({ event }) => event === 'finished')?.['scrubbed'], 3)
  for (const line of [...(await setting.gate.auditText()).split('\n'), ...setting.gate.log().split('\n')])
    assert.ok(!line.includes(SECRET.slice(0, 8)))
  assert.equal(leakIn(setting.gate.log().slice(-20_000), SECRET), undefined)
})
