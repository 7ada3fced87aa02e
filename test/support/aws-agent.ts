import { createHash } from 'node:crypto'
import type { AwsKeys } from '../../src/credential/aws-signature.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { signatureFor } from './aws-verifier.ts'
import type { Fields } from './every-client.ts'

/** The worthless access key that agents sign with. */
export const PLACEHOLDER = 'AKIASALLYPORT2345678'

/** As an agent signs it: with a worthless key, so that the signature itself says nothing. */
export function agentAuthorization(day: string, scope: string, signedHeaders: string): string {
  return `AWS4-HMAC-SHA256 Credential=${PLACEHOLDER}/${day}/${scope}/aws4_request, SignedHeaders=${signedHeaders}, Signature=${'0'.repeat(64)}`
}

/** True keys of an account. */
export function keysOf(accessKeyId: string, secretKey: string, sessionToken?: string): AwsKeys {
  return {
    accessKeyId: new Secret('AWS_KEY', accessKeyId),
    secretKey: new Secret('AWS_SECRET', secretKey),
    ...(sessionToken !== undefined && { sessionToken: new Secret('AWS_TOKEN', sessionToken) }),
  }
}

/** The first value of a field; `name` is lower case. */
export function valueOf(headers: readonly string[], name: string): string | undefined {
  const at = headers.findIndex((text, i) => i % 2 === 0 && text.toLowerCase() === name)
  return at === -1 ? undefined : headers[at + 1]
}

/** A request as an SDK sends it; `change` makes it the case of a test. */
export function agentHead(change: (head: { fields: Map<string, string[]>; authorization: string }) => void = () => {}): string[] {
  const head = {
    fields: new Map<string, string[]>([
      ['host', ['bucket.s3.eu-central-1.amazonaws.com']],
      ['x-amz-date', ['20240102T030405Z']],
      ['x-amz-content-sha256', ['UNSIGNED-PAYLOAD']],
      ['user-agent', ['aws-cli/2']],
    ]),
    authorization: agentAuthorization('20240102', 'eu-central-1/s3', 'host;x-amz-content-sha256;x-amz-date'),
  }
  change(head)
  const headers = [...head.fields].flatMap(([name, values]) => values.flatMap((value) => [name, value]))
  return head.authorization === '' ? headers : [...headers, 'Authorization', head.authorization]
}

/** What an SDK is given. `payload` is its X-Amz-Content-Sha256: the true hash, a word instead of one, or no such field. */
export type ToSign = {
  readonly method?: string
  readonly host: string
  readonly path?: string
  readonly fields?: Fields
  readonly body?: string | Buffer
  readonly payload?: 'hash' | 'none' | (string & {})
}

/** The keys that an SDK finds in its environment, and what it is set to. */
export type SdkSettings = { readonly accessKeyId: string; readonly secretKey: string; readonly region: string; readonly service: string }

/** The fields of a request, signed as an SDK does. */
export function signedBySdk(
  { method = 'GET', host, path = '/', fields = [], body = '', payload = 'hash' }: ToSign,
  sdk: SdkSettings,
): Fields {
  const stamp = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')
  const hash = createHash('sha256').update(body).digest('hex')
  const said: Fields = payload === 'none' ? [] : [['X-Amz-Content-Sha256', payload === 'hash' ? hash : payload]]
  const all: Fields = [...fields, ['X-Amz-Date', stamp], ...said]
  const signed = [...new Set(['host', ...all.map(([name]) => name.toLowerCase())])].toSorted()
  const line = payload === 'none' || payload === 'hash' ? hash : payload
  const request = { method, url: path, rawHeaders: ['host', host, ...all.flat()], body: Buffer.from(body) }
  const signature = signatureFor(request, sdk, stamp, signed, line)
  const scope = `${stamp.slice(0, 8)}/${sdk.region}/${sdk.service}/aws4_request`
  const text = `Credential=${sdk.accessKeyId}/${scope}, SignedHeaders=${signed.join(';')}, Signature=${signature}`
  return [...all, ['Authorization', `AWS4-HMAC-SHA256 ${text}`]]
}
