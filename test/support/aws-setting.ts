import { signedBySdk, type SdkSettings, type ToSign } from './aws-agent.ts'
import { faultOfSignature, type ArrivedRequest, type AwsAccount } from './aws-verifier.ts'
import { openEveryWay, routeTo, type EveryWay } from './every-way.ts'
import type { Fields } from './every-client.ts'
import { openHttp2Upstream, type RecordedStream } from './http2-upstream.ts'
import { openUpstream } from './upstream.ts'

const REGION = 'eu-central-1'
const FILES = 'files.s3.eu-central-1.amazonaws.com'
const QUEUE = 'sqs.eu-central-1.amazonaws.com'
const OTHER = 'other.example.com'
/** A service of plain paths with temporary keys, one of HTTP/2 without, and a host that is none of AWS. */
export const AWS_ACCOUNT = { REGION, FILES, QUEUE, OTHER } as const

type Echoed = { readonly headers: Record<string, string>; readonly body: Buffer }

/** A gate with all its ways in, before services that verify what arrives. */
export type AwsSetting = AsyncDisposable & {
  readonly every: EveryWay
  readonly account: Required<AwsAccount>
  /** The worthless keys that the agent has in its environment. */
  readonly keyId: string
  readonly secretKey: string
  /** Everything that arrived anywhere, and what each service found wrong with it. */
  readonly arrivals: readonly ArrivedRequest[]
  readonly faults: readonly (string | undefined)[]
  /** Answers of the service of HTTP/2 wait for it. */
  until: Promise<unknown> | undefined
  /** Answer of the first service, 403, in place of "ok". */
  echo: ((account: Required<AwsAccount>) => Echoed) | undefined
  sign(request: ToSign, sdk: Pick<SdkSettings, 'region' | 'service'>): Fields
  /** What must be in no request, and is in one of these: the true secret key or a placeholder. */
  strayIn(requests: readonly ArrivedRequest[]): string[]
  /** What is true in a text that the agent or a reader of the log may see. */
  secretsIn(text: string): string[]
}

export async function openAwsSetting(): Promise<AwsSetting> {
  await using parts = new AsyncDisposableStack()
  const account: Required<AwsAccount> = {
    accessKeyId: 'AKIACANARYTRUE234567',
    secretKey: 'trueSecretKeyCanary/0123456789+abcdefghi',
    sessionToken: 'trueSessionTokenCanary//7f3a9c5e1b==',
    region: REGION,
    service: 's3',
  }
  const every = parts.use(
    await openEveryWay(awsPolicy(), [FILES, QUEUE, OTHER], {
      env: { AWS_SECRET: account.secretKey, AWS_ID: account.accessKeyId, AWS_TOKEN: account.sessionToken },
    }),
  )
  const arrivals: ArrivedRequest[] = []
  const faults: (string | undefined)[] = []
  const { AWS_ACCESS_KEY_ID: keyId = '', AWS_SECRET_ACCESS_KEY: secretKey = '' } = every.gate.sidecar.placeholders
  const setting: Omit<AwsSetting, typeof Symbol.asyncDispose> = {
    every,
    account,
    keyId,
    secretKey,
    arrivals,
    faults,
    until: undefined,
    echo: undefined,
    sign: (request, sdk) => signedBySdk(request, { accessKeyId: keyId, secretKey, ...sdk }),
    strayIn: (requests) => valuesIn(textOf(requests), [account.secretKey, secretKey, keyId]),
    secretsIn: (text) => valuesIn(text, [account.secretKey, account.accessKeyId, account.sessionToken]),
  }
  const { sessionToken: _, ...lasting } = account
  const note = (arrived: ArrivedRequest, by: AwsAccount): string | undefined => {
    arrivals.push(arrived)
    faults.push(faultOfSignature(arrived, by))
    return faults.at(-1)
  }
  parts.use(
    await openUpstream(
      (request, response) => {
        const fault = note(request, account)
        const echoed = fault === undefined ? setting.echo?.(account) : undefined
        if (echoed) response.writeHead(403, echoed.headers).end(echoed.body)
        else response.writeHead(fault === undefined ? 200 : 403).end(fault ?? 'ok')
      },
      every.tls(FILES),
      every.at(FILES, 443),
    ),
  )
  const queue = parts.use(
    await openHttp2Upstream(every.tls(QUEUE), {
      isRecording: false,
      place: every.at(QUEUE, 443),
      answer(request, response) {
        const chunks: Buffer[] = []
        const recorded = queue.requests.at(-1) as RecordedStream
        request.on('data', (chunk: Buffer) => chunks.push(chunk))
        request.on('end', () => {
          const fault = note(asHttp1(recorded, Buffer.concat(chunks)), { ...lasting, service: 'sqs' })
          void (setting.until ?? Promise.resolve()).then(() => response.writeHead(fault === undefined ? 200 : 403).end(fault ?? 'ok'))
        })
      },
    }),
  )
  parts.use(
    await openUpstream(
      (request, response) => {
        arrivals.push(request)
        response.end('ok')
      },
      every.tls(OTHER),
      every.at(OTHER, 443),
    ),
  )
  const all = parts.move()
  return Object.assign(setting, { [Symbol.asyncDispose]: () => all.disposeAsync() })
}

