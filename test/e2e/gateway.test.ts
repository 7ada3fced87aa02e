/** What the gateway tells an agent, and whom it tells it. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { system } from '../../src/kernel/system.ts'
import { createGateway, type GatewayParts } from '../../src/sidecar/gateway/gateway.ts'
import { gatewayPolicy } from '../support/gateway.ts'
import { bodyOf, exchangeRaw, statusOf } from '../support/raw-client.ts'

const LEASE = 'lease-of-this-session-1f6b20'
const VALUES = { GH_TOKEN: 'ghp_SALLYPORTbbbbbbbbbbbbbbbbbbbbbbbbbbbb', NPM_TOKEN: 'npm_SALLYPORTaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }
const FILES = [
  { name: 'npmrc', path: '.npmrc', content: `//registry.example.com/:_authToken=${VALUES.NPM_TOKEN}\n` },
  { name: 'docker', path: '.docker/config.json', content: '{"auths": {}}\n' },
] as const

/** A gateway on loopback whose routes go nowhere, and one request to it at a time. */
async function openGateway(parts: Partial<GatewayParts> = {}) {
  const refuseRoute = (): never => assert.fail('no route is asked for')
  const server = await createGateway(
    {
      caPem: 'ca',
      files: () => FILES,
      placeholders: () => VALUES,
      callController: () => assert.fail('nobody is asked'),
      policy: gatewayPolicy,
      system,
      ...parts,
    },
    { onRouteRequest: refuseRoute, onRouteUpgrade: refuseRoute },
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    ask: (path: string, fields = '', method = 'GET', host = 'sallyport:7070') =>
      exchangeRaw(port, `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${fields}\r\n`),
    raw: (text: string) => exchangeRaw(port, text),
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
    },
  }
}

type Gateway = Awaited<ReturnType<typeof openGateway>>
let open: Gateway
let leased: Gateway
before(async () => {
  const hash = (text: string): string => createHash('sha256').update(text).digest('hex')
  open = await openGateway()
  leased = await openGateway({ checkLease: (token) => hash(token) === hash(LEASE) })
})
after(async () => {
  await open[Symbol.asyncDispose]()
  await leased[Symbol.asyncDispose]()
})

test('/v1/placeholders is the variables of the agent’s environment', async () => {
  assert.deepEqual(JSON.parse(bodyOf(await open.ask('/v1/placeholders'))), VALUES)
})

test('/v1/files is the names of the files and where they belong below HOME, without what is in them', async () => {
  assert.deepEqual(JSON.parse(bodyOf(await open.ask('/v1/files'))), {
    files: [
      { name: 'npmrc', path: '.npmrc' },
      { name: 'docker', path: '.docker/config.json' },
    ],
  })
})

for (const { name, content } of FILES) {
  test(`/v1/files/${name} is the file as it is to be written, and is not kept by a cache`, async () => {
    const answer = await open.ask(`/v1/files/${name}`)
    assert.equal(statusOf(answer), 200)
    assert.match(answer, /\r\ncontent-type: text\/plain; charset=utf-8\r\n/)
    assert.match(answer, /\r\ncache-control: no-store\r\n/)
    assert.equal(bodyOf(answer), content)
  })
}

test('what is told is that of the policy in force', async () => {
  let values: Record<string, string> = {}
  await using gateway = await openGateway({ placeholders: () => values, files: () => [] })
  assert.equal(bodyOf(await gateway.ask('/v1/placeholders')), '{}')
  values = VALUES
  assert.deepEqual(JSON.parse(bodyOf(await gateway.ask('/v1/placeholders'))), VALUES)
  assert.equal(bodyOf(await gateway.ask('/v1/files')), '{"files":[]}')
})

for (const { path, method = 'GET' } of [
  { path: '/v1/files/netrc' },
  { path: '/v1/files/constructor' },
  { path: '/v1/files/..%2f..%2fetc%2fpasswd' },
  { path: '/v1/files/npmrc/x' },
  { path: '/v1/secrets' },
  { path: '/nothing' },
]) {
  test(`${method} ${path} is 404 not_found with a hint`, async () => {
    const answer = await open.ask(path, '', method)
    assert.equal(statusOf(answer), 404)
    assert.match(answer, /\r\ncontent-type: application\/problem\+json\r\n/)
    const { code, status, hint } = problemOf(answer)
    assert.deepEqual([code, status], ['not_found', 404])
    assert.match(String(hint), path.startsWith('/v1/files/') && !path.endsWith('/x') ? /^there is npmrc, docker$/ : /\/v1\/files\/NAME/)
  })
}

