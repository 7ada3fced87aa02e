/** I1, I5, I6: a credential is written only over verified TLS, only for its hosts, methods and paths, and replaces what the agent sent. Source: OpenSandbox#955. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { API, CANARY, openSetting, OTHER, policyFor } from '../support/setting.ts'
import { openTestGate } from '../support/gate.ts'
import { createUpstreamCa, leafFor, openUpstream } from '../support/upstream.ts'
import { bodyOf, exchangeRaw, exchangeTls, statusOf } from '../support/raw-client.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { system } from '../../src/kernel/system.ts'

const carries = (rawHeaders: readonly string[] = []): boolean =>
  rawHeaders.some((field) => field.includes(CANARY) || field.includes(Buffer.from(`x:${CANARY}`).toString('base64')))

for (const { why, host, method, path, inject } of [
  { why: 'another allowed host', host: OTHER, method: 'GET', path: '/', inject: undefined },
  {
    why: 'another path of its host',
    host: API,
    method: 'GET',
    path: '/v2/x',
    inject: `{domains: [${API}], paths: ["/v1/**"], header: Authorization, prefix: "Bearer "}`,
  },
  {
    why: 'another method',
    host: API,
    method: 'DELETE',
    path: '/v1/x',
    inject: `{domains: [${API}], methods: [GET], header: Authorization, prefix: "Bearer "}`,
  },
  { why: 'a signed URL (AWS)', host: API, method: 'GET', path: '/x?X-Amz-Credential=a&X-Amz-Signature=abc', inject: undefined },
  { why: 'a signed URL (Google)', host: API, method: 'GET', path: '/x?x-goog-credential=b&x-goog-signature=abc', inject: undefined },
  { why: 'a signed URL (Azure)', host: API, method: 'GET', path: '/x?sv=1&se=2&s%69g=abc', inject: undefined },
]) {
  test(`I5 no credential on ${why}`, async () => {
    await using upstreamCa = await createUpstreamCa()
    await using secure = await openUpstream(undefined, leafFor(upstreamCa.authority, host))
    await using gate = await openTestGate({
      policy: policyFor([secure.port], { ...(inject !== undefined && { inject }) }),
      env: { API_TOKEN: CANARY },
      upstreamCa: [upstreamCa.file],
      hosts: { [API]: ['127.0.0.1'], [OTHER]: ['127.0.0.1'] },
    })
    const answer = await exchangeTls(
      gate.port,
      host,
      secure.port,
      await gate.caPem(),
      `${method} ${path} HTTP/1.1\r\nHost: ${host}:${secure.port}\r\nConnection: close\r\n\r\n`,
    )
    assert.equal(statusOf(answer), 200)
    assert.equal(secure.requests.length, 1)
    assert.equal(carries(secure.requests[0]?.rawHeaders), false)
  })
}

for (const [why, fields] of [
  ['the same field', ['Authorization: agent-own']],
  ['the same field in lower case', ['authorization: agent-own']],
  ['the same field twice', ['Authorization: agent-own', 'AUTHORIZATION: agent-own-2']],
  ['a sibling field', ['X-Api-Key: agent-own', 'Private-Token: agent-own-2']],
] as const) {
  test(`I5 what the agent sent in ${why} is replaced by exactly one credential`, async () => {
    await using setting = await openSetting()
    const { gate, secure, ca } = setting
    await exchangeTls(
      gate.port,
      API,
      secure.port,
      ca,
      `GET / HTTP/1.1\r\nHost: ${API}:${secure.port}\r\n${fields.join('\r\n')}\r\nConnection: close\r\n\r\n`,
    )
    const raw = secure.requests[0]?.rawHeaders ?? []
    assert.equal(raw.filter((field) => field === `Bearer ${CANARY}`).length, 1)
    assert.equal(
      raw.some((field) => field.includes('agent-own')),
      false,
    )
  })
}

for (const path of ['/x?sig=', '/x?Signature=', '/x?sig=1', '/x?X-Amz-Signature=&X-Amz-Credential=a', '/x?signature=1']) {
  test(`I5 "${path}" is no signed URL: the credential goes on it, and the agent's own does not`, async () => {
    await using setting = await openSetting()
    const { gate, secure, ca } = setting
    await exchangeTls(
      gate.port,
      API,
      secure.port,
      ca,
      `GET ${path} HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nX-Api-Key: agent-own\r\nConnection: close\r\n\r\n`,
    )
    assert.equal(carries(secure.requests[0]?.rawHeaders), true)
    assert.equal(secure.requests[0]?.rawHeaders.includes('agent-own'), false)
  })
}

test("I5 where the credential is withheld (signed URL), the agent's own does not take its place", async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `GET /x?sig=1&se=2 HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nAuthorization: agent-own\r\nX-Api-Key: agent-own\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(secure.requests.length, 1)
  assert.equal(secure.requests[0]?.rawHeaders.includes('agent-own'), false)
})

test('I5 Proxy-Authorization of the agent ends at the gate', async () => {
  await using setting = await openSetting()
  const { gate, plain } = setting
  await exchangeRaw(
    gate.port,
    `GET http://${API}:${plain.port}/ HTTP/1.1\r\nHost: ${API}:${plain.port}\r\nProxy-Authorization: Basic c2VjcmV0\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(
    plain.requests[0]?.rawHeaders.some((field) => /proxy-authorization|c2VjcmV0/i.test(field)),
    false,
  )
})

test('a redirect to another host is given to the agent, not followed', async () => {
  await using setting = await openSetting({
    answer: (_request, response) => response.writeHead(302, { location: `https://${OTHER}/` }).end(),
  })
  const { gate, secure, ca } = setting
  const answer = await exchangeTls(
    gate.port,
    API,
    secure.port,
    ca,
    `GET / HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(statusOf(answer), 302)
  assert.equal(secure.requests.length, 1)
})

const YEARS_AGO = { ...system, now: () => Date.now() - 3 * 365 * 24 * 3_600_000 }
for (const [why, make] of [
  ['of an unknown authority', async () => ({ trusted: await createUpstreamCa(), signer: (await createUpstreamCa()).authority, host: API })],
  [
    'for another name',
    async () => (({ authority, ...ca }) => ({ trusted: { authority, ...ca }, signer: authority, host: OTHER }))(await createUpstreamCa()),
  ],
  [
    'for a name one level up',
    async () =>
      (({ authority, ...ca }) => ({ trusted: { authority, ...ca }, signer: authority, host: 'example.com' }))(await createUpstreamCa()),
  ],
  [
    'that has expired',
    async () =>
      (({ authority, ...ca }) => ({ trusted: { authority, ...ca }, signer: authority, host: API }))(await createUpstreamCa(YEARS_AGO)),
  ],
] as const) {
  test(`I6 an upstream with a certificate ${why} gets no request, and the agent a coded 502`, async () => {
    const { trusted, signer, host } = await make()
    await using secure = await openUpstream(undefined, leafFor(signer, host))
    await using gate = await openTestGate({
      policy: policyFor([secure.port]),
      env: { API_TOKEN: CANARY },
      upstreamCa: [trusted.file],
      hosts: { [API]: ['127.0.0.1'] },
    })
    const answer = await exchangeTls(
      gate.port,
      API,
      secure.port,
      await gate.caPem(),
      `GET / HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nConnection: close\r\n\r\n`,
    )
    assert.equal(statusOf(answer), 502)
    assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'upstream_tls_failed')
    assert.equal(secure.requests.length, 0)
    assert.doesNotMatch(answer + gate.log() + (await gate.auditText()), new RegExp(CANARY))
    await trusted[Symbol.asyncDispose]()
  })
}

test('I6 an upstream that speaks plain HTTP where TLS is due gets nothing', async () => {
  await using setting = await openSetting()
  const { gate, plain, ca } = setting
  const answer = await exchangeTls(
    gate.port,
    API,
    plain.port,
    ca,
    `GET / HTTP/1.1\r\nHost: ${API}:${plain.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(statusOf(answer), 502)
  assert.equal(plain.requests.length, 0)
})

for (const [why, value, code] of [
  ['is not set', undefined, 'secret_missing'],
  ['is empty', '', 'secret_invalid'],
  ['has CR LF', `${CANARY}\r\nX-Evil: 1`, 'secret_invalid'],
  ['has a bare LF', `${CANARY}\nX`, 'secret_invalid'],
  ['has NUL', `${CANARY}\0`, 'secret_invalid'],
  ['is not ASCII', `${CANARY}é`, 'secret_invalid'],
  ['ends with a space', `${CANARY} `, 'secret_invalid'],
] as const) {
  test(`I1 a secret that ${why} stops the start with ${code}, its name, and not its value`, async () => {
    await assert.rejects(
      openTestGate({ policy: policyFor([443]), env: value === undefined ? {} : { API_TOKEN: value } }),
      (error: unknown) => {
        assert.ok(error instanceof SallyportError)
        assert.equal(error.code, code)
        assert.match(error.message, /API_TOKEN/)
        assert.doesNotMatch(error.message + String(error.hint) + String(error.stack), new RegExp(CANARY))
        return true
      },
    )
  })
}

test('a secret from a file is read without its last line break; a missing file stops the start', async () => {
  await using setting = await openSetting({ source: 'file:/nonexistent', inject: '' })
  const file = join(setting.gate.folder, 'token')
  await writeFile(file, `${CANARY}\n`, { mode: 0o400 })
  await using second = await openSetting({ source: `file:${file}` })
  await exchangeTls(
    second.gate.port,
    API,
    second.secure.port,
    second.ca,
    `GET / HTTP/1.1\r\nHost: ${API}:${second.secure.port}\r\nConnection: close\r\n\r\n`,
  )
  assert.equal(carries(second.secure.requests[0]?.rawHeaders), true)
  await assert.rejects(openSetting({ source: 'file:/nonexistent/token' }), { code: 'secret_missing' })
})

test('a command that prints a secret is run once for concurrent requests and again after it failed', async () => {
  await using folder = await openSetting({ inject: '' })
  const counter = join(folder.gate.folder, 'runs')
  const script = join(folder.gate.folder, 'print-token')
  await writeFile(script, `#!/bin/sh\necho run >> ${counter}\necho ${CANARY}\n`, { mode: 0o700 })
  await using setting = await openSetting({ source: `exec:${script}` })
  const { gate, secure, ca } = setting
  const ask = (): Promise<string> =>
    exchangeTls(gate.port, API, secure.port, ca, `GET / HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nConnection: close\r\n\r\n`)
  await Promise.all([ask(), ask(), ask()])
  assert.equal(secure.requests.filter((request) => carries(request.rawHeaders)).length, 3)
  const { readFile } = await import('node:fs/promises')
  assert.equal((await readFile(counter, 'utf8')).split('\n').filter(Boolean).length, 1)
})

for (const [why, body] of [
  ['fails', 'echo leak-$0 >&2; exit 3'],
  ['prints nothing', 'true'],
  ['prints two lines', 'printf "a\\nb\\n"'],
] as const) {
  test(`I3 a command for a secret that ${why}: 502 secret_unavailable, and nothing is sent`, async () => {
    await using folder = await openSetting({ inject: '' })
    const script = join(folder.gate.folder, 'print-token')
    await writeFile(script, `#!/bin/sh\n${body}\n`, { mode: 0o700 })
    await using setting = await openSetting({ source: `exec:${script}` })
    const { gate, secure, ca } = setting
    const answer = await exchangeTls(
      gate.port,
      API,
      secure.port,
      ca,
      `GET / HTTP/1.1\r\nHost: ${API}:${secure.port}\r\nConnection: close\r\n\r\n`,
    )
    assert.equal(statusOf(answer), 502)
    assert.equal((JSON.parse(bodyOf(answer)) as { code: string }).code, 'secret_unavailable')
    assert.equal(secure.connections, 0)
    assert.doesNotMatch(answer, /leak-/)
  })
}

test('I1 the secret is in no answer of the gate, no log line and no audit line of a day of errors', async () => {
  await using setting = await openSetting()
  const { gate, secure, ca } = setting
  const { port } = secure
  const answers = [
    await exchangeTls(gate.port, API, port, ca, `GET / HTTP/1.1\r\nHost: ${API}:${port}\r\nConnection: close\r\n\r\n`),
    await exchangeRaw(gate.port, `GET http://${API}:1/ HTTP/1.1\r\nHost: ${API}:1\r\n\r\n`),
    await exchangeRaw(gate.port, 'GARBAGE\r\n\r\n'),
  ]
  await secure[Symbol.asyncDispose]()
  answers.push(await exchangeTls(gate.port, API, port, ca, `GET / HTTP/1.1\r\nHost: ${API}:${port}\r\nConnection: close\r\n\r\n`))
  assert.deepEqual(answers.map(statusOf), [200, 403, 400, 502])
  assert.doesNotMatch(
    answers.join('') + gate.log() + (await gate.auditText()),
    new RegExp(`${CANARY}|${Buffer.from(CANARY).toString('base64')}`),
  )
})
