import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatAuthority, parseHostname, splitAuthority } from '../../src/kernel/hostname.ts'
import { DEFAULT_PORT, readAuthority, readFacts, type RequestHead, type Tunnel } from '../../src/sidecar/egress/facts.ts'
import { forwardedRequestHeaders, valuesOf } from '../../src/sidecar/egress/headers.ts'
import { withCredential } from '../support/written.ts'
import { hostname } from '../support/policy.ts'

const RUNS = { numRuns: 3_000 }

const byte = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)), maxLength: 40 })
const host = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('api.example.com', 'API.Example.COM', 'other.example.com') },
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      '127.0.0.1',
      '0x7f.1',
      '2130706433',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '[FE80::1%25eth0]',
      'xn--bcher-kva.example',
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom('api.example.com.', 'user@api.example.com', 'api.example.com\0.evil.test', 'api%2eexample.com', ''),
  },
  { weight: 2, arbitrary: fc.domain() },
  { weight: 1, arbitrary: byte },
)
const port = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('', ':80', ':443', ':8080') },
  { weight: 1, arbitrary: fc.constantFrom(':', ':0', ':080', ':65536', ':-1', ':x') },
)
const authority = fc.tuple(host, port).map(([name, suffix]) => `${name}${suffix}`)
const path = fc.oneof(
  fc.constantFrom('', '/', '/v1/me?x=1', '//a/..;/%2e%2e/%00', '?q', '/a#b', '*', '/\u00e9', '/\x7f', '/a b', '\\evil'),
  fc.webPath(),
  byte,
)
const target = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.tuple(fc.constantFrom('http://', 'https://', 'HTTP://', 'ftp://', ''), authority, path).map((all) => all.join('')),
  },
  { weight: 3, arbitrary: path },
  { weight: 1, arbitrary: byte },
)
const field = fc.oneof(
  { weight: 5, arbitrary: fc.tuple(fc.constantFrom('Host', 'host', 'HOST'), authority) },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.constantFrom('Content-Length', 'content-length'), fc.constantFrom('0', '4', '4, 4', '+4', '', '0x4')),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.constant('Transfer-Encoding'), fc.constantFrom('chunked', 'Chunked', 'gzip, chunked', 'identity', '')),
  },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom('Upgrade', 'Connection', 'Authorization', 'Accept', 'X-Api-Key'), byte) },
)
const tunnel: fc.Arbitrary<Tunnel | undefined> = fc.option(
  fc.record({
    lane: fc.constant('connect' as const),
    scheme: fc.constantFrom('http' as const, 'https' as const),
    host: fc.constantFrom(hostname('api.example.com'), hostname('127.0.0.1'), hostname('[::1]')),
    port: fc.constantFrom(80, 443, 8080),
  }),
  { nil: undefined },
)

type Case = { readonly request: RequestHead; readonly end: Tunnel | undefined }
const method = fc.constantFrom('GET', 'POST', 'OPTIONS', 'PATCH')
const wild: fc.Arbitrary<Case> = fc.record({
  request: fc.record({
    method: fc.oneof(method, fc.constant('TRACE')),
    url: target,
    rawHeaders: fc.array(field, { maxLength: 5 }).map((fields) => fields.flat()),
  }),
  end: tunnel,
})
/** Heads that mostly hold together: the interesting ones are a step away from what is right. */
const near: fc.Arbitrary<Case> = fc
  .record({
    method,
    path,
    end: tunnel,
    name: host,
    suffix: port,
    more: fc.array(field, { maxLength: 1 }),
    scheme: fc.constantFrom('http', 'HTTPS'),
  })
  .map(({ end, name, suffix, scheme, more, ...rest }) => {
    const named = end ? formatAuthority(end.host ?? '', end.port, DEFAULT_PORT[end.scheme]) : `${name}${suffix}`
    return {
      request: {
        method: rest.method,
        url: end ? rest.path : `${scheme}://${named}${rest.path}`,
        rawHeaders: [...more.flat(), 'Host', named],
      },
      end,
    }
  })
const cases = fc.oneof(wild, { weight: 2, arbitrary: near })

