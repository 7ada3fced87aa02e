/** policies/service against fakes of the services: every name leads to one upstream on loopback, which shows a certificate for it. */
import assert from 'node:assert/strict'
import { createSecureContext, type SecureContext } from 'node:tls'
import { after, before, test } from 'node:test'
import { loadPolicy } from '../../src/policy/policy.ts'
import { parseUpstreamProxy, type Question } from '../../src/sidecar/sidecar.ts'
import { agentAuthorization, PLACEHOLDER } from '../support/aws-agent.ts'
import { faultOfSignature } from '../support/aws-verifier.ts'
import { openTestGate, type TestGate } from '../support/gate.ts'
import { writeFiles } from '../support/policy.ts'
import { exchangeTls, statusOf } from '../support/raw-client.ts'
import { APPLICATION_CASES } from '../support/service-cases-applications.ts'
import { SERVICE_CASES } from '../support/service-cases.ts'
import { filledTemplates, policyFromEnvironment, secretsInHead, SERVICES } from '../support/service-presets.ts'
import { openHttpProxy } from '../support/upstream-proxies.ts'
import { createUpstreamCa, leafFor, openUpstream, type Recorded, type Upstream } from '../support/upstream.ts'

const CASES = [...SERVICE_CASES, ...APPLICATION_CASES]

for (const { service, read, write } of SERVICES) {
  const cases = CASES.filter((entry) => entry.service === service)

  test(`service/${service} has a case here, and one with a write where it has a preset for it`, () => {
    assert.ok(cases.length > 0)
    if (read !== undefined && write !== undefined) assert.ok(cases.some((entry) => entry.write !== undefined))
  })

  for (const entry of cases) {
    const first = read ?? write ?? service
    test(`service/${first}: ${entry.read} goes out with the credential in its place, and what only writes does not`, async () => {
      await using setting = await openSetting(first)
      await passes(setting, entry.read, entry.as, entry.sees, { isAsked: write === undefined && entry.asks === true })
      if (entry.plain !== undefined) await passesBare(setting, entry.plain)
      if (entry.own !== undefined) await passes(setting, entry.own, OWN, OWN)
      if (entry.write !== undefined) await isRefused(setting, entry.write, entry.writeAs ?? entry.as)
      if (entry.never !== undefined) await isRefused(setting, entry.never)
    })

    if (write === undefined || entry.write === undefined) continue
    const request = entry.write
    test(`service/${write}: ${request} goes out with the credential in its place${entry.asks === true ? ', once somebody said yes' : ''}`, async () => {
      await using setting = await openSetting(write)
      await passes(setting, request, entry.writeAs ?? entry.as, entry.writeSees ?? (entry.writeAs === undefined ? entry.sees : undefined), {
        isAsked: entry.asks === true,
        ...(entry.form !== undefined && { form: entry.form }),
      })
      if (entry.plain !== undefined) await passesBare(setting, entry.plain)
      if (entry.own !== undefined) await passes(setting, entry.own, OWN, OWN)
      if (entry.never !== undefined) await isRefused(setting, entry.never)
    })
  }
}

test('an agent without the placeholder gets no credential at a service that swaps one', async () => {
  await using setting = await openSetting('github')
  await passesBare(setting, 'GET https://api.github.com/repos/acme/app')
})

test('the placeholder of one service is refused at the host that it is redirected to', async () => {
  await using setting = await openSetting('github')
  await isRefused(setting, 'GET https://codeload.github.com/acme/app/tar.gz/main', 'Authorization: Bearer {}', 'placeholder_misplaced')
})

const OWN = 'Authorization: Bearer own.jwt'

type Setting = AsyncDisposable & {
  readonly gate: TestGate
  readonly ca: string
  readonly upstream: Upstream
  readonly questions: readonly Question[]
  readonly values: Readonly<Record<string, string>>
  /** The one that stands for `{}`. */
  readonly placeholder: string
  readonly secret: string
}

/** All of the network behind one upstream. */
type Network = AsyncDisposable & { readonly upstream: Upstream; readonly proxyPort: number; readonly caFile: string }
let network: Network
before(async () => (network = await openNetwork()))
after(() => network[Symbol.asyncDispose]())

