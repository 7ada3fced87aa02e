/**
 * I2: a host that is none, or that no rule allows, is refused wherever an agent can name one, before anything looks it up.
 * Sources: Claude Code 2.0.24 to 2.1.89 (NUL in a SOCKS name), CVE-2022-24825, CVE-2022-29188, CVE-2025-66479.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { clientHello, serverNameExtension } from '../support/client-hello.ts'
import { askUdp, queryFor, RCODE, readAnswer, TYPE as RECORD } from '../support/dns.ts'
import { dialPort, dialSocks, NotCarried, openEveryWay, socksName, type EveryWay } from '../support/every-way.ts'
import { DISGUISED_ADDRESSES, HOSTILE_NAMES } from '../support/hostile-names.ts'
import { getOf, openFrameAgent, whole } from '../support/http2-agent.ts'
import { FLAG, TYPE } from '../support/http2-frames.ts'
import { openHttp2Upstream, type Http2Upstream } from '../support/http2-upstream.ts'
import { exchangeRaw, exchangeTls, openTunnel, readToEnd } from '../support/raw-client.ts'
import { recordNetwork } from '../support/recorded-network.ts'
import { openUpstream, type Upstream } from '../support/upstream.ts'

const API = 'api.example.com'
const POLICY = `version: 1
network:
  rules:
    - {id: below, host: "*.example.com", action: allow, addresses: ["127.0.0.0/8"]}
routes:
  - {name: api, upstream: "http://${API}", addresses: ["127.0.0.0/8"]}
`

const parts = new AsyncDisposableStack()
const network = parts.use(recordNetwork())
let setting: EveryWay
let secure: Http2Upstream
let plain: Upstream

before(async () => {
  setting = parts.use(await openEveryWay(POLICY, [API]))
  secure = parts.use(await openHttp2Upstream(setting.tls(API), { place: setting.at(API, 443) }))
  plain = parts.use(await openUpstream(undefined, undefined, setting.at(API, 80)))
  // Were a name looked up, it would lead to an upstream that records.
  network.answer = (_host, family) => (family === 4 ? [setting.at(API, 80).host] : [])
})
after(() => parts.disposeAsync())

/** What an agent is told: `yes` where the host is one that requests may go to. */
type Said = 'yes' | (string & {})
const statusLine = (answer: string): Said => (answer.startsWith('HTTP/1.1 2') ? 'yes' : answer.slice(0, 12) || 'closed')
const refusedBy = (error: unknown): Said => {
  if (error instanceof NotCarried) return error.said
  throw error
}

/** Every place in which an agent names a host. */
const PLACES: Readonly<Record<string, { readonly name: (text: string) => Promise<Said>; readonly takes?: (text: string) => boolean }>> = {
  'the target at the proxy': {
    name: async (text) =>
      statusLine(await exchangeRaw(setting.gate.port, `GET http://${text}/ HTTP/1.1\r\nHost: ${text}\r\nConnection: close\r\n\r\n`)),
  },
  'the target of https at the proxy': {
    name: async (text) =>
      statusLine(await exchangeRaw(setting.gate.port, `GET https://${text}/ HTTP/1.1\r\nHost: ${text}\r\nConnection: close\r\n\r\n`)),
  },
  'Host beside a good target': {
    name: async (text) =>
      statusLine(await exchangeRaw(setting.gate.port, `GET http://${API}/ HTTP/1.1\r\nHost: ${text}\r\nConnection: close\r\n\r\n`)),
  },
  CONNECT: {
    name: async (text) => {
      const { status, socket } = await openTunnel(
        setting.gate.port,
        text.includes(':') ? `[${text.replaceAll(/[[\]]/g, '')}]:443` : `${text}:443`,
      )
      socket.destroy()
      return status === 200 ? 'yes' : `HTTP ${status}`
    },
  },
  'a SOCKS name': {
    name: async (text) =>
      dialSocks(setting.gate.ports.socks, socksName(utf8In(text)), 443).then((socket) => {
        socket.destroy()
        return 'yes'
      }, refusedBy),
    takes: (text) => text.length < 256,
  },
  'Host without a proxy': {
    name: async (text) =>
      statusLine(await exchangeRaw(setting.gate.ports.plain, `GET / HTTP/1.1\r\nHost: ${text}\r\nConnection: close\r\n\r\n`)),
  },
  'the server name without a proxy': {
    name: (text) => helloTo(dialPort(setting.gate.ports.secure), text),
  },
  'the server name behind SOCKS to our own address': {
    name: (text) => helloTo(dialSocks(setting.gate.ports.socks, Buffer.of(1, 127, 0, 0, 1), 443), text),
  },
  'the server name in a tunnel': {
    name: (text) => helloTo(setting.dial('CONNECT', API, 443), text),
  },
  'Host in TLS': {
    name: async (text) =>
      statusLine(
        await exchangeTls(setting.gate.port, API, 443, setting.ca, `GET / HTTP/1.1\r\nHost: ${text}\r\nConnection: close\r\n\r\n`),
      ),
  },
  'the target in TLS': {
    name: async (text) =>
      statusLine(
        await exchangeTls(
          setting.gate.port,
          API,
          443,
          setting.ca,
          `GET https://${text}/ HTTP/1.1\r\nHost: ${API}\r\nConnection: close\r\n\r\n`,
        ),
      ),
  },
  ':authority': {
    name: async (text) => {
      using agent = await openFrameAgent({ port: setting.gate.port, host: API, targetPort: 443, ca: setting.ca })
      agent.send(whole(1, getOf(utf8In(text))))
      const { type, payload } = await agent.until(
        ({ stream, type: of, flags }) => (stream === 1 && (of !== TYPE.HEADERS || (flags & FLAG.END_HEADERS) !== 0)) || of === TYPE.GOAWAY,
      )
      // 0x88 is `:status: 200` (RFC 7541, appendix A).
      return type === TYPE.HEADERS && payload[0] === 0x88 ? 'yes' : 'refused'
    },
  },
  'a DNS question': {
    name: async (text) => {
      const labels = utf8In(text)
        .split('.')
        .map((label) => Buffer.from(label, 'latin1'))
      if (labels.some(({ length }) => length > 255)) return 'no query'
      const address = setting.gate.sidecar.dns[0] ?? ''
      for (const type of [RECORD.A, RECORD.AAAA, RECORD.TXT, RECORD.HTTPS]) {
        const answer = await askUdp(address, queryFor(labels, { type }))
        if ((answer.readUInt8(3) & 15) === RCODE.noError && readAnswer(answer).data.length > 0) return 'yes'
      }
      return 'no address'
    },
    takes: (text) => text.length < 256,
  },
}

