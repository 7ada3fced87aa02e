import type { AwsKeys } from '../../src/credential/aws-signature.ts'
import { Secret } from '../../src/kernel/secret.ts'

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