async function openNetwork(): Promise<Network> {
  await using parts = new AsyncDisposableStack()
  const { authority, file } = parts.use(await createUpstreamCa())
  const contexts = new Map<string, SecureContext>()
  const tls = {
    ...leafFor(authority, 'fake.example.com'),
    SNICallback: (host: string, done: (error: null, context: SecureContext) => void) => {
      const context = contexts.get(host) ?? createSecureContext(leafFor(authority, host))
      contexts.set(host, context)
      done(null, context)
    },
  }
  const upstream = parts.use(await openUpstream(undefined, tls))
  const proxy = parts.use(await openHttpProxy({ leadsTo: upstream.port }))
  const all = parts.move()
  return { upstream, proxyPort: proxy.port, caFile: file, [Symbol.asyncDispose]: () => all.disposeAsync() }
}

/** A gate with the policy of a preset's head. */
async function openSetting(preset: string): Promise<Setting> {
  await using parts = new AsyncDisposableStack()
  const policy = policyFromEnvironment(preset)
  const files = parts.use(writeFiles({ ...filledTemplates(), 'policy.yaml': policy }))
  const names = secretsInHead(preset)
  const values = Object.fromEntries(names.map((name) => [name, `${name.replaceAll('_', '')}canary7f3a9c5e1b`]))
  const questions: Question[] = []
  const gate = parts.use(
    await openTestGate({
      policy,
      env: values,
      upstreamCa: [network.caFile],
      config: {
        loadPolicy: () => loadPolicy([files.at('policy.yaml')], { policyDirs: [files.dir, 'policies'] }),
        upstreamProxy: parseUpstreamProxy(`http://127.0.0.1:${network.proxyPort}`),
        ask: async (question) => {
          questions.push(question)
          return { decision: 'allow', scope: 'once' }
        },
      },
    }),
  )
  const ca = await gate.caPem()
  const all = parts.move()
  return {
    gate,
    ca,
    upstream: network.upstream,
    questions,
    values,
    placeholder: Object.values(gate.sidecar.placeholders)[0] ?? 'no-placeholder',
    secret: values[names.at(names[0] === 'DD_API_KEY' ? 0 : -1) ?? ''] ?? '',
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

async function passes(
  setting: Setting,
  request: string,
  as = '',
  sees: string = as,
  { isAsked = false, form = '' }: { isAsked?: boolean; form?: string } = {},
): Promise<void> {
  const earlier = { requests: setting.upstream.requests.length, questions: setting.questions.length }
  const answer = await send(setting, request, as, form)
  assert.equal(statusOf(answer), 200, `${request}\n${answer}`)
  assert.equal(setting.questions.length - earlier.questions, isAsked ? 1 : 0)
  assert.equal(setting.upstream.requests.length, earlier.requests + 1)
  const arrived = setting.upstream.requests.at(-1)
  assert.ok(arrived)
  const { method, path } = partsOf(request)
  assert.equal(`${arrived.method} ${arrived.url}`, `${method} ${path.replaceAll('{}', setting.secret)}`)
  if (sees.startsWith('aws ')) return isSigned(setting, arrived, sees)
  const lines = sees === 'none' || sees === '' ? [] : linesOf(sees, (text) => fill(text, setting.secret, setting.values))
  assert.deepEqual(credentialLines(arrived), lines.map(lower).toSorted())
  if (form !== '') assert.equal(arrived.body.toString(), form.replaceAll('{}', setting.secret))
  for (const placeholder of Object.values(setting.gate.sidecar.placeholders)) assert.ok(!textOf(arrived).includes(placeholder))
}

async function passesBare(setting: Setting, request: string): Promise<void> {
  await passes(setting, request)
  const arrived = setting.upstream.requests.at(-1)
  for (const value of Object.values(setting.values)) assert.ok(arrived && !textOf(arrived).includes(value))
}

async function isRefused(setting: Setting, request: string, as = '', code?: string): Promise<void> {
  const earlier = setting.upstream.requests.length
  const answer = await send(setting, request, as, '')
  assert.equal(statusOf(answer), 403, `${request}\n${answer}`)
  if (code !== undefined) assert.ok(answer.includes(`"${code}"`), answer)
  assert.equal(setting.upstream.requests.length, earlier)
}

/** What a refused tunnel says is an answer as well. */
async function send(setting: Setting, request: string, as: string, form: string): Promise<string> {
  const { method, host, path } = partsOf(request)
  const target = path.replaceAll('{}', setting.placeholder)
  const fields = as.startsWith('aws ')
    ? awsLines(setting, as)
    : linesOf(as === 'none' ? '' : as, (text) => fill(text, setting.placeholder, {}))
  const body = form.replaceAll('{}', setting.placeholder)
  const type = form === '' ? '' : 'Content-Type: application/x-www-form-urlencoded\r\n'
  const length = method === 'GET' || method === 'HEAD' ? '' : `${type}Content-Length: ${Buffer.byteLength(body)}\r\n`
  const head = `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n${fields.map((line) => `${line}\r\n`).join('')}${length}Connection: close\r\n\r\n`
  try {
    return await exchangeTls(setting.gate.port, host, 443, setting.ca, head + body)
  } catch (error) {
    return /answered \d+: ([^]*)$/.exec(String(error))?.[1] ?? String(error)
  }
}

function partsOf(request: string): { method: string; host: string; path: string } {
  const [, method = '', host = '', path = ''] = /^([A-Z]+) https:\/\/([^/]+)(\/.*)$/.exec(request) ?? []
  return { method, host, path }
}

function linesOf(text: string, change: (line: string) => string): string[] {
  return text.split('\n').filter(Boolean).map(change)
}

/** A line with the credential in it, inside of basic authentication as well. */
function fill(line: string, value: string, values: Readonly<Record<string, string>>): string {
  const filled = line.replace(/\{([A-Z_]*)\}/g, (_all, name: string) => (name === '' ? value : (values[name] ?? '')))
  return filled.replace(/ Basic (.*)$/, (_all, login: string) => ` Basic ${Buffer.from(login).toString('base64')}`)
}

const CREDENTIALS =
  /^(?:authorization|private-token|x-nuget-apikey|x-api-key|x-goog-api-key|api-key|apikey|dd-.*|circle-token|x-figma-token|x-postmark-.*)$/

/** Every field with a credential that arrived, also one that nobody expected. */
function credentialLines({ rawHeaders }: Recorded): string[] {
  const lines: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase()
    if (CREDENTIALS.test(name)) lines.push(`${name}: ${rawHeaders[i + 1] ?? ''}`)
  }
  return lines.toSorted()
}

function lower(line: string): string {
  return line.replace(/^[^:]+/, (name) => name.toLowerCase())
}

function textOf({ url, rawHeaders, body }: Recorded): string {
  const encoded = rawHeaders.map((value) => (value.startsWith('Basic ') ? Buffer.from(value.slice(6), 'base64').toString() : value))
  return [url, ...encoded, body.toString('latin1')].join('\n')
}

const TIME = '20260102T030405Z'

/** As an SDK signs, with the worthless key. */
function awsLines({ gate }: Setting, as: string): string[] {
  const scope = as.slice('aws '.length)
  const isStore = scope.endsWith('/s3')
  const signed = isStore ? 'host;x-amz-content-sha256;x-amz-date' : 'host;x-amz-date'
  const authorization = agentAuthorization(TIME.slice(0, 8), scope, signed)
  const key = gate.sidecar.placeholders['AWS_ACCESS_KEY_ID'] ?? ''
  return [
    `X-Amz-Date: ${TIME}`,
    ...(isStore ? ['X-Amz-Content-Sha256: UNSIGNED-PAYLOAD'] : []),
    `Authorization: ${authorization.replace(PLACEHOLDER, key)}`,
  ]
}

function isSigned({ values }: Setting, arrived: Recorded, as: string): void {
  const [region = '', service = ''] = as.slice('aws '.length).split('/')
  const account = {
    accessKeyId: values['AWS_ACCESS_KEY_ID'] ?? '',
    secretKey: values['AWS_SECRET_ACCESS_KEY'] ?? '',
    region,
    service,
  }
  assert.equal(faultOfSignature(arrived, account), undefined)
}