test('I2 no head makes readFacts throw, and facts are canonical and agree with Host, the tunnel and the target', () => {
  let accepted = 0
  fc.assert(
    fc.property(cases, ({ request, end }) => {
      const facts = readFacts(request, end)
      if ('code' in facts) return
      accepted += 1
      assert.equal(parseHostname(facts.host), facts.host)
      assert.ok(Number.isInteger(facts.port) && facts.port >= 1 && facts.port <= 65_535)
      assert.match(facts.path, /^\/[\x21-\x7e]*$/)
      assert.equal(facts.path.includes('#'), false)
      assert.equal(facts.method, request.method)
      assert.ok(request.url.endsWith(facts.path) || `/${request.url.slice(request.url.indexOf('?'))}` === facts.path || facts.path === '/')
      const [named, ...more] = valuesOf(request.rawHeaders, 'host')
      assert.deepEqual(more, [])
      if (named !== undefined) assert.deepEqual(endOf(named, facts.scheme), [facts.host, facts.port])
      if (end) assert.deepEqual([facts.scheme, facts.host, facts.port], [end.scheme, end.host, end.port])
      const absolute = /^https?:\/\/([^/?#]*)/i.exec(request.url)
      if (absolute) assert.deepEqual(endOf(absolute[1] ?? '', facts.scheme), [facts.host, facts.port])
      else assert.ok(end && named !== undefined, 'without a tunnel the target names the host')
    }),
    RUNS,
  )
  assert.ok(accepted > RUNS.numRuns / 20, `only ${accepted} heads were accepted: the property says little`)
})

test('I10 a head whose body could end in two places has no facts', () => {
  fc.assert(
    fc.property(cases, ({ request, end }) => {
      if ('code' in readFacts(request, end)) return
      const lengths = valuesOf(request.rawHeaders, 'content-length')
      const codings = valuesOf(request.rawHeaders, 'transfer-encoding')
      assert.ok(lengths.length + codings.length <= 1)
      assert.ok(lengths.every((length) => /^\d+$/.test(length)) && codings.every((coding) => coding.toLowerCase() === 'chunked'))
    }),
    RUNS,
  )
})

test('I2 no CONNECT target makes readAuthority throw, and what it gives is canonical and agrees with every Host', () => {
  fc.assert(
    fc.property(fc.oneof(authority, byte), fc.array(authority, { maxLength: 2 }), (text, hosts) => {
      const end = readAuthority(
        text,
        hosts.flatMap((value) => ['Host', value]),
      )
      if ('code' in end) return
      assert.equal(parseHostname(end.host), end.host)
      assert.deepEqual([parseHostname(splitAuthority(text)?.host ?? ''), splitAuthority(text)?.port], [end.host, end.port])
      for (const value of hosts) assert.equal(parseHostname(splitAuthority(value)?.host ?? ''), end.host)
    }),
    RUNS,
  )
})

test('I5 whatever fields an agent sends, one Host and one credential go on, and nothing that ends at this hop', () => {
  const name = fc.constantFrom('Authorization', 'authorization', 'X-Api-Key', 'Connection', 'Host', 'Proxy-Authorization', 'TE', 'Accept')
  const value = fc.oneof(fc.constantFrom('authorization, host', 'x-api-key', 'own'), byte)
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value), { maxLength: 8 }), (fields) => {
      const written = withCredential(forwardedRequestHeaders(fields.flat(), 'api.example.com'), 'Authorization', 'ours')
      assert.deepEqual(valuesOf(written, 'host'), ['api.example.com'])
      assert.deepEqual(valuesOf(written, 'authorization'), ['ours'])
      for (const gone of ['x-api-key', 'connection', 'proxy-authorization', 'te']) assert.deepEqual(valuesOf(written, gone), [])
      assert.equal(written.length % 2, 0)
    }),
  )
})

function endOf(text: string, scheme: 'http' | 'https'): [unknown, number] {
  const split = splitAuthority(text)
  return [parseHostname(split?.host ?? ''), split?.port ?? DEFAULT_PORT[scheme]]
}