function asHttp1({ method, url, rawHeaders }: RecordedStream, body: Buffer): ArrivedRequest {
  const fields = rawHeaders.flatMap((name, i) => {
    if (i % 2 === 1 || (name.startsWith(':') && name !== ':authority')) return []
    return [name === ':authority' ? 'host' : name, rawHeaders[i + 1] ?? '']
  })
  return { method, url, rawHeaders: fields, body }
}

/** `rule` is added to the rules of the services. */
export function awsPolicy(rule = ''): string {
  const opened = 'addresses: ["127.0.0.0/8"]'
  const hosts = [
    { id: 'files', host: FILES, credential: 'files' },
    { id: 'queue', host: QUEUE, credential: 'queue' },
    { id: 'other', host: OTHER, credential: undefined },
  ]
  const rules = hosts.map(({ id, host }) => `    - {id: ${id}, host: ${host}, action: allow, ${opened}${host === OTHER ? '' : rule}}\n`)
  const routes = hosts.map(
    ({ host, credential }) =>
      `  - {name: ${routeTo('https', host)}, upstream: "https://${host}", ${credential === undefined ? '' : `credential: ${credential}, `}${opened}}\n`,
  )
  return `version: 1
network:
  rules:
${rules.join('')}routes:
${routes.join('')}credentials:
  - id: files
    secret: AWS_SECRET
    inject: {domains: [${FILES}], aws: {region: ${REGION}, service: s3, access_key_id: AWS_ID, session_token: AWS_TOKEN}}
  - {id: queue, secret: AWS_SECRET, inject: {domains: [${QUEUE}], aws: {region: ${REGION}, service: sqs, access_key_id: AWS_ID}}}
secrets:
  - {name: AWS_SECRET, source: "env:AWS_SECRET"}
  - {name: AWS_ID, source: "env:AWS_ID"}
  - {name: AWS_TOKEN, source: "env:AWS_TOKEN"}
`
}

function textOf(requests: readonly ArrivedRequest[]): string {
  return requests.map(({ url, rawHeaders, body }) => [url, ...rawHeaders, body.toString('latin1')].join('\n')).join('\n')
}

/** Those of the values that are in the text, in one of the common spellings. */
function valuesIn(text: string, values: readonly string[]): string[] {
  return values.filter((value) => spellingsOf(value).some((spelling) => text.includes(spelling)))
}

function spellingsOf(value: string): string[] {
  const bytes = Buffer.from(value)
  // The middle of its base64, at each of the three offsets that it can have in a longer text.
  const inBase64 = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .slice(4, -4),
  )
  return [value, bytes.toString('hex'), encodeURIComponent(value), ...inBase64]
}