/** The bytes of UTF-8, one a character, for what is written as latin1. */
function utf8In(text: string): string {
  return Buffer.from(text).toString('latin1')
}

async function helloTo(dialled: Promise<Awaited<ReturnType<typeof dialPort>>>, name: string): Promise<Said> {
  const socket = await dialled
  socket.write(clientHello([serverNameExtension(utf8In(name))]))
  const answer = Buffer.from(await readToEnd(socket), 'latin1')
  // The ClientHello is not one that our own TLS could answer: what it says then is another alert than those that refuse a name.
  return answer.length > 6 && answer[6] !== 49 && answer[6] !== 112 ? 'yes' : `alert ${answer[6] ?? 'none'}`
}

const REFUSED = [
  ...HOSTILE_NAMES,
  ...DISGUISED_ADDRESSES.map((text) => ({ text, why: 'an address in disguise (CVE-2023-42282, CVE-2024-29415, CVE-2025-8267)' })),
  { text: 'evilexample.com', why: 'a look-alike suffix' },
  { text: 'example.com.evil.test', why: 'the allowed name as a prefix' },
  { text: 'api.example.com.evil.test', why: 'the allowed name as a prefix' },
  { text: 'example.com', why: 'the apex needs a rule of its own' },
  { text: 'api-example.com', why: 'a hyphen is no dot' },
  { text: '127.0.0.1', why: 'an address that no rule names' },
  { text: '::1', why: 'an address that no rule names' },
  { text: 'localhost', why: 'this machine' },
]

for (const [place, { name, takes = () => true }] of Object.entries(PLACES)) {
  test(`I2 ${place}: the allowed host is taken there, so that a refusal of others means something`, async () => {
    assert.equal(await name(API), 'yes')
  })

  for (const { text, why } of REFUSED) {
    if (!takes(text)) continue
    test(`I2 I3 ${place} as ${JSON.stringify(text).slice(0, 50)} is refused and not looked up: ${why}`, async () => {
      const count = secure.connections + plain.connections
      network.asked.length = 0
      network.dialled.length = 0
      assert.notEqual(await name(text), 'yes')
      assert.deepEqual([network.asked, network.dialled, secure.connections + plain.connections], [[], [], count])
    })
  }
}

test('a name that the rule allows is looked up once a family: what is not looked up above would have been seen', async () => {
  network.asked.length = 0
  assert.match(
    await exchangeRaw(setting.gate.port, 'GET http://new.example.com/ HTTP/1.1\r\nHost: new.example.com\r\nConnection: close\r\n\r\n'),
    /^HTTP\/1\.1 200 /,
  )
  assert.deepEqual(network.asked, ['new.example.com', 'new.example.com'])
})

test('CVE-2025-66479: an empty list of rules allows nothing, by any place', async () => {
  await using empty = await openEveryWay('version: 1\nnetwork: {rules: []}\n', [API])
  const other = setting
  setting = empty
  try {
    for (const [place, { name }] of Object.entries(PLACES)) {
      if (/TLS|tunnel|:authority|beside/.test(place)) continue
      assert.notEqual(await name(API), 'yes', place)
    }
    await assert.rejects(empty.dial('CONNECT', API, 443), /HTTP 403/)
  } finally {
    setting = other
  }
  assert.deepEqual(network.dialled, [])
})