for (const path of ['/v1/placeholders', '/v1/files', '/v1/files/npmrc', '/v1/files/none', '/v1/none']) {
  for (const [what, fields] of [
    ['nothing', ''],
    ['a wrong lease', 'Authorization: Bearer lease-of-another-session\r\n'],
    ['the lease by another scheme', `Authorization: Basic ${Buffer.from(`agent:${LEASE}`).toString('base64')}\r\n`],
    ['the lease without a scheme', `Authorization: ${LEASE}\r\n`],
    ['the lease where proxies have theirs', `Proxy-Authorization: Bearer ${LEASE}\r\n`],
    ['the lease and another', `Authorization: Bearer ${LEASE}\r\nAuthorization: Bearer other\r\n`],
    ['the lease in the URL', undefined],
  ] as const) {
    test(`${path} with ${what} is 401, and tells nothing`, async () => {
      const answer = await leased.ask(fields === undefined ? `${path}?access_token=${LEASE}` : path, fields)
      assert.equal(statusOf(answer), 401)
      assert.match(answer, /\r\nwww-authenticate: Bearer realm="sallyport"\r\n/)
      assert.match(answer, /\r\ncontent-type: application\/problem\+json\r\n/)
      assert.equal(problemOf(answer)['code'], 'unauthenticated')
      for (const value of [...Object.values(VALUES), 'npmrc', LEASE]) assert.ok(!answer.includes(value))
    })
  }
}

for (const scheme of ['Bearer', 'bearer', 'BEARER ']) {
  test(`with the lease as "${scheme}" it is told`, async () => {
    const answer = await leased.ask('/v1/placeholders', `Authorization: ${scheme} ${LEASE}\r\n`)
    assert.deepEqual(JSON.parse(bodyOf(answer)), VALUES)
  })
}

test('/healthz and /ca.crt want no lease', async () => {
  for (const path of ['/healthz', '/ca.crt']) assert.equal(statusOf(await leased.ask(path)), 200)
})

for (const host of ['rebound.evil.test:7070', 'sallyport.evil.test', '127.0.0.1.evil.test', 'sallyport,evil.test']) {
  test(`"Host: ${host}" is refused, with the lease as well: a page of that name could have sent it`, async () => {
    for (const path of ['/v1/placeholders', '/v1/files', '/v1/files/npmrc']) {
      for (const answer of [
        await open.ask(path, '', 'GET', host),
        await leased.ask(path, `Authorization: Bearer ${LEASE}\r\n`, 'GET', host),
      ]) {
        assert.equal(statusOf(answer), 421)
        assert.equal(problemOf(answer)['code'], 'misdirected_request')
        assert.ok(!answer.includes('SALLYPORT'))
      }
    }
  })
}

test('two Host fields are refused', async () => {
  assert.equal(statusOf(await open.ask('/v1/placeholders', 'Host: evil.test\r\n')), 400)
})

test('no page of another origin may read what it tells', async () => {
  const answer = await open.ask('/v1/placeholders', 'Origin: http://evil.test\r\n')
  assert.doesNotMatch(answer, /access-control-/i)
})

for (const { what, text, status, code } of [
  {
    what: 'a path that cannot be decoded',
    text: 'GET /v1/files/%zz HTTP/1.1\r\nHost: sallyport\r\nConnection: close\r\n\r\n',
    status: 400,
    code: 'target_invalid',
  },
  { what: 'what is no HTTP', text: 'GET\0 / HTTP/1.1\r\n\r\n', status: 400, code: 'request_malformed' },
  { what: 'a head without end', text: `GET / HTTP/1.1\r\nA: ${'a'.repeat(40_000)}\r\n\r\n`, status: 431, code: 'head_too_large' },
]) {
  test(`${what} is answered by a problem with ${code}`, async () => {
    const answer = await open.raw(text)
    assert.equal(statusOf(answer), status)
    assert.equal(problemOf(answer)['code'], code)
  })
}

function problemOf(answer: string): Record<string, unknown> {
  return JSON.parse(bodyOf(answer)) as Record<string, unknown>
}
